/** Uploads: a small body in one request, a larger one in parts, with a limited number of parts in memory. */
import type { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  UploadPartCommand,
  type CompletedPart,
} from '@aws-sdk/client-s3'
import { joinSignals } from '../../src/contract/cancellation.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/contract/errors.js'
import type { BucketClient } from './client.js'

const mebibyte = 1024 * 1024
/** Bytes; a body up to this size is sent in one request. */
const maxSingleUpload = 8 * mebibyte
const maxParts = 10_000
/** Maximum concurrent parts; fewer where `memoryLimit` requires it. */
const parallelParts = 4
const memoryLimit = 64 * mebibyte
/** Milliseconds for aborting an upload that failed. */
const cleanupTimeout = 15_000

export interface UploadTarget {
  readonly key: string
  readonly contentType: string
  readonly metadata: Record<string, string>
  /** Rejects with `precondition_failed` if the key exists. Servers without conditional writes replace the object. */
  readonly createOnly: boolean
}

/**
 * Bytes of the part with this number. All parts are of equal size, as some servers require (apache/opendal#2904). For a
 * body of unknown size the parts grow after the first 5,000 (80 GB); servers that require equal parts reject those.
 */
export function partSize(part: number, size: number | undefined): number {
  if (size !== undefined) return Math.max(maxSingleUpload, Math.ceil(size / maxParts / mebibyte) * mebibyte)
  return part <= maxParts / 2 ? 2 * maxSingleUpload : 8 * maxSingleUpload
}

/**
 * Stores the body. Reads it immediately, but sends nothing until `ready` resolves. Once every byte has been received,
 * `publish` is called with the final step: it either calls that step or rejects. On rejection the stored parts are
 * discarded. Rejects with `invalid` if the length of the body is not `size`.
 */
export async function upload(
  client: BucketClient,
  target: UploadTarget,
  body: Readable,
  size: number | undefined,
  ready: Promise<void>,
  publish: (finish: () => Promise<string | undefined>) => Promise<string | undefined>,
  signal: AbortSignal | undefined,
): Promise<{ readonly etag: string | undefined; readonly bytes: number }> {
  const pieces = new BodyReader(body, size)
  const [first] = await Promise.all([
    pieces.next(Math.min(partSize(1, size), (size ?? Number.POSITIVE_INFINITY) + 1)),
    ready,
  ])
  if (pieces.isExhausted()) {
    const put = (condition: Condition) => {
      const command = new PutObjectCommand({ ...objectAttributes(client, target), ...condition, Body: first })
      return client.call((s3, options) => s3.send(command, options), signal, 'lengthy')
    }
    const etag = await publish(async () => (await conditional(target.createOnly, put)).ETag)
    return { etag, bytes: pieces.receivedBytes }
  }

  const multipart = await Multipart.begin(client, target, signal)
  try {
    await multipart.send(
      pieces,
      { partLength: (part) => partSize(part, size), firstPart: 1, firstBytes: first },
      signal,
    )
    const etag = await publish(() => multipart.complete(target.createOnly, signal))
    return { etag, bytes: pieces.receivedBytes }
  } catch (error) {
    await multipart.abort()
    throw error
  }
}

/** How a body is split into parts. */
interface PartLayout {
  /** Bytes of the part with this number; the last part has the remaining bytes. */
  readonly partLength: (part: number) => number
  /** Number of the first part to send. */
  readonly firstPart: number
  /** The content of the first part, where it has already been read. */
  readonly firstBytes?: Buffer
  /** The upload can be resumed: if the body fails, parts in flight are completed instead of aborted. */
  readonly isResumable?: boolean
}

/** A multipart upload of one object. The server stores its parts until it is completed or aborted. */
export class Multipart {
  /** ETags by part number. */
  readonly #parts = new Map<number, string | undefined>()

  constructor(
    private readonly client: BucketClient,
    readonly key: string,
    readonly id: string,
    stored: readonly CompletedPart[] = [],
  ) {
    for (const { PartNumber = 0, ETag } of stored) this.#parts.set(PartNumber, ETag)
  }

  static async begin(client: BucketClient, target: UploadTarget, signal: AbortSignal | undefined): Promise<Multipart> {
    const command = new CreateMultipartUploadCommand(objectAttributes(client, target))
    const { UploadId } = await client.call((s3, options) => s3.send(command, options), signal)
    if (UploadId === undefined)
      throw new GatewayError('unavailable', { reason: 'the S3 server did not start the upload' })
    return new Multipart(client, target.key, UploadId)
  }

  get #upload() {
    return { Bucket: this.client.bucket, Key: this.key, UploadId: this.id }
  }

  /** Sends the whole body, several parts concurrently. No request is pending when this settles. */
  async send(
    pieces: BodyReader,
    { partLength, firstPart, firstBytes, isResumable }: PartLayout,
    signal: AbortSignal | undefined,
  ) {
    const running = new Set<Promise<void>>()
    const failed = new AbortController()
    const joined = joinSignals(signal, failed.signal)
    let failure: unknown
    const fail = (error: unknown) => {
      failure ??= error
      failed.abort()
      // Ends a pending read of the body, which cannot be stored any more.
      pieces.destroy(toGatewayError(error))
    }
    try {
      let bytes = firstBytes ?? (await pieces.next(partLength(firstPart)))
      for (let part = firstPart; bytes.length > 0; part++) {
        if (part > maxParts) throw new GatewayError('too_large', { reason: 'more parts than an S3 upload may have' })
        const sending: Promise<void> = this.#send(part, bytes, joined.signal)
          .catch(fail)
          .finally(() => running.delete(sending))
        running.add(sending)
        if (pieces.isExhausted()) break
        const nextLength = partLength(part + 1)
        while (running.size >= Math.max(1, Math.min(parallelParts, Math.floor(memoryLimit / nextLength)))) {
          await Promise.race(running)
        }
        bytes = await pieces.next(nextLength)
      }
      await Promise.all(running)
    } catch (error) {
      if (isResumable !== true) failed.abort()
      await Promise.all(running)
      failure ??= error
    } finally {
      joined.release()
    }
    if (failure !== undefined) throw toGatewayError(failure)
  }

  async #send(PartNumber: number, bytes: Buffer, signal: AbortSignal): Promise<void> {
    const command = new UploadPartCommand({ ...this.#upload, PartNumber, Body: bytes })
    const { ETag } = await this.client.call((s3, options) => s3.send(command, options), signal, 'lengthy')
    this.#parts.set(PartNumber, ETag)
  }

  /** Creates the object from its parts. Resolves to its ETag. */
  async complete(createOnly: boolean, signal: AbortSignal | undefined): Promise<string | undefined> {
    const parts = [...this.#parts].map(([PartNumber, ETag]) => ({ PartNumber, ETag }))
    const Parts = parts.sort((one, other) => one.PartNumber - other.PartNumber)
    const complete = (condition: Condition) => {
      const command = new CompleteMultipartUploadCommand({ ...this.#upload, ...condition, MultipartUpload: { Parts } })
      return this.client.call((s3, options) => s3.send(command, options), signal, 'lengthy')
    }
    return (await conditional(createOnly, complete)).ETag
  }

  abort(): Promise<void> {
    return abortMultipart(this.client, this.#upload)
  }
}

function objectAttributes({ bucket }: BucketClient, { key, contentType, metadata }: UploadTarget) {
  return { Bucket: bucket, Key: key, ContentType: contentType, Metadata: metadata }
}

/** Runs `work`, destroying the body when the signal is aborted and when `work` has settled. */
export async function withBody<T>(body: Readable, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  const abort = () => body.destroy(new GatewayError('aborted'))
  signal?.addEventListener('abort', abort, { once: true })
  if (signal?.aborted) abort()
  try {
    return await work()
  } catch (error) {
    throw signal?.aborted ? new GatewayError('aborted', { cause: error }) : error
  } finally {
    signal?.removeEventListener('abort', abort)
    body.destroy()
  }
}

interface Condition {
  readonly IfNoneMatch?: '*'
}

/** Sends the request with `If-None-Match: *`, and again without it if the server does not support that. */
async function conditional<Answer>(
  createOnly: boolean,
  send: (condition: Condition) => Promise<Answer>,
): Promise<Answer> {
  if (!createOnly) return send({})
  return send({ IfNoneMatch: '*' }).catch(async (error: unknown) => {
    if (isGatewayError(error, 'unsupported')) return send({})
    throw error
  })
}

/**
 * Aborts a multipart upload, as stored parts cost money. Never rejects: if it fails, cleanup is left to the bucket's
 * lifecycle rules.
 */
export async function abortMultipart(
  client: BucketClient,
  upload: { Bucket: string; Key: string; UploadId: string | undefined },
): Promise<void> {
  await client
    .call(
      (s3, options) => s3.send(new AbortMultipartUploadCommand(upload), options),
      AbortSignal.timeout(cleanupTimeout),
    )
    .catch(() => undefined)
}

/** Reads a body in pieces of requested lengths. */
export class BodyReader {
  /** Bytes received. */
  receivedBytes = 0
  #ended = false
  /** The part of the last chunk that no piece contains yet. */
  #rest: Buffer = Buffer.alloc(0)
  readonly #chunks: AsyncIterator<Buffer | string, undefined>

  constructor(
    private readonly body: Readable,
    private readonly size: number | undefined,
  ) {
    this.#chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer | string, undefined>
  }

  isExhausted(): boolean {
    return this.#ended && this.#rest.length === 0
  }

  /** Destroys the body. */
  destroy(reason: GatewayError): void {
    this.body.destroy(reason)
  }

  /**
   * Resolves to `length` bytes, or fewer at the end of the body. The last piece is returned only after the end was
   * received. Rejects with `invalid` if the body is not of the announced size, and with `aborted` if the sender
   * disconnected.
   */
  async next(length: number): Promise<Buffer> {
    // Filled as the bytes arrive: chunks that are collected first would occupy as much memory again.
    const piece = Buffer.allocUnsafeSlow(length)
    let filled = 0
    for (;;) {
      const copied = this.#rest.copy(piece, filled)
      filled += copied
      this.#rest = this.#rest.subarray(copied)
      if (this.#ended || (filled === length && this.receivedBytes !== this.size)) return piece.subarray(0, filled)
      await this.#receive()
    }
  }

  /** Receives the next chunk. `#rest` must be empty unless all bytes of the announced size have been received. */
  async #receive(): Promise<void> {
    const { value, done } = await this.#chunks.next().catch((error: unknown) => {
      throw bodyError(error)
    })
    if (done === true) {
      this.#ended = true
      if (this.size === undefined || this.receivedBytes === this.size) return
      throw new GatewayError('invalid', { reason: `the body ended after ${this.receivedBytes} of ${this.size} bytes` })
    }
    const chunk = typeof value === 'string' ? Buffer.from(value) : value
    this.receivedBytes += chunk.length
    if (this.size !== undefined && this.receivedBytes > this.size) {
      throw new GatewayError('invalid', { reason: `the body is longer than the announced ${this.size} bytes` })
    }
    this.#rest = chunk
  }
}

/** A body that is cut off was canceled by its sender. */
function bodyError(error: unknown): GatewayError {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  const isCut = code === 'ERR_STREAM_PREMATURE_CLOSE' || code === 'ECONNRESET'
  return isCut ? new GatewayError('aborted', { cause: error }) : toGatewayError(error)
}
