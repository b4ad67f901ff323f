/** The gateway with its doors: what the process runs, and what tests run inside theirs. */
import { join } from 'node:path'
import { driverTypes } from '../drivers/index.js'
import { httpDoor } from '../protocols/http/server.js'
import { WebClient } from '../protocols/http/site/web-client.js'
import { sitePath } from '../protocols/lib/client.js'
import { HttpListener } from '../protocols/lib/http-listener.js'
import { sftpDoor } from '../protocols/sftp/door.js'
import { webdavDoor } from '../protocols/webdav/door.js'
import type { AdminPassword } from './accounts/bootstrap.js'
import { connectableHost, splitAddress, type Config } from './config.js'
import { announceAddress, takeDataFolder } from './data-folder.js'
import type { AnyDriverType } from './driver.js'
import { GatewayError, isGatewayError } from './errors.js'
import { Gateway } from './gateway.js'
import { loadHostKeys } from './host-keys.js'
import type { Log } from './log.js'

export interface Daemon {
  readonly gateway: Gateway
  /** `HOST:PORT` of the HTTP API and WebDAV. */
  readonly http: string
  /** `HOST:PORT` of the SFTP server; undefined where it is off. */
  readonly sftp: string | undefined
  /**
   * Accepts nothing new, lets what runs finish for `drain_seconds`, then ends it and closes everything, the database last. That
   * takes 25 seconds at most, also where a backend does not answer.
   */
  stop(): Promise<void>
}

/**
 * Opens the data folder and every door; resolves once all of them accept. Rejects with a GatewayError, its reason
 * a sentence for the admin, where one of them cannot; nothing is left open then.
 * What a first run made stays.
 */
export async function startDaemon(
  config: Config,
  log: Log,
  adminPassword: AdminPassword,
  drivers: readonly AnyDriverType[] = driverTypes,
): Promise<Daemon> {
  const web = config.dist_dir === '' ? undefined : await WebClient.open(config, log)
  const giveBack = await takeFolder(config.data)
  // Making an RSA key takes a while at the first run: it goes on while the rest starts.
  const hostKeys = config.sftp === 'off' ? undefined : loadHostKeys(join(config.data, 'ssh'))
  hostKeys?.catch(() => undefined)
  const gateway = await Gateway.open({ config, log, drivers, adminPassword }).catch(async (error: unknown) => {
    await giveBack()
    throw error
  })
  const started: { stop(cut: AbortSignal): Promise<void> }[] = []
  const stop = async (): Promise<void> => {
    const cut = new AbortController()
    const deadline = setTimeout(() => cut.abort(), config.drain_seconds * 1000)
    await Promise.all(started.map((door) => door.stop(cut.signal)))
    clearTimeout(deadline)
    await gateway.close()
    await giveBack()
  }
  try {
    const clients = { trustedProxies: config.trusted_proxies, siteUrl: config.site_url }
    const site = sitePath(config.site_url)
    const listener = new HttpListener({
      ...splitAddress(config.http),
      handlers: new Map([
        ['', httpDoor(gateway, clients, web)],
        [`${site}/dav`, webdavDoor(gateway, clients)],
      ]),
    })
    const http = await listening(config.http, listener.start())
    started.push(listener)
    let sftp: string | undefined
    if (hostKeys) {
      const door = sftpDoor(gateway, { ...splitAddress(config.sftp), hostKeys: await hostKeys })
      sftp = (await listening(config.sftp, door.start())).address
      started.push(door)
    }
    await announceAddress(config.data, localUrl(http, site)).catch((error: unknown) => {
      log.warn({ err: error }, 'commands beside this daemon cannot learn its address')
    })
    return { gateway, http, sftp, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Where programs on this machine find the API. */
function localUrl(address: string, site: string): string {
  const { host, port } = splitAddress(address)
  const name = connectableHost(host)
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}${site}`
}

async function takeFolder(folder: string): Promise<() => Promise<void>> {
  try {
    return await takeDataFolder(folder)
  } catch (error) {
    if (isGatewayError(error)) throw error
    const why = (error as Error).message
    throw new GatewayError('unavailable', { reason: `the data folder ${folder} cannot be used: ${why}`, cause: error })
  }
}

const listenFaults: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken by another program',
  EACCES: 'ports below 1024 need a privilege that this process does not have',
  EADDRNOTAVAIL: 'no network interface of this machine has that address',
  ENOTFOUND: 'that host name is unknown',
}

async function listening<T>(address: string, start: Promise<T>): Promise<T> {
  try {
    return await start
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException
    const why = listenFaults[code] ?? message
    throw new GatewayError('unavailable', { reason: `cannot listen on ${address}: ${why}`, cause: error })
  }
}
