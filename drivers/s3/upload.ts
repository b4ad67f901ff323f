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
function partSize(part: number, size: number | undefined): number {
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
  const object = { Bucket: client.bucket, Key: target.key }
  const facts = { ...object, ContentType: target.contentType, Metadata: target.metadata }
  const [first] = await Promise.all([
    pieces.next(size === undefined ? singleLimit : Math.min(partSize(1, size), size + 1)),
    ready,
  ])
  if (pieces.isOver()) {
    const put = (condition: Condition) => {
      const command = new PutObjectCommand({ ...facts, ...condition, Body: first })
      return client.call((s3, options) => s3.send(command, options), signal)
    }
    const etag = await publish(async () => (await conditional(target.createOnly, put)).ETag)
    return { etag, bytes: pieces.bytes }
  }

  const { UploadId } = await client.call(
    (s3, options) => s3.send(new CreateMultipartUploadCommand(facts), options),
    signal,
  )
  const running = new Set<Promise<void>>()
  const failed = new AbortController()
  const partSignal = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal
  const parts: CompletedPart[] = []
  let failure: unknown
  const send = async (PartNumber: number, bytes: Buffer) => {
    const command = new UploadPartCommand({ ...object, UploadId, PartNumber, Body: bytes })
    const { ETag } = await client.call((s3, options) => s3.send(command, options), partSignal)
    parts.push({ PartNumber, ETag })
  }
  try {
    let bytes = first
    for (let part = 1; ; part++) {
      if (part > partLimit) throw new GatewayError('too_large', { reason: 'more parts than an S3 upload may have' })
      const sending: Promise<void> = send(part, bytes)
        .catch((error: unknown) => {
          failure ??= error
          failed.abort()
          // Nobody waits for more of a body that cannot be stored.
          body.destroy(toGatewayError(error))
        })
        .finally(() => running.delete(sending))
      running.add(sending)
      if (pieces.isOver()) break
      const length = partSize(part + 1, size)
      while (running.size >= Math.max(1, Math.min(parallelParts, Math.floor(memoryLimit / length)))) {
        await Promise.race(running)
      }
      bytes = await pieces.next(length)
      if (bytes.length === 0) break
    }
    await Promise.all(running)
    if (failure !== undefined) throw toGatewayError(failure)
    parts.sort((one, other) => (one.PartNumber ?? 0) - (other.PartNumber ?? 0))
    const complete = (condition: Condition) => {
      const command = new CompleteMultipartUploadCommand({
        ...object,
        ...condition,
        UploadId,
        MultipartUpload: { Parts: parts },
      })
      return client.call((s3, options) => s3.send(command, options), signal)
    }
    const etag = await publish(async () => (await conditional(target.createOnly, complete)).ETag)
    return { etag, bytes: pieces.bytes }
  } catch (error) {
    failed.abort()
    await Promise.all(running)
    await dropParts(client, { ...object, UploadId })
    throw failure === undefined ? error : toGatewayError(failure)
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
class Pieces {
  bytes = 0
  #ended = false
  #rest: Buffer[] = []
  #held = 0
  readonly #chunks: AsyncIterator<Buffer | string, undefined>

  constructor(
    body: Readable,
    private readonly size: number | undefined,
  ) {
    this.#chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer | string, undefined>
  }

  isOver(): boolean {
    return this.#ended && this.#held === 0
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
