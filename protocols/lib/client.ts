/** The client of an HTTP request: its address, and the URL by which it reaches this server. */
import { setMaxListeners } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIPv6, type BlockList, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { UrlClient } from '../../src/contract/capabilities.js'
import { isWithinNetworks, plainAddress } from '../../src/net/addresses.js'
import { mergeSlashes } from './request-target.js'

export interface ClientOptions {
  /** Proxies whose forwarding headers are trusted. */
  readonly trustedProxies: BlockList
  /** Public location of this server: empty, a path (`/files`), or a full URL. */
  readonly siteUrl: string
}

export interface Client {
  /** IP address without port or zone. IPv4-mapped IPv6 addresses are converted to IPv4. */
  readonly address: string
  /** Whether the client uses TLS, to this server or to the proxy. */
  readonly secure: boolean
  /** Scheme and host as the client spells them: `https://example.org:8443`. */
  readonly origin: string
  /** Origin and path of the site, without a trailing slash: the prefix of absolute URLs. */
  readonly baseUrl: string
}

const connections = new WeakMap<Socket, AbortSignal>()

/**
 * A signal that aborts when the connection closes. All requests of a connection share it, so callers must remove their
 * listeners when they finish.
 */
export function signalOf(response: ServerResponse): AbortSignal {
  const { socket } = response.req
  const existing = connections.get(socket)
  if (existing) return existing
  const controller = new AbortController()
  setMaxListeners(0, controller.signal)
  if (socket.destroyed) controller.abort()
  else socket.once('close', () => controller.abort())
  connections.set(socket, controller.signal)
  return controller.signal
}

interface Peer {
  readonly address: string
  readonly proxies: BlockList
  readonly isTrusted: boolean
  /** What the latest request without forwarding headers had. */
  latest?: { readonly host: string | undefined; readonly siteUrl: string; readonly client: Client }
}

/** For each connection, because to find it out for each request takes a seventh of the time of a small GET. */
const peers = new WeakMap<Socket, Peer>()

/** The other end of a connection. */
function peerOf(socket: Socket, proxies: BlockList): Peer {
  const known = peers.get(socket)
  if (known?.proxies === proxies) return known
  const address = plainAddress(socket.remoteAddress ?? '') ?? '0.0.0.0'
  const peer = { address, proxies, isTrusted: isWithinNetworks(proxies, address) }
  peers.set(socket, peer)
  return peer
}

/**
 * Determines the client of a request. Forwarding headers are used only if the socket's peer is a trusted proxy. The
 * client is then the rightmost address in the chain that is not a trusted proxy. `X-Forwarded-For` takes precedence
 * over `X-Real-IP`. A proxy that sets these headers passes on a `Forwarded` (RFC 7239) of the client, and the other way
 * round: if both are there and name different clients, neither is believed, and the client is the peer.
 */
export function clientOf(request: IncomingMessage, options: ClientOptions): Client {
  const peer = peerOf(request.socket, options.trustedProxies)
  if (peer.isTrusted) return determineClient(request, options, peer, forwarded(request, peer.address, options))
  const { host } = request.headers
  const { siteUrl } = options
  if (peer.latest?.host !== host || peer.latest?.siteUrl !== siteUrl) {
    peer.latest = { host, siteUrl, client: determineClient(request, options, peer) }
  }
  return peer.latest.client
}

/** `headers`: what the peer, a trusted proxy, has forwarded. */
function determineClient(request: IncomingMessage, options: ClientOptions, peer: Peer, headers?: Forwarded): Client {
  const secure =
    headers?.proto === undefined ? (request.socket as Partial<TLSSocket>).encrypted === true : headers.proto === 'https'
  const host = headers?.host ?? validHost(request.headers.host) ?? ownHost(request)
  const { siteUrl } = options
  const origin = isFullUrl(siteUrl) ? new URL(siteUrl).origin : `${secure ? 'https' : 'http'}://${host}`
  return {
    address: headers === undefined ? peer.address : clientAddress(peer.address, headers.chain, options.trustedProxies),
    secure,
    origin,
    baseUrl: origin + sitePath(siteUrl),
  }
}

/** What a direct URL for this client may be bound to. */
export function urlClientOf(request: IncomingMessage, { address }: Pick<Client, 'address'>): UrlClient {
  return { userAgent: request.headers['user-agent'], address }
}

/** The path prefix of the site: empty, or with a leading and without a trailing slash. */
export function sitePath(siteUrl: string): string {
  const path = isFullUrl(siteUrl) ? new URL(siteUrl).pathname : siteUrl
  const bare = mergeSlashes(path).replace(/^\/|\/$/g, '')
  return bare === '' ? '' : `/${bare}`
}

function isFullUrl(text: string): boolean {
  return /^https?:\/\//i.test(text)
}

interface Forwarded {
  /** Addresses in the order of the header, the client first. */
  readonly chain: readonly string[]
  readonly proto: string | undefined
  readonly host: string | undefined
}

function forwarded(request: IncomingMessage, peer: string, { trustedProxies }: ClientOptions): Forwarded {
  const elements = header(request, 'forwarded')
  const chain = header(request, 'x-forwarded-for') ?? header(request, 'x-real-ip')
  const standard = elements === undefined ? undefined : forwardedElements(elements)
  if (standard && chain === undefined) return standard
  const usual = {
    chain: (chain ?? '').split(','),
    proto: first(header(request, 'x-forwarded-proto'))?.toLowerCase(),
    host: validHost(first(header(request, 'x-forwarded-host'))),
  }
  if (!standard) return usual
  const [one, other] = [usual, standard].map((each) => clientAddress(peer, each.chain, trustedProxies))
  return one === other ? usual : { ...usual, chain: [] }
}

/** RFC 7239 §4: `for=192.0.2.60;proto=http;by=203.0.113.43, for="[2001:db8::1]:4711"`. */
function forwardedElements(text: string): Forwarded {
  const chain: string[] = []
  let proto: string | undefined
  let host: string | undefined
  for (const element of text.split(',')) {
    for (const pair of element.split(';')) {
      const equals = pair.indexOf('=')
      if (equals < 0) continue
      const value = pair
        .slice(equals + 1)
        .trim()
        .replace(/^"(.*)"$/, '$1')
      const name = pair.slice(0, equals).trim().toLowerCase()
      if (name === 'for') chain.push(value)
      else if (name === 'proto') proto ??= value.toLowerCase()
      else if (name === 'host') host ??= validHost(value)
    }
  }
  return { chain, proto, host }
}

function clientAddress(peer: string, chain: readonly string[], proxies: BlockList): string {
  let address = peer
  for (const text of chain.toReversed()) {
    if (!isWithinNetworks(proxies, address)) break
    const next = plainAddress(text)
    // `unknown`, or an obfuscated or invalid identifier: the addresses before it cannot be trusted.
    if (next === undefined) break
    address = next
  }
  return address
}

/** Returns `text` if it is a host with an optional port, and can be used in a URL. */
function validHost(text: string | undefined): string | undefined {
  return text !== undefined && /^([a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])(:\d{1,5})?$/i.test(text) ? text : undefined
}

function ownHost(request: IncomingMessage): string {
  const { localAddress = 'localhost', localPort = 80 } = request.socket
  const address = plainAddress(localAddress) ?? 'localhost'
  return `${isIPv6(address) ? `[${address}]` : address}:${localPort}`
}

function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name]
  return Array.isArray(value) ? value.join(',') : value
}

function first(list: string | undefined): string | undefined {
  return list?.split(',', 1)[0]?.trim()
}
