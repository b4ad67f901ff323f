/** One WebDAV request, parsed, and the short responses that all commands use. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Path } from '../../src/base/path.js'
import type { AccessOptions, ChangeOptions } from '../../src/tree/operation-options.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import { WebdavError } from './errors.js'
import type { DavHeaders, Depth } from './headers.js'
import { hrefOf } from './location.js'
import { readXml, type XmlElement } from './xml.js'

/** `Tree`: what a command needs of the tree of the caller. */
export interface WebdavRequest<Tree = VirtualFs> {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly path: Path
  /** The request target ended with a slash. */
  readonly slash: boolean
  readonly headers: DavHeaders
  /** Prefix of every href. */
  readonly prefix: string
  readonly fs: Tree
  /** The name by which the caller knows what has the path; undefined: the name of the path. */
  readonly name: string | undefined
  /** Whether the caller is a visitor of a share, to whom responses do not show storages. */
  readonly isVisitor: boolean
  /** IP address of the client. */
  readonly address: string
  /** Options of every read. The signal aborts when the client disconnects. */
  readonly access: AccessOptions
  /** Options of every change, with the preconditions and lock tokens of the request. */
  readonly change: ChangeOptions
}

/**
 * The root element of the XML body, or undefined if there is none. Rejects as `readXml`. Rejects before the body is
 * interpreted if the caller may not do this at the path. `list`: lists a folder, or reads the facts of a file.
 */
export async function readBody(
  { request, fs, path, access }: WebdavRequest<Pick<VirtualFs, 'assertAllowed'>>,
  action: 'list' | 'lock' | 'properties',
): Promise<XmlElement | undefined> {
  await fs.assertAllowed(action, path, access)
  return readXml(request)
}

/** Handles one request. Rejects with a GatewayError or an HTTP error; the caller then sends the error response. */
export type Command<Tree = VirtualFs> = (webdavRequest: WebdavRequest<Tree>) => Promise<void>

export const allowedMethods = 'OPTIONS, GET, HEAD, PUT, DELETE, MKCOL, COPY, MOVE, PROPFIND, PROPPATCH, LOCK, UNLOCK'

/** Sends a response without a body. */
export function sendStatus(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, string>> = {},
): void {
  // RFC 9110 §8.6: a 204 must not have Content-Length.
  response.writeHead(status, status === 204 ? headers : { 'content-length': '0', ...headers }).end()
}

/** Sends an XML document. `xml` does not include the XML declaration. */
export function sendXml(
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

/** Sends a plain text message. */
export function sendText(
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

export function href(webdavRequest: Pick<WebdavRequest, 'prefix'>, path: Path, folder: boolean): string {
  return hrefOf(webdavRequest.prefix, path, folder)
}

/** The Depth header, or `absent` if the request has none. Throws a 400 for a value that is not allowed. */
export function expectDepth<Allowed extends Depth>(
  webdavRequest: WebdavRequest,
  allowed: readonly Allowed[],
  absent: Allowed,
): Allowed {
  const depth = webdavRequest.headers.depth ?? absent
  const found = allowed.find((one) => one === depth)
  if (found === undefined) throw new WebdavError('depth_not_allowed', { subject: String(depth) })
  return found
}

/** Whether the request announces a body. */
export function hasBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0
}

/** Evaluates the If header of a read. Changes pass it to the tree with their options. */
export async function checkIf(webdavRequest: WebdavRequest<Pick<VirtualFs, 'check'>>): Promise<void> {
  const { conditions } = webdavRequest.headers
  if (conditions.if) await webdavRequest.fs.check(webdavRequest.path, { if: conditions.if }, webdavRequest.access)
}
