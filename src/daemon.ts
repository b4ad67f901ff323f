/** The gateway with its doors: what the process runs, and what tests run inside theirs. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { driverTypes } from '../drivers/index.js'
import { httpDoor } from '../protocols/http/server.js'
import { proxyList, sitePath } from '../protocols/lib/client.js'
import { HttpListener } from '../protocols/lib/http-listener.js'
import { sftpDoor } from '../protocols/sftp/door.js'
import { webdavDoor } from '../protocols/webdav/door.js'
import type { Config } from './config.js'
import { Gateway } from './gateway.js'
import { loadHostKeys } from './host-keys.js'
import type { Log } from './log.js'

export interface Daemon {
  readonly gateway: Gateway
  /** `HOST:PORT` of the HTTP API and WebDAV. */
  readonly http: string
  /** `HOST:PORT` of the SFTP server; undefined where it is off. */
  readonly sftp: string | undefined
  /** Accepts nothing new, lets what runs finish for `drain_seconds`, then ends it and closes everything. */
  stop(): Promise<void>
}

/**
 * Opens the data folder and every door; resolves once all of them accept. Rejects with a GatewayError or the system's error
 * where one of them cannot; nothing is left open then.
 */
export async function startDaemon(config: Config, log: Log, adminPassword?: string): Promise<Daemon> {
  await mkdir(config.data, { recursive: true, mode: 0o700 })
  // Making an RSA key takes a while at the first run: it goes on while the rest starts.
  const hostKeys = config.sftp === 'off' ? undefined : loadHostKeys(join(config.data, 'ssh'))
  hostKeys?.catch(() => undefined)
  const gateway = await Gateway.open({ config, log, drivers: driverTypes, adminPassword })
  const started: { stop(cut: AbortSignal): Promise<void> }[] = []
  const stop = async (): Promise<void> => {
    const cut = new AbortController()
    const deadline = setTimeout(() => cut.abort(), config.drain_seconds * 1000)
    await Promise.all(started.map((door) => door.stop(cut.signal)))
    clearTimeout(deadline)
    await gateway.close()
  }
  try {
    const clients = { trustedProxies: proxyList(config.trusted_proxies), siteUrl: config.site_url }
    const site = sitePath(config.site_url)
    const listener = new HttpListener({
      ...splitAddress(config.http),
      handlers: new Map([
        ['', httpDoor(gateway, clients)],
        [`${site}/dav`, webdavDoor(gateway, clients)],
      ]),
    })
    const http = await listener.start()
    started.push(listener)
    let sftp: string | undefined
    if (hostKeys) {
      const door = sftpDoor(gateway, { ...splitAddress(config.sftp), hostKeys: await hostKeys })
      sftp = (await door.start()).address
      started.push(door)
    }
    return { gateway, http, sftp, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

function splitAddress(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':')
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(address.slice(colon + 1)) }
}
