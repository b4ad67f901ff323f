/** Sending one file over HTTP: RFC 9110 with ranges and conditions, for every door on the HTTP port. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { contentType } from 'mime-types'
import { etagOf, type Ask } from '../../src/change.js'
import type { ByteRange, Entry, OpenFile } from '../../src/driver.js'
import { GatewayError, toGatewayError } from '../../src/errors.js'
import { nameOf, type Path } from '../../src/path.js'
import type { VirtualFs } from '../../src/virtual-fs.js'
import { signalOf } from './client.js'
import { judgeConditions, rangeApplies, type Validators } from './conditions.js'
import { readWhole, sendPart } from './file-body.js'
import { parseRange, type Part } from './ranges.js'

export interface Presentation {
  /** Added to every answer. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Media type; absent: by the name's extension. */
  readonly type?: string | undefined
  /** 'attachment' (the default) tells browsers to save it under its name. */
  readonly disposition?: 'attachment' | 'none' | undefined
  /** Not of a user but of the admin, who may let it run as a page of this site: it comes without the sandbox. */
  readonly trusted?: boolean | undefined
}

export interface SendOptions extends Presentation {
  readonly fs: VirtualFs
  readonly path: Path
  /** A signal in it aborts when the client has gone; without one that is looked after here. */
  readonly ask?: Ask | undefined
}

/** Up to here a file is read at once, before its head goes out. */
const smallFile = 64 * 1024

/**
 * Answers GET or HEAD with the file at `path`. Resolves when the answer is complete, also a 304, 412 or 416. Rejects with
 * a GatewayError: while `response.headersSent` is false nothing was answered and the door does; after that the
 * connection has been cut, because a short answer must not look whole, and there is only the log left to tell.
 */
export async function sendFile(
  request: IncomingMessage,
  response: ServerResponse,
  options: SendOptions,
): Promise<void> {
  const signal = options.ask?.signal ?? signalOf(response)
  const ask = { ...options.ask, signal }
  try {
    const found = await findFile(request.method, options, ask)
    try {
      await sendFound(request, response, found, nameOf(options.path), options)
    } finally {
      await found.file?.close()
    }
  } catch (error) {
    if (response.headersSent) response.destroy()
    if (signal.aborted) throw new GatewayError('aborted', { reason: 'the client has gone', cause: error })
    throw toGatewayError(error)
  }
}

/** The same for a file that is open; who opened it closes it. */
export async function sendOpenFile(
  request: IncomingMessage,
  response: ServerResponse,
  file: OpenFile,
  presentation: Presentation,
): Promise<void> {
  try {
    await sendFound(request, response, { entry: file.entry, file }, file.entry.name, presentation)
  } catch (error) {
    if (response.headersSent) response.destroy()
    throw toGatewayError(error)
  }
}

async function sendFound(
  request: IncomingMessage,
  response: ServerResponse,
  found: Found,
  name: string,
  presentation: Presentation,
): Promise<void> {
  const answer = answerTo(request, found.entry, name, presentation)
  if (answer.body === undefined) response.writeHead(answer.status, answer.headers).end()
  else await sendBody(response, answer, answer.body, found)
}

/** Without a range: all of the file. */
type ReadRange = (range?: ByteRange) => Promise<Readable>

/** By its own handle where the backend has one, else part by part. */
type Found =
  | { readonly entry: Entry; readonly file: OpenFile }
  | { readonly entry: Entry; readonly file?: undefined; readonly read: ReadRange }

async function findFile(method: string | undefined, { fs, path }: SendOptions, ask: Ask): Promise<Found> {
  const { entry, file } = method === 'HEAD' ? { entry: await fs.stat(path, ask) } : await fs.openToSend(path, ask)
  if (file) return { entry, file }
  if (entry.kind === 'folder') throw new GatewayError('is_dir', { op: 'read', path })
  if (entry.kind === 'link') throw new GatewayError('not_found', { op: 'read', path })
  return { entry, read: (range) => fs.read(path, range, ask) }
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | number>>
  /** Absent: HEAD, 304, 412, 416, or an empty file. */
  readonly body?: { readonly parts: readonly Part[]; readonly boundary?: Boundary }
}

function answerTo(request: IncomingMessage, entry: Entry, name: string, presentation: Presentation): Answer {
  const { size } = entry
  // RFC 9110 §8.8.2.1: never later than now.
  const validators = { etag: etagOf(entry), modified: new Date(Math.min(entry.modified.getTime(), Date.now())) }
  // Filled field by field: spreading one object into the next would cost more than all the rest of this function.
  const headers: Record<string, string | number> = {
    ETag: validators.etag,
    'Last-Modified': validators.modified.toUTCString(),
    'Accept-Ranges': 'bytes',
  }
  if (presentation.headers !== undefined) Object.assign(headers, presentation.headers)
  const verdict = judgeConditions(request.headers, validators)
  if (verdict === 304) return { status: 304, headers }
  if (verdict === 412) {
    headers['Content-Length'] = 0
    return { status: 412, headers }
  }

  const wanted = wantedParts(request, size, validators)
  if (wanted === 'unsatisfiable') {
    headers['Content-Range'] = `bytes */${size}`
    headers['Content-Length'] = 0
    return { status: 416, headers }
  }
  const type = presentation.type ?? mediaType(name)
  headers['Content-Type'] = type
  if (presentation.trusted === true) headers['X-Content-Type-Options'] = 'nosniff'
  else Object.assign(headers, untrusted)
  if (presentation.disposition !== 'none') headers['Content-Disposition'] = attachment(name)
  if (wanted === 'whole') {
    headers['Content-Length'] = size
    if (request.method === 'HEAD' || size === 0) return { status: 200, headers }
    return { status: 200, headers, body: { parts: [{ offset: 0, length: size }] } }
  }
  const [only] = wanted
  if (wanted.length === 1 && only !== undefined) {
    headers['Content-Range'] = contentRange(only, size)
    headers['Content-Length'] = only.length
    return { status: 206, headers, body: { parts: wanted } }
  }
  const boundary = new Boundary(type, size)
  headers['Content-Type'] = boundary.type
  headers['Content-Length'] = boundary.lengthOf(wanted)
  return { status: 206, headers, body: { parts: wanted, boundary } }
}

function wantedParts(
  request: IncomingMessage,
  size: number,
  validators: Validators,
): readonly Part[] | 'whole' | 'unsatisfiable' {
  const { range, 'if-range': ifRange } = request.headers
  // RFC 9110 §14.2: Range is defined for GET alone.
  if (range === undefined || request.method !== 'GET') return 'whole'
  return rangeApplies(ifRange?.toString(), validators) ? parseRange(range, size) : 'whole'
}

async function sendBody(
  response: ServerResponse,
  { status, headers }: Answer,
  { parts, boundary }: NonNullable<Answer['body']>,
  found: Found,
): Promise<void> {
  const [first] = parts
  const { file } = found
  if (file !== undefined && parts.length === 1 && first !== undefined && first.length <= smallFile) {
    const bytes = await readWhole(file, first)
    response.writeHead(status, headers).end(bytes)
    return
  }
  if (first === undefined) return
  if (file === undefined) {
    const { size } = found.entry
    const read = (part: Part) => found.read(part.length === size ? undefined : part)
    // What can be refused is refused before the head goes out.
    const stream = await read(first)
    response.writeHead(status, headers)
    await pipeline(streamParts(stream, parts, boundary, read), response)
    return
  }
  response.writeHead(status, headers)
  for (const part of parts) {
    if (boundary !== undefined) response.write(boundary.before(part))
    await sendPart(file, part, response)
  }
  response.end(boundary?.end)
}

async function* streamParts(
  opened: Readable,
  parts: readonly Part[],
  boundary: Boundary | undefined,
  read: (part: Part) => Promise<Readable>,
): AsyncGenerator<Buffer | string> {
  for (const [index, part] of parts.entries()) {
    const stream = index === 0 ? opened : await read(part)
    if (boundary !== undefined) yield boundary.before(part)
    let left = part.length
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      // A file that has grown is sent as far as was promised.
      if (left === 0) break
      const bytes = chunk.subarray(0, left)
      left -= bytes.length
      yield bytes
    }
    if (left > 0) throw new GatewayError('aborted', { reason: 'the file became shorter while it was sent' })
  }
  if (boundary !== undefined) yield boundary.end
}

/** By the extension of a name; `application/octet-stream` where it has none that is known. */
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

  before(part: Part): string {
    return `${this.#line}Content-Type: ${this.#partType}\r\nContent-Range: ${contentRange(part, this.#size)}\r\n\r\n`
  }

  /** Of the whole body, in bytes. */
  lengthOf(parts: readonly Part[]): number {
    return parts.reduce((sum, part) => sum + this.before(part).length + part.length, this.end.length)
  }
}

/** What users stored never runs as a page of ours. */
export const untrusted = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "sandbox; default-src 'none'",
} as const

/** RFC 6266: a plain name for old clients, the true one percent-encoded in UTF-8. */
export function attachment(name: string): string {
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${encoded}"; filename*=utf-8''${encoded}`
}
