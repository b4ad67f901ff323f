/** A connection to an LDAP directory: where it may lead, its encryption, and its limits. */
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { isIP, isIPv6 } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type { Client } from 'ldapts'
import { throwIfAborted, untilAborted, withReason } from '../base/cancellation.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { EgressGuard } from '../net/egress.js'
import { connectionError } from '../net/web-address.js'
import { LdapMessages } from './ldap-messages.js'

export interface DirectoryServer {
  /** `ldap:` or `ldaps:`, with the host, and the port unless it is the usual one. */
  readonly url: URL
  /** Whether a connection of `ldap:` is encrypted before anything is asked (RFC 4511 §4.14). */
  readonly startTls: boolean
  readonly verifiesCertificate: boolean
  /** A PEM file with the authorities of the server's certificate. Empty: those of Node.js. */
  readonly caFile: string
}

/** The guard of outgoing connections, as far as a directory needs it. */
export type DirectoryEgress = Pick<EgressGuard, 'assertAllowed' | 'connect'>

/** Milliseconds for everything that is asked in one connection. */
const timeLimit = 5000

/**
 * Connects, and calls `ask`. Rejects with `timeout` if all of it takes too long, with `unavailable` if there is no
 * connection as the settings want it or the server does not follow LDAP, and with `invalid` if it refuses what it is
 * asked, or cannot be asked so. The reason is for admins.
 */
export async function inDirectory<T>(
  server: DirectoryServer,
  egress: DirectoryEgress,
  ask: (client: Client) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const timer = setTimeout(() => {
    controller.abort(new GatewayError('timeout', { reason: 'the directory does not answer in time' }))
  }, timeLimit)
  const opened: { client?: Client } = {}
  const work = async (): Promise<T> => {
    const tls = await tlsOptionsOf(server)
    const address = await addressOf(server.url, egress, controller.signal)
    const { Client } = await import('ldapts')
    throwIfAborted(controller.signal)
    const { protocol, port } = server.url
    const url = `${protocol}//${isIPv6(address) ? `[${address}]` : address}${port && `:${port}`}`
    const isTls = protocol === 'ldaps:'
    const client = new Client({ url, connectTimeout: timeLimit, timeout: timeLimit, ...(isTls && { tlsOptions: tls }) })
    opened.client = client
    const messages = checkMessages(client, (error) => controller.abort(error))
    if (server.startTls && !isTls) {
      await client.startTLS({ ...tls, host: address })
      // Whoever is between could have sent the beginning of a message, which the answer to the bind would complete.
      if (messages.isWithin) throw new GatewayError('unavailable', { reason: 'the directory sent data before TLS' })
    }
    return ask(client)
  }
  try {
    return await untilAborted(work(), controller.signal)
  } catch (error) {
    const cause = withReason(error, controller.signal)
    if (isGatewayError(cause, 'timeout', 'unavailable', 'invalid', 'throttled')) throw cause
    const { ResultCodeError } = await import('ldapts')
    if (!(cause instanceof ResultCodeError)) {
      throw new GatewayError('unavailable', { reason: connectionError(cause).reason, cause })
    }
    // Some directories end the text of an error with NUL.
    const text = cause.message.slice(0, 300).replaceAll('\0', '')
    throw new GatewayError('invalid', { reason: `the directory answers: ${text}`, cause })
  } finally {
    clearTimeout(timer)
    void opened.client?.unbind().catch(() => undefined)
  }
}

/**
 * Returns the options of TLS by which the certificate of the server is verified. Rejects with `unavailable` if the file
 * cannot be read.
 */
async function tlsOptionsOf({ url, verifiesCertificate, caFile }: DirectoryServer): Promise<ConnectionOptions> {
  const host = hostOf(url)
  const ca = caFile === '' ? undefined : await readFile(caFile, 'utf8').catch(unreadable)
  return {
    rejectUnauthorized: verifiesCertificate,
    ...(ca !== undefined && { ca }),
    // The connection leads to an address: the certificate has to name the host of the setting.
    ...(isIP(host) === 0 && { servername: host }),
  }
}

function unreadable(error: unknown): never {
  const { code = 'unknown' } = error as NodeJS.ErrnoException
  throw new GatewayError('unavailable', { reason: `the file of authorities cannot be read (${code})`, cause: error })
}

function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1')
}

/**
 * The address of the host, if connections to it are allowed. ldapts would resolve a name by itself: it is given the
 * address that a connection through the guard has reached.
 */
async function addressOf(url: URL, egress: DirectoryEgress, signal: AbortSignal): Promise<string> {
  const host = hostOf(url)
  if (isIP(host) !== 0) {
    egress.assertAllowed(host)
    return host
  }
  const socket = egress.connect({ host, port: Number(url.port) || (url.protocol === 'ldaps:' ? 636 : 389) })
  try {
    await once(socket, 'connect', { signal })
    return socket.remoteAddress ?? host
  } finally {
    socket.destroy()
  }
}

/** Lets ldapts read complete messages only, one at a time. `fail` is called with an error; it reads none after that. */
function checkMessages(client: Client, fail: (error: unknown) => void): LdapMessages {
  const messages = new LdapMessages()
  // Not public: every connection of the client passes its bytes here.
  const { messageParser: parser } = client as unknown as { readonly messageParser: MessageParser }
  const read = parser.read.bind(parser)
  parser.read = (chunk, requests) => {
    try {
      for (const message of messages.complete(chunk)) read(message, requests)
    } catch (error) {
      parser.read = () => undefined
      fail(error)
    }
  }
  return messages
}

interface MessageParser {
  read: (bytes: Buffer, requests: unknown) => void
}
