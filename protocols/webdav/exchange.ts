/** One request on its way through this door, and the short answers that every command gives. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Ask, Change } from '../../src/change.js'
import type { Path } from '../../src/path.js'
import type { VirtualFs } from '../../src/virtual-fs.js'
import { Refusal } from './errors.js'
import type { DavHeaders, Depth } from './headers.js'
import { hrefOf } from './location.js'

export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly path: Path
  /** The request target ended with a slash. */
  readonly slash: boolean
  readonly headers: DavHeaders
  /** What every href starts with. */
  readonly prefix: string
  readonly fs: VirtualFs
  /** What goes along with every read; its signal aborts when the client is gone before the answer is complete. */
  readonly ask: Ask
  /** What goes along with every change. */
  readonly change: Change
}

/** Answers one request, or rejects with a GatewayError or a Refusal while nothing has been answered. */
export type Command = (exchange: Exchange) => Promise<void>

export const allowedMethods = 'OPTIONS, GET, HEAD, PUT, DELETE, MKCOL, COPY, MOVE, PROPFIND, PROPPATCH, LOCK, UNLOCK'

/** An answer without a body. */
export function answer(response: ServerResponse, status: number, headers: Readonly<Record<string, string>> = {}): void {
  // RFC 9110 §8.6: no Content-Length beside 204.
  response.writeHead(status, status === 204 ? headers : { 'content-length': '0', ...headers }).end()
}

export function answerXml(
  response: ServerResponse,
  status: number,
  xml: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = Buffer.from(`<?xml version="1.0" encoding="utf-8"?>\n${xml}`)
  response
    .writeHead(status, { 'content-type': xmlType, 'content-length': String(body.length), ...headers })
    .end(response.req.method === 'HEAD' ? undefined : body)
}

/** A sentence for whoever looks at the wire. */
export function answerText(
  response: ServerResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>>,
): void {
  const body = Buffer.from(`${text}\n`)
  response
    .writeHead(status, {
      'content-type': 'text/plain; charset=utf-8',
      'content-length': String(body.length),
      'x-content-type-options': 'nosniff',
      ...headers,
    })
    .end(response.req.method === 'HEAD' ? undefined : body)
}

export const xmlType = 'application/xml; charset="utf-8"'

export function href(exchange: Exchange, path: Path, folder: boolean): string {
  return hrefOf(exchange.prefix, path, folder)
}

/** The Depth header where only some values make sense; its absence means `absent`. */
export function expectDepth<Allowed extends Depth>(
  exchange: Exchange,
  allowed: readonly Allowed[],
  absent: Allowed,
): Allowed {
  const depth = exchange.headers.depth ?? absent
  const found = allowed.find((one) => one === depth)
  if (found === undefined) throw new Refusal(400, `Depth ${depth} has no meaning here`)
  return found
}

/** Whether the request announces a body. */
export function hasBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0
}

/**
 * From here on the client waits for us, however long it takes: the limit for connections on which nothing moves does not
 * count until the answer is out. That the client has gone is noticed all the same.
 */
export function letWait(request: IncomingMessage): void {
  request.setTimeout(0)
}

/** The If header of a request that changes nothing (changes bring it to the core themselves). */
export async function checkIf(exchange: Exchange): Promise<void> {
  const { conditions } = exchange.headers
  if (conditions.if) await exchange.fs.check(exchange.path, { if: conditions.if }, exchange.ask)
}
