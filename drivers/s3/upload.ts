/** Uploads: a small body in one request, a larger one in parts, of which no more than a few are in memory. */
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  UploadPartCommand,
  type CompletedPart,
} from '@aws-sdk/client-s3'
import type { Readable } from 'node:stream'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/errors.js'
import type { BucketClient } from './client.js'

const mebibyte = 1024 * 1024
/** Up to here a body goes in one request. */
const singleLimit = 8 * mebibyte
const partLimit = 10_000
/** Parts in flight, as long as they are of a usual size. */
const parallelParts = 4
const memoryLimit = 64 * mebibyte
/** Milliseconds that the server has for dropping parts that nobody wants any more. */
const cleanUpTime = 15_000

export interface Target {
  readonly key: string
  readonly contentType: string
  readonly metadata: Record<string, string>
  /** Fails with `precondition_failed` where something has the key; servers that do not know how replace it. */
  readonly createOnly: boolean
}

/**
 * What tells how large a part is: equal ones, as some servers want them. Of a body of unknown size they grow after the first
 * 5,000 (80 GB), which the servers that want equal ones refuse.
 */
export function partSize(part: number, size: number | undefined): number {
  if (size !== undefined) return Math.max(singleLimit, Math.ceil(size / partLimit / mebibyte) * mebibyte)
  return part <= partLimit / 2 ? 2 * singleLimit : 8 * singleLimit
}

/**
 * Stores the body. Nothing is sent before `ready`, but the body is read from now on. `publish` is given the last step, once every byte has arrived: it calls it, or rejects, and then nothing of
 * the body stays. A body of another length than `size` is `invalid`.
 */
export async function upload(
  client: BucketClient,
  target: Target,
  body: Readable,
  size: number | undefined,
  ready: Promise<void>,
  publish: (last: () => Promise<string | undefined>) => Promise<string | undefined>,
  signal: AbortSignal | undefined,
): Promise<{ readonly etag: string | undefined; readonly bytes: number }> {
  const pieces = new Pieces(body, size)
  const [first] = await Promise.all([
    pieces.next(size === undefined ? singleLimit : Math.min(partSize(1, size), size + 1)),
    ready,
  ])
  if (pieces.isOver()) {
    const put = (condition: Condition) => {
      const command = new PutObjectCommand({ ...factsOf(client, target), ...condition, Body: first })
      return client.call((s3, options) => s3.send(command, options), signal, 'lengthy')
    }
    const etag = await publish(async () => (await conditional(target.createOnly, put)).ETag)
    return { etag, bytes: pieces.bytes }
  }

  const multipart = await Multipart.begin(client, target, signal)
  try {
    await multipart.send(pieces, { length: (part) => partSize(part, size), part: 1, bytes: first }, signal)
    const etag = await publish(() => multipart.complete(target.createOnly, signal))
    return { etag, bytes: pieces.bytes }
  } catch (error) {
    await multipart.drop()
    throw error
  }
}

/** What the parts of a body are to be. */
interface Cut {
  /** Bytes of a part; the last one has what is left. */
  readonly length: (part: number) => number
  /** The number of the first one, and what was read of it already. */
  readonly part: number
  readonly bytes?: Buffer
  /** What has been stored stays of use: where the body fails, what is on its way is let come to its end. */
  readonly isKept?: boolean
}

/** An upload of one object in parts, which the server keeps until it is completed or dropped. */
export class Multipart {
  /** ETags by number of the part. */
  readonly #parts = new Map<number, string | undefined>()

  constructor(
    private readonly client: BucketClient,
    readonly key: string,
    readonly id: string,
    stored: readonly CompletedPart[] = [],
  ) {
    for (const { PartNumber = 0, ETag } of stored) this.#parts.set(PartNumber, ETag)
  }

  static async begin(client: BucketClient, target: Target, signal: AbortSignal | undefined): Promise<Multipart> {
    const command = new CreateMultipartUploadCommand(factsOf(client, target))
    const { UploadId } = await client.call((s3, options) => s3.send(command, options), signal)
    if (UploadId === undefined) throw new GatewayError('unavailable', { reason: 'the S3 server begins no upload' })
    return new Multipart(client, target.key, UploadId)
  }

  get #upload() {
    return { Bucket: this.client.bucket, Key: this.key, UploadId: this.id }
  }

  /** All of the body, a few parts at a time. Nothing is on its way any more when this settles. */
  async send(pieces: Pieces, { length, part: begin, bytes: begun, isKept }: Cut, signal: AbortSignal | undefined) {
    const running = new Set<Promise<void>>()
    const failed = new AbortController()
    const partSignal = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal
    let failure: unknown
    const fail = (error: unknown) => {
      failure ??= error
      failed.abort()
      // Nobody waits for more of a body that cannot be stored.
      pieces.end(toGatewayError(error))
    }
    try {
      let bytes = begun ?? (await pieces.next(length(begin)))
      for (let part = begin; bytes.length > 0; part++) {
        if (part > partLimit) throw new GatewayError('too_large', { reason: 'more parts than an S3 upload may have' })
        const sending: Promise<void> = this.#send(part, bytes, partSignal)
          .catch(fail)
          .finally(() => running.delete(sending))
        running.add(sending)
        if (pieces.isOver()) break
        const next = length(part + 1)
        while (running.size >= Math.max(1, Math.min(parallelParts, Math.floor(memoryLimit / next)))) {
          await Promise.race(running)
        }
        bytes = await pieces.next(next)
      }
      await Promise.all(running)
    } catch (error) {
      if (isKept !== true) failed.abort()
      await Promise.all(running)
      failure ??= error
    }
    if (failure !== undefined) throw toGatewayError(failure)
  }

  async #send(PartNumber: number, bytes: Buffer, signal: AbortSignal): Promise<void> {
    const command = new UploadPartCommand({ ...this.#upload, PartNumber, Body: bytes })
    const { ETag } = await this.client.call((s3, options) => s3.send(command, options), signal, 'lengthy')
    this.#parts.set(PartNumber, ETag)
  }

  /** The object has its key. Resolves to its ETag. */
  async complete(createOnly: boolean, signal: AbortSignal | undefined): Promise<string | undefined> {
    const parts = [...this.#parts].map(([PartNumber, ETag]) => ({ PartNumber, ETag }))
    const Parts = parts.sort((one, other) => one.PartNumber - other.PartNumber)
    const complete = (condition: Condition) => {
      const command = new CompleteMultipartUploadCommand({ ...this.#upload, ...condition, MultipartUpload: { Parts } })
      return this.client.call((s3, options) => s3.send(command, options), signal, 'lengthy')
    }
    return (await conditional(createOnly, complete)).ETag
  }

  drop(): Promise<void> {
    return dropParts(this.client, this.#upload)
  }
}

function factsOf({ bucket }: BucketClient, { key, contentType, metadata }: Target) {
  return { Bucket: bucket, Key: key, ContentType: contentType, Metadata: metadata }
}

/** Works with a body that ends with the signal, and is let go of in the end. */
export async function taking<T>(body: Readable, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
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

/** With the condition, and without it where the server says that it knows none. */
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

/** Parts that are not asked for again cost their owner money. What cannot be dropped is left to the rules of the bucket. */
export async function dropParts(
  client: BucketClient,
  upload: { Bucket: string; Key: string; UploadId: string | undefined },
): Promise<void> {
  await client
    .call((s3, options) => s3.send(new AbortMultipartUploadCommand(upload), options), AbortSignal.timeout(cleanUpTime))
    .catch(() => undefined)
}

/** A body in pieces of given lengths. */
export class Pieces {
  bytes = 0
  #ended = false
  #rest: Buffer[] = []
  #held = 0
  readonly #chunks: AsyncIterator<Buffer | string, undefined>

  constructor(
    private readonly body: Readable,
    private readonly size: number | undefined,
  ) {
    this.#chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer | string, undefined>
  }

  isOver(): boolean {
    return this.#ended && this.#held === 0
  }

  /** No more of it is wanted. */
  end(reason: GatewayError): void {
    this.body.destroy(reason)
  }

  /** So many bytes, fewer at the end alone. The last one comes when the body has surely ended. */
  async next(length: number): Promise<Buffer> {
    while (!this.#ended && (this.#held < length || this.bytes === this.size)) await this.#receive()
    const all = this.#rest.length === 1 && this.#rest[0] ? this.#rest[0] : Buffer.concat(this.#rest)
    const rest = all.subarray(length)
    // A copy, so that the few bytes of the rest do not keep the whole.
    this.#rest = rest.length === 0 ? [] : [Buffer.from(rest)]
    this.#held = rest.length
    return all.subarray(0, length)
  }

  async #receive(): Promise<void> {
    const { value, done } = await this.#chunks.next().catch((error: unknown) => {
      throw ofBody(error)
    })
    if (done === true) {
      this.#ended = true
      if (this.size === undefined || this.bytes === this.size) return
      throw new GatewayError('invalid', { reason: `the body ended after ${this.bytes} of ${this.size} bytes` })
    }
    const chunk = typeof value === 'string' ? Buffer.from(value) : value
    this.bytes += chunk.length
    this.#held += chunk.length
    this.#rest.push(chunk)
    if (this.size !== undefined && this.bytes > this.size) {
      throw new GatewayError('invalid', { reason: `the body is longer than the announced ${this.size} bytes` })
    }
  }
}

/** A body that ends without its end is one that its sender gave up. */
function ofBody(error: unknown): GatewayError {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  const isCut = code === 'ERR_STREAM_PREMATURE_CLOSE' || code === 'ECONNRESET'
  return isCut ? new GatewayError('aborted', { cause: error }) : toGatewayError(error)
}
