/** The content of a file in an HTTP response: exactly the range that was requested, whatever the server sends of it. */
import { pipeline, Transform, type Readable, type TransformCallback } from 'node:stream'
import type { ByteRange } from '../../../src/contract/call-options.js'
import { GatewayError } from '../../../src/base/errors.js'
import type { HttpResponse } from './http-client.js'
import type { ResponseBodies } from './response-bodies.js'

const anotherSize = 'sent a file of another size than it reports'

/** A request for content. */
export interface ContentRequest {
  /** The requested range; undefined for the whole file. */
  readonly part: ByteRange | undefined
  /** Size of the file, if known. */
  readonly size: number | undefined
  readonly signal: AbortSignal | undefined
}

/**
 * The request for `range` of a file of this size. Undefined if the range is empty: there is nothing to request then.
 */
export function contentRequest(
  range: ByteRange | undefined,
  size: number | undefined,
  signal: AbortSignal | undefined,
): ContentRequest | undefined {
  const { offset, length } = range ?? { offset: 0 }
  if (length === 0 || (size !== undefined && offset >= size)) return undefined
  const isWhole = offset === 0 && (length === undefined || (size !== undefined && length >= size))
  return { part: isWhole ? undefined : { offset, length }, size, signal }
}

/** The `Range` header of a request (RFC 9110 §14.2); undefined for the whole file. */
export function rangeHeader({ part }: ContentRequest): string | undefined {
  if (!part) return undefined
  const { offset, length } = part
  return `bytes=${offset}-${length === undefined ? '' : offset + length - 1}`
}

/**
 * A stream of the requested content from a response with status 200 or 206. Throws `unavailable` for a response to
 * another request, or with a file of another size; its body is then destroyed. `server` names the server in errors, as
 * in "WebDAV server".
 */
export function contentOf(
  response: HttpResponse,
  request: ContentRequest,
  bodies: ResponseBodies,
  server: string,
): Readable {
  const { status, headers, body } = response
  const { part, size, signal } = request
  const reject = (what: string): never => {
    body.destroy()
    throw new GatewayError('unavailable', { reason: `the ${server} ${what}` })
  }
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') reject('sent a file with a content encoding')
  if (status === 206) {
    if (part === undefined) return reject('sent a range where the whole file was requested')
    const sent = sentPart(headers['content-range'])
    if (sent?.offset !== part.offset) return reject('sent another range than was requested')
    if (sent.size !== undefined && size !== undefined && sent.size !== size) return reject(anotherSize)
    const rest = (size ?? sent.size ?? Number.POSITIVE_INFINITY) - part.offset
    const expected = Math.min(part.length ?? Number.POSITIVE_INFINITY, rest)
    if (sent.length < expected && expected < Number.POSITIVE_INFINITY) {
      return reject('sent a shorter range than was requested')
    }
    const content = bodies.track(body, sent.length, signal)
    return part.length === undefined ? content : rangeOfBody(content, { ...part, offset: 0 })
  }
  // Without Content-Length, a truncated response looks complete, so the size of the file is used.
  const announced = headers['content-length'] === undefined ? size : Number(headers['content-length'])
  // The file was changed meanwhile, or something between the server and this client has shortened it.
  if (announced !== size && announced !== undefined && size !== undefined) {
    return reject(anotherSize)
  }
  const content = bodies.track(body, announced, signal)
  // A server that ignores Range sends the whole file (RFC 9110 §14.2).
  return part === undefined ? content : rangeOfBody(content, part)
}

/** Parses Content-Range (RFC 9110 §14.4). */
function sentPart(contentRange = '') {
  const [, first, last, all] = /^bytes (\d+)-(\d+)\/(\d+|\*)/i.exec(contentRange) ?? []
  if (first === undefined || last === undefined) return undefined
  const size = all === undefined || all === '*' ? undefined : Number(all)
  return { offset: Number(first), length: Number(last) - Number(first) + 1, size }
}

/** Destroys `body` when the range is complete or the stream is destroyed. */
function rangeOfBody(body: Readable, { offset, length = Infinity }: ByteRange): Readable {
  const part = new Part(offset, length)
  part.once('end', () => body.destroy())
  pipeline(body, part, () => undefined)
  return part
}

class Part extends Transform {
  constructor(
    private toSkip: number,
    private toSend: number,
  ) {
    super({ highWaterMark: 256 * 1024 })
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    const slice = chunk.subarray(this.toSkip).subarray(0, Math.min(chunk.length, this.toSend))
    this.toSkip = Math.max(0, this.toSkip - chunk.length)
    this.toSend -= slice.length
    if (slice.length > 0) this.push(slice)
    if (this.toSend <= 0) this.push(null)
    done()
  }
}
