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
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import { BodyReader, sendParts, type SendPart } from '../lib/streams/parts.js'
import type { BucketClient } from './client.js'

const mebibyte = 1024 * 1024
/** Maximum bytes of a body that is sent in one request. */
const maxSingleUpload = 8 * mebibyte
export const maxParts = 10_000
/** Maximum concurrent parts. */
export const parallelParts = 4
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
    const partLength = (part: number) => partSize(part, size)
    const layout = { partLength, maxParts, parallel: parallelParts, firstPart: 1, firstBytes: first }
    await sendParts(pieces, layout, multipart.sendPart, signal)
    const etag = await publish(() => multipart.complete(target.createOnly, signal))
    return { etag, bytes: pieces.receivedBytes }
  } catch (error) {
    await multipart.abort()
    throw error
  }
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

  /** Sends one part. */
  readonly sendPart: SendPart = async (PartNumber, bytes, signal) => {
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
