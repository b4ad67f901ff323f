/** Sends a file over HTTP (RFC 9110) with ranges and preconditions, for every protocol on the HTTP port. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { contentType } from 'mime-types'
import type { OpenFile } from '../../src/contract/capabilities.js'
import type { ByteRange, Awaitable } from '../../src/contract/call-options.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, toGatewayError } from '../../src/base/errors.js'
import { nameOf, type Path } from '../../src/base/path.js'
import { etagOf } from '../../src/tree/preconditions.js'
import type { AccessOptions } from '../../src/tree/operation-options.js'
import type {
  DownloadRoute,
  DownloadRouteOptions,
  FileToSend,
  SendingOptions,
  VirtualFs,
} from '../../src/tree/virtual-fs.js'
import { acceptedEncodings } from './accepted-encodings.js'
import { signalOf } from './client.js'
import { evaluateConditions, rangeApplies, type Validators } from './conditions.js'
import { readPart, sendPart } from './file-body.js'
import { parseRange, type Part } from './ranges.js'

interface Presentation {
  /** Headers that are added to every response. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Media type. Default: by the extension of the name. */
  readonly type?: string | undefined
  /** 'attachment' (the default) sends a Content-Disposition header, so that browsers save the file. */
  readonly disposition?: 'attachment' | 'none' | undefined
  /**
   * The file belongs to the administrator, not to a user: it is sent without the sandbox and may run as a page of this
   * site.
   */
  readonly trusted?: boolean | undefined
}

export interface SendOptions extends Presentation {
  readonly fs: VirtualFs
  readonly path: Path
  /** The name by which the client knows the file. Default: that of the path. */
  readonly name?: string | undefined
  /** Access options. Default of `signal`: aborts when the client disconnects. */
  readonly access?: AccessOptions | undefined
  /** Absent: the gateway itself sends the file. */
  readonly redirection?: Redirection | undefined
}

/** For a file that the client may be told to request elsewhere. */
interface Redirection extends DownloadRouteOptions {
  /** Answers the request with a redirect. */
  readonly redirect: (route: RedirectRoute) => void
}

export type RequestedRoute = DownloadRouteOptions['route']
export type RedirectRoute = Exclude<DownloadRoute, { readonly kind: 'stream' }>

/** Maximum size of a range that is read completely before the header section is sent, in bytes. */
const smallFileSize = 64 * 1024

/**
 * Answers GET or HEAD with the file at `path`. Resolves when the response is complete, including 304, 412 and 416.
 * Rejects with a GatewayError. If `response.headersSent` is false then, the caller sends the error response. Otherwise
 * the connection was closed, so that the client detects the truncated response, and the caller can only log the error.
 */
export async function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  options: SendOptions,
): Promise<void> {
  const { signal = signalOf(response), password } = options.access ?? {}
  const access = { signal, password }
  try {
    const found = await findFile(request.method, options, access)
    if (found.kind !== 'stream') {
      options.redirection?.redirect(found)
      return
    }
    try {
      await sendFound(
        request,
        response,
        readable(found, options, access),
        options.name ?? nameOf(options.path),
        options,
      )
    } finally {
      await found.file?.close()
    }
  } catch (error) {
    if (response.headersSent) response.destroy()
    if (signal.aborted) throw new GatewayError('aborted', { reason: 'the client disconnected', cause: error })
    throw toGatewayError(error)
  }
}

/** Like `sendFile`, for a file that is already open. The caller closes it. */
export async function sendOpenFile(
  request: IncomingMessage,
  response: ServerResponse,
  file: OpenFile,
  presentation: Presentation,
): Promise<void> {
  try {
    await sendFound(request, response, { kind: 'stream', entry: file.entry, file }, file.entry.name, presentation)
  } catch (error) {
    if (response.headersSent) response.destroy()
    throw toGatewayError(error)
  }
}

function sendFound(
  request: IncomingMessage,
  response: ServerResponse,
  found: Found,
  name: string,
  presentation: Presentation,
): Awaitable<void> {
  const result = responseTo(request, found.entry, name, presentation)
  // Appended, because CORS may have set Vary already.
  if (found.entry.contentEncoding !== undefined) response.appendHeader('Vary', 'Accept-Encoding')
  if (result.body !== undefined) return sendBody(response, result, result.body, found)
  response.writeHead(result.status, result.headers).end()
}

/** Reads the file from its storage. Without a range: the whole file. */
type ReadRange = (range?: ByteRange) => Promise<Readable>

/** A file to send: by its handle if the backend supports that, otherwise by one stream for each range. */
type Found =
  | { readonly kind: 'stream'; readonly entry: Entry; readonly file: OpenFile }
  | { readonly kind: 'stream'; readonly entry: Entry; readonly file?: undefined; readonly read: ReadRange }

function findFile(
  method: string | undefined,
  { fs, path, redirection }: SendOptions,
  access: AccessOptions,
): Promise<FileToSend> {
  const { signal, password } = access
  const { route, withoutProxy, client } = redirection ?? {}
  const options = { signal, password, route, withoutProxy, client }
  return method === 'HEAD' ? findEntry(fs, path, options) : fs.openToSend(path, options)
}

/** Throws if it is not a file. */
function readable(
  { entry, file }: Exclude<FileToSend, RedirectRoute>,
  { fs, path }: SendOptions,
  access: AccessOptions,
): Found {
  if (file) return { kind: 'stream', entry, file }
  if (entry.kind === 'folder') throw new GatewayError('is_folder', { op: 'read', path })
  if (entry.kind === 'symlink') throw new GatewayError('not_found', { op: 'read', path })
  return { kind: 'stream', entry, read: (range) => fs.read(path, range, { ...access, entry }) }
}

/** Finds the entry as `VirtualFs.openToSend` does, without opening the file. */
async function findEntry(
  fs: VirtualFs,
  path: Path,
  { route, withoutProxy, client, ...access }: SendingOptions,
): Promise<FileToSend> {
  const decision = route && (await fs.downloadRoute(path, { ...access, route, withoutProxy, client }))
  if (decision !== undefined && decision.kind !== 'stream') return decision
  // As fresh as the response to GET would be (RFC 9110 §9.3.2).
  return { kind: 'stream', entry: await fs.stat(path, { ...access, refresh: true }), file: undefined }
}

interface PlannedResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | number>>
  /** Absent: HEAD, 304, 412, 416, or an empty file. */
  readonly body?: { readonly parts: readonly Part[]; readonly boundary?: Boundary }
}

function responseTo(request: IncomingMessage, entry: Entry, name: string, presentation: Presentation): PlannedResponse {
  const { size } = entry
  // RFC 9110 §8.8.2.1: Last-Modified must not be in the future.
  const validators = { etag: etagOf(entry), modified: new Date(Math.min(entry.modified.getTime(), Date.now())) }
  // Assigned one by one: object spread would cost more than the rest of this function.
  const headers: Record<string, string | number> = {
    ETag: validators.etag,
    'Last-Modified': validators.modified.toUTCString(),
    'Accept-Ranges': 'bytes',
  }
  if (presentation.headers !== undefined) Object.assign(headers, presentation.headers)
  const verdict = evaluateConditions(request.headers, validators)
  if (verdict === 304) return { status: 304, headers }
  if (verdict === 412) {
    headers['Content-Length'] = 0
    return { status: 412, headers }
  }

  const parts = requestedParts(request, size, validators)
  if (parts === 'unsatisfiable') {
    headers['Content-Range'] = `bytes */${size}`
    headers['Content-Length'] = 0
    return { status: 416, headers }
  }
  const type = presentation.type ?? mediaType(name)
  headers['Content-Type'] = type
  if (presentation.trusted === true) headers['X-Content-Type-Options'] = 'nosniff'
  else for (const [header, value] of untrusted) headers[header] = value
  if (presentation.disposition !== 'none') headers['Content-Disposition'] = contentDisposition(name)
  // Several ranges are sent as a multipart message, which has no coding itself.
  const { contentEncoding } = entry
  if (contentEncoding !== undefined && (parts === 'whole' || parts.length === 1) && decodes(request, contentEncoding)) {
    headers['Content-Encoding'] = contentEncoding
  }
  if (parts === 'whole') {
    headers['Content-Length'] = size
    if (request.method === 'HEAD' || size === 0) return { status: 200, headers }
    return { status: 200, headers, body: { parts: [{ offset: 0, length: size }] } }
  }
  const [first] = parts
  if (parts.length === 1 && first !== undefined) {
    headers['Content-Range'] = contentRange(first, size)
    headers['Content-Length'] = first.length
    return { status: 206, headers, body: { parts } }
  }
  const boundary = new Boundary(type, size)
  headers['Content-Type'] = boundary.type
  headers['Content-Length'] = boundary.lengthOf(parts)
  return { status: 206, headers, body: { parts, boundary } }
}

/**
 * Whether the client may undo these codings. One that accepts others only, such as `identity`, is to store the bytes as
 * they are: it would reject the response if the header told it of the coding.
 */
function decodes({ headers: { 'accept-encoding': header } }: IncomingMessage, codings: string): boolean {
  const accepted = acceptedEncodings(header)
  return header === undefined || accepted.has('*') || codings.split(', ').every((coding) => accepted.has(coding))
}

function requestedParts(
  request: IncomingMessage,
  size: number,
  validators: Validators,
): readonly Part[] | 'whole' | 'unsatisfiable' {
  const { range, 'if-range': ifRange } = request.headers
  // RFC 9110 §14.2: Range is defined only for GET.
  if (range === undefined || request.method !== 'GET') return 'whole'
  return rangeApplies(ifRange?.toString(), validators) ? parseRange(range, size) : 'whole'
}

async function sendBody(
  response: ServerResponse,
  { status, headers }: PlannedResponse,
  { parts, boundary }: NonNullable<PlannedResponse['body']>,
  found: Found,
): Promise<void> {
  const [first] = parts
  const { file } = found
  if (file !== undefined && parts.length === 1 && first !== undefined && first.length <= smallFileSize) {
    const bytes = await readPart(file, first)
    response.writeHead(status, headers).end(bytes)
    return
  }
  if (first === undefined) return
  if (file === undefined) {
    const { size } = found.entry
    const read = (part: Part) => found.read(part.length === size ? undefined : part)
    const body = streamParts(parts, boundary, read)
    try {
      // The content has begun to arrive before the header section is sent, so that errors can still be reported.
      const begun = await body.next()
      response.writeHead(status, headers)
      await sendStream(startingWith(begun, body), response)
    } finally {
      await body.return(undefined)
    }
    return
  }
  for (const part of parts) {
    await sendPart(file, part, response, () => {
      if (!response.headersSent) response.writeHead(status, headers)
      if (boundary !== undefined) response.write(boundary.before(part))
    })
  }
  response.end(boundary?.end)
}

/** Sends the rest of the body. Rejects with `aborted` if the client disconnects before its end. */
export async function sendStream(body: AsyncIterable<Buffer | string>, response: ServerResponse): Promise<void> {
  try {
    await pipeline(body, response)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error
    throw new GatewayError('aborted', { cause: error })
  }
}

/** Yields `first`, a result that was already taken from `rest`, and then everything else of it. */
export async function* startingWith<T>(first: IteratorResult<T>, rest: AsyncIterator<T>): AsyncGenerator<T> {
  try {
    for (let next = first; next.done !== true; next = await rest.next()) yield next.value
  } finally {
    await rest.return?.()
  }
}

/** Yields nothing of a part before its content has begun to arrive. */
async function* streamParts(
  parts: readonly Part[],
  boundary: Boundary | undefined,
  read: (part: Part) => Promise<Readable>,
): AsyncGenerator<Buffer | string> {
  for (const part of parts) {
    const stream = await read(part)
    let remaining = part.length
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      // The file may have grown: no more than Content-Length is sent.
      if (remaining === 0) break
      if (chunk.length === 0) continue
      if (boundary !== undefined && remaining === part.length) yield boundary.before(part)
      const bytes = chunk.subarray(0, remaining)
      remaining -= bytes.length
      yield bytes
    }
    if (remaining > 0) throw new GatewayError('aborted', { reason: 'the file became shorter while it was sent' })
  }
  if (boundary !== undefined) yield boundary.end
}

/** The media type for the extension of a name; `application/octet-stream` if it is unknown. */
export function mediaType(name: string): string {
  const dot = name.lastIndexOf('.')
  return (dot >= 0 && contentType(name.slice(dot + 1).toLowerCase())) || 'application/octet-stream'
}

function contentRange(part: Part, size: number): string {
  return `bytes ${part.offset}-${part.offset + part.length - 1}/${size}`
}

/** The framing of multipart/byteranges (RFC 9110 §14.6). */
class Boundary {
  readonly type: string
  readonly end: string
  readonly #line: string
  readonly #partType: string
  readonly #size: number

  constructor(partType: string, size: number) {
    const text = randomBytes(18).toString('hex')
    this.type = `multipart/byteranges; boundary=${text}`
    this.end = `\r\n--${text}--\r\n`
    this.#line = `\r\n--${text}\r\n`
    this.#partType = partType
    this.#size = size
  }

  /** The delimiter and header section before a part. */
  before(part: Part): string {
    return `${this.#line}Content-Type: ${this.#partType}\r\nContent-Range: ${contentRange(part, this.#size)}\r\n\r\n`
  }

  /** Length of the whole body, in bytes. */
  lengthOf(parts: readonly Part[]): number {
    return parts.reduce((sum, part) => sum + this.before(part).length + part.length, this.end.length)
  }
}

/** Headers for files of users: they must never run as a page of this site. */
export const untrustedFileHeaders = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "sandbox; default-src 'none'",
} as const
const untrusted = Object.entries(untrustedFileHeaders)

/** The value of Content-Disposition (RFC 6266): an ASCII `filename` for old clients, and `filename*` in UTF-8. */
export function contentDisposition(name: string): string {
  if (/^[\w.-]*$/.test(name)) return `attachment; filename="${name}"; filename*=utf-8''${name}`
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${encoded}"; filename*=utf-8''${encoded}`
}
