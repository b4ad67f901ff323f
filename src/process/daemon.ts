/** The gateway with its protocols. The process runs one; tests run them in their own process. */
import { driverTypes } from '../../drivers/index.js'
import { protocols as allProtocols } from '../../protocols/index.js'
import { sitePath } from '../../protocols/lib/client.js'
import type { RequestHandler, Protocol, ProtocolEnv } from '../../protocols/lib/protocol.js'
import { Certificate } from '../../protocols/lib/certificate.js'
import { ClientConnections } from '../../protocols/lib/client-connections.js'
import { HttpListener } from '../../protocols/lib/http-listener.js'
import type { ProtocolServer } from '../../protocols/lib/listen.js'
import type { FirstAdmin } from '../accounts/bootstrap.js'
import type { KeyFingerprint } from '../accounts/public-keys.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { settlesWithin } from '../base/cancellation.js'
import type { Log } from '../base/log.js'
import { pseudonymOf } from '../contract/own-requests.js'
import type { Addresses, Config } from '../installation/config.js'
import { storeDaemonUrl, lockDataFolder } from '../installation/data-folder.js'
import type { ProcessChannel } from '../database/engine.js'
import { Gateway, gatewayClosingSeconds } from '../gateway/gateway.js'
import { thisInstance } from '../installation/instance.js'
import type { LogTail } from '../gateway/log-tail.js'
import { connectableHost, splitAddress } from '../net/addresses.js'

/** Time for the protocols to close after draining. SFTP publishes partial uploads then. */
const protocolClosingSeconds = 37
/** Longest time from the end of draining to the end of `stop`. */
export const closingSeconds = protocolClosingSeconds + gatewayClosingSeconds

export interface Daemon {
  readonly gateway: Gateway
  /** The bound addresses, `HOST:PORT`; "off" where the configuration says so. */
  readonly addresses: Addresses
  /**
   * Rejects new requests, waits for running ones (by default `drain_seconds`), aborts the rest, and closes everything,
   * the database last. Closing takes at most `closingSeconds`, even if a backend does not answer.
   */
  stop(drainSeconds?: number): Promise<void>
  /** Reads the TLS certificate again. Never rejects. */
  reload(): Promise<void>
}

/** The parts of the daemon that differ from those of the whole program. */
interface DaemonParts {
  readonly drivers?: readonly AnyDriverType[]
  readonly protocols?: readonly Protocol[]
  /** The last lines of `log`. Absent: they are not held. */
  readonly logTail?: LogTail
  /** Called when another node has ended this one: the daemon must be stopped without draining. */
  readonly onEnded?: () => void
  /**
   * The channel to the process that has locked the data folder for this one and others. Absent: this process is alone.
   */
  readonly channel?: ProcessChannel
}

/**
 * Opens the data folder and starts every protocol. Resolves once all of them accept connections. If one fails, closes
 * everything and rejects with a GatewayError whose reason is a message for the admin. Files that a first run has
 * created remain.
 */
export async function startDaemon(
  config: Config,
  log: Log,
  admin: FirstAdmin,
  { drivers = driverTypes, protocols = allProtocols, ...parts }: DaemonParts = {},
): Promise<Daemon> {
  const certificate = await checkedConfig(config, log, protocols)
  const isWorker = parts.channel !== undefined
  const releaseFolder = isWorker ? async () => undefined : await lockFolder(config.data)
  const instance = thisInstance()
  const opening = Gateway.open({ config, log, ...parts, drivers, protocols, admin, instance })
  const making = makeServers(protocols, { config, log, opening, pseudonym: pseudonymOf(instance) }, certificate)
  making.catch(() => undefined)
  const gateway = await opening.catch(async (error: unknown) => {
    await releaseFolder()
    throw error
  })
  const started: ProtocolServer[] = []
  const drained = new AbortController()
  const close = async (drainSeconds: number): Promise<void> => {
    gateway.isDraining = true
    // Another program may soon listen at this address: the command line must not send it a token.
    if (!isWorker) await storeDaemonUrl(config.data, undefined).catch(() => undefined)
    const stopping = started.map(async (server) => {
      try {
        await server.stop(drained.signal)
      } catch (error) {
        log.error({ err: error }, 'a protocol could not be stopped')
      }
    })
    const stopped = Promise.all(stopping)
    if (!(await settlesWithin(stopped, (drainSeconds + protocolClosingSeconds) * 1000))) {
      log.warn({}, 'a protocol did not close its connections in time')
    }
    certificate?.close()
    await gateway.close()
    await releaseFolder()
  }
  let closed: Promise<void> | undefined
  const stop = async (drainSeconds = config.drain_seconds): Promise<void> => {
    // Of a later call too: it may be in a hurry.
    const draining = setTimeout(() => drained.abort(), drainSeconds * 1000)
    await (closed ??= close(drainSeconds)).finally(() => clearTimeout(draining))
  }
  try {
    const addresses: { http: string } & Record<string, string> = { ...config.addresses }
    const fingerprints: Record<string, readonly KeyFingerprint[]> = {}
    for (const [name, server] of await making) {
      addresses[name] = await listening(config.addresses[name] ?? '', server.start())
      if (server.fingerprints) fingerprints[name] = server.fingerprints
      started.push(server)
      gateway.connections.add(server)
    }
    gateway.listening = { addresses, fingerprints }
    await gateway.cluster.publishAddresses(addresses)
    if (!isWorker) await publishUrl(config, addresses, log)
    return { gateway, addresses, stop, reload: async () => certificate?.reload() }
  } catch (error) {
    await stop()
    throw error
  }
}

/**
 * Checks what the configuration names, before anything is opened. Resolves to the TLS certificate, if there is one.
 * Rejects with `invalid`.
 */
export async function checkedConfig(
  config: Config,
  log: Log,
  protocols: readonly Protocol[] = allProtocols,
): Promise<Certificate | undefined> {
  for (const protocol of protocols) await protocol.checkConfig?.(config, log)
  if ((config.addresses.https ?? 'off') === 'off') return undefined
  return Certificate.load({ certificate: config.tls_certificate, key: config.tls_key }, log)
}

/** The server of each address that is not off. Protocols without an address of their own are handlers of HTTP. */
async function makeServers(
  protocols: readonly Protocol[],
  env: ProtocolEnv,
  certificate: Certificate | undefined,
): Promise<readonly (readonly [name: string, server: ProtocolServer])[]> {
  const { addresses, site_url: siteUrl } = env.config
  const { log, pseudonym } = env
  const proxied = { proxies: env.config.proxy_protocol, log }
  const handlers = new Map<string, RequestHandler>()
  const servers = await Promise.all(
    protocols.map(async (protocol) => {
      if (!protocol.listen) {
        const prefix = protocol.path === '' ? '' : sitePath(siteUrl) + protocol.path
        handlers.set(prefix, await protocol.handler(env))
        return undefined
      }
      const address = addresses[protocol.name] ?? 'off'
      return address === 'off'
        ? undefined
        : ([protocol.name, await protocol.server(env, { ...splitAddress(address), proxied })] as const)
    }),
  )
  const { descriptors } = await env.opening
  const connections = new ClientConnections(descriptors, log, 'http')
  const shared = { proxied, handlers, connections, pseudonym }
  const http = (['http', 'https'] as const).flatMap((name) => {
    const address = addresses[name] ?? 'off'
    if (address === 'off') return []
    const tls = name === 'https' && certificate ? { certificate } : {}
    return [[name, new HttpListener({ ...splitAddress(address), ...shared, ...tls })] as const]
  })
  return [...http, ...servers.filter((server) => server !== undefined)]
}

/** Stores where the daemon accepts connections, for the command line. Never rejects. */
export async function publishUrl(config: Config, addresses: Addresses, log: Log): Promise<void> {
  await storeDaemonUrl(config.data, localUrl(addresses, sitePath(config.site_url))).catch((error: unknown) => {
    log.warn({ err: error }, 'failed to store the address of the daemon for the command line')
  })
}

/** The URL of the API for programs on this machine. */
function localUrl({ http, https = 'off' }: Addresses, site: string): string {
  const { host, port } = splitAddress(http === 'off' ? https : http)
  const name = connectableHost(host)
  return `${http === 'off' ? 'https' : 'http'}://${name.includes(':') ? `[${name}]` : name}:${port}${site}`
}

/** Reasons why no folder can be made or used at a path. They pass only when the configuration or the disk changes. */
const pathErrors: Readonly<Record<string, string>> = {
  EACCES: 'this user has no permission',
  EEXIST: 'a file is in its place',
  ELOOP: 'its path has too many symlinks',
  ENAMETOOLONG: 'its name is too long',
  ENOENT: 'no folder can be made there',
  ENOTDIR: 'a file is in its path',
  EROFS: 'the file system is read-only',
}

/** Like `lockDataFolder`; an error has a reason for the admin. */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  try {
    return await lockDataFolder(folder)
  } catch (error) {
    if (isGatewayError(error)) throw error
    const { code = '', message } = error as NodeJS.ErrnoException
    const why = pathErrors[code]
    const reason = `the data folder ${folder} cannot be used: ${why ?? message}`
    throw new GatewayError(why === undefined ? 'unavailable' : 'invalid', { reason, cause: error })
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
