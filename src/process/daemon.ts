/** The gateway with its protocols. The process runs one; tests run them in their own process. */
import { join } from 'node:path'
import { driverTypes } from '../../drivers/index.js'
import { httpHandler } from '../../protocols/http/server.js'
import { WebClient } from '../../protocols/http/site/web-client.js'
import { sitePath } from '../../protocols/lib/client.js'
import { HttpListener } from '../../protocols/lib/http-listener.js'
import type { ProtocolServer } from '../../protocols/lib/listen.js'
import { sftpServer } from '../../protocols/sftp/server.js'
import { webdavHandler } from '../../protocols/webdav/server.js'
import type { AdminPassword } from '../accounts/bootstrap.js'
import { listenerNames, type ListenerName } from '../accounts/protocols.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import { GatewayError, isGatewayError } from '../contract/errors.js'
import type { Log } from '../contract/log.js'
import type { Config } from '../gateway/config.js'
import { storeDaemonUrl, lockDataFolder } from '../gateway/data-folder.js'
import { Gateway } from '../gateway/gateway.js'
import { connectableHost, splitAddress } from '../net/addresses.js'
import { loadHostKeys } from './host-keys.js'

/** Longest time from the end of draining to the end of `stop`. */
export const closingSeconds = 25

export interface Daemon {
  readonly gateway: Gateway
  /** The bound addresses, `HOST:PORT`; "off" where the configuration says so. */
  readonly addresses: Readonly<Record<ListenerName, string>>
  /**
   * Rejects new requests, waits `drain_seconds` for running ones, aborts the rest, and closes everything, the database
   * last. Closing takes at most `closingSeconds`, even if a backend does not answer.
   */
  stop(): Promise<void>
}

/** What the servers are made of. They begin what needs no gateway, such as generating keys, while it opens. */
interface ServerEnv {
  readonly config: Config
  readonly opening: Promise<Gateway>
  readonly web: WebClient | undefined
}

/** How the server of each listen address is made. A protocol below a path of the HTTP address is one of its handlers. */
const servers: Readonly<Record<ListenerName, (env: ServerEnv) => Promise<ProtocolServer>>> = {
  async http({ config, opening, web }) {
    const clients = { trustedProxies: config.trusted_proxies, siteUrl: config.site_url }
    const gateway = await opening
    const handlers = new Map([
      ['', httpHandler(gateway, clients, web)],
      [`${sitePath(config.site_url)}/dav`, webdavHandler(gateway, clients)],
    ])
    return new HttpListener({ ...splitAddress(config.http), handlers })
  },

  async sftp({ config, opening }) {
    // Generating an RSA key at the first run is slow.
    const [gateway, hostKeys] = await Promise.all([opening, loadHostKeys(join(config.data, 'ssh'))])
    return sftpServer(gateway, { ...splitAddress(config.sftp), hostKeys })
  },
}

/**
 * Opens the data folder and starts every protocol. Resolves once all of them accept connections. If one fails, closes
 * everything and rejects with a GatewayError whose reason is a message for the admin. Files that a first run has
 * created remain.
 */
export async function startDaemon(
  config: Config,
  log: Log,
  adminPassword: AdminPassword,
  drivers: readonly AnyDriverType[] = driverTypes,
): Promise<Daemon> {
  const web = config.dist_dir === '' ? undefined : await WebClient.open(config, log)
  const releaseFolder = await lockFolder(config.data)
  const opening = Gateway.open({ config, log, drivers, adminPassword })
  const making = Promise.all(
    listenerNames
      .filter((name) => config[name] !== 'off')
      .map(async (name) => ({ name, server: await servers[name]({ config, opening, web }) })),
  )
  making.catch(() => undefined)
  const gateway = await opening.catch(async (error: unknown) => {
    await releaseFolder()
    throw error
  })
  const started: ProtocolServer[] = []
  const stop = async (): Promise<void> => {
    // Another program may soon listen at this address: the command line must not send it a token.
    await storeDaemonUrl(config.data, undefined).catch(() => undefined)
    const drainTimeout = new AbortController()
    const deadline = setTimeout(() => drainTimeout.abort(), config.drain_seconds * 1000)
    await Promise.all(started.map((server) => server.stop(drainTimeout.signal)))
    clearTimeout(deadline)
    await gateway.close()
    await releaseFolder()
  }
  try {
    const addresses = Object.fromEntries(listenerNames.map((name) => [name, 'off'])) as Record<ListenerName, string>
    for (const { name, server } of await making) {
      addresses[name] = await listening(config[name], server.start())
      started.push(server)
    }
    await storeDaemonUrl(config.data, localUrl(addresses.http, sitePath(config.site_url))).catch((error: unknown) => {
      log.warn({ err: error }, 'failed to store the address of the daemon for the command line')
    })
    return { gateway, addresses, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The URL of the API for programs on this machine. */
function localUrl(address: string, site: string): string {
  const { host, port } = splitAddress(address)
  const name = connectableHost(host)
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}${site}`
}

async function lockFolder(folder: string): Promise<() => Promise<void>> {
  try {
    return await lockDataFolder(folder)
  } catch (error) {
    if (isGatewayError(error)) throw error
    const why = (error as Error).message
    throw new GatewayError('unavailable', { reason: `the data folder ${folder} cannot be used: ${why}`, cause: error })
  }
}

const listenErrors: Readonly<Record<string, string>> = {
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
    const why = listenErrors[code] ?? message
    throw new GatewayError('unavailable', { reason: `cannot listen on ${address}: ${why}`, cause: error })
  }
}
