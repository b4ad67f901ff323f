/** Uploads in parts that a later run goes on with: the server tells which parts it has. */
import { AbortMultipartUploadCommand, HeadObjectCommand, ListPartsCommand, type Part } from '@aws-sdk/client-s3'
import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { UploadPlan } from '../../src/driver.js'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import type { BucketClient } from './client.js'
import { revisionOf } from './keys.js'
import { Multipart, partSize, Pieces, type Target } from './upload.js'

/** How a later run finds the parts. */
interface Token {
  readonly key: string
  readonly upload: string
  /** Bytes of each part but the last. */
  readonly part: number
}

/** Parts of one object, some of which may be there already. */
export class KeptUpload {
  private constructor(
    readonly multipart: Multipart,
    private readonly size: number,
    private readonly part: number,
    /** Bytes from the start that the server has. */
    readonly confirmed: number,
  ) {}

  /** Goes on with the parts of an earlier one, or begins anew. */
  static async open(
    client: BucketClient,
    target: Target,
    { size, resume }: UploadPlan,
    signal: AbortSignal | undefined,
  ): Promise<KeptUpload> {
    if (size === 0) throw new GatewayError('unsupported', { reason: 'an empty file has no parts' })
    const token = resume === undefined ? undefined : parsed(resume)
    const stored = token && (await storedParts(client, token, size, signal))
    if (token && stored && token.key === target.key) {
      const multipart = new Multipart(client, token.key, token.upload, stored.parts)
      return new KeptUpload(multipart, size, token.part, stored.bytes)
    }
    // Of what cannot be gone on with nothing is left.
    if (token) await new Multipart(client, token.key, token.upload).drop()
    return new KeptUpload(await Multipart.begin(client, target, signal), size, partSize(1, size), 0)
  }

  get token(): string {
    const { key, id: upload } = this.multipart
    const token: Token = { key, upload, part: this.part }
    return JSON.stringify(token)
  }

  /** The rest of the body. */
  async send(body: Readable, signal: AbortSignal | undefined): Promise<void> {
    const pieces = new Pieces(body, this.size - this.confirmed)
    const part = Math.ceil(this.confirmed / this.part) + 1
    await this.multipart.send(pieces, { length: () => this.part, part, isKept: true }, signal)
  }
}

/** Lets go of what a token stands for, if it is one. Rejects where that may go well later. */
export async function dropUpload(client: BucketClient, text: string): Promise<void> {
  const token = parsed(text)
  if (!token) return
  const command = new AbortMultipartUploadCommand({ Bucket: client.bucket, Key: token.key, UploadId: token.upload })
  try {
    if (await isCompleted(client, token)) return
    await client.call((s3, options) => s3.send(command, options), undefined)
  } catch (error) {
    // What the server does not know, or refuses, is left to the rules of the bucket.
    if (client.closed || isPassing(error)) throw error
  }
}

/**
 * Whether the object is made of these very parts: its completion may have been done, and its answer lost. There are servers that would
 * then drop what the object stands on.
 */
async function isCompleted(client: BucketClient, token: Token): Promise<boolean> {
  const digest = createHash('md5')
  let count = 0
  let latest = 0
  for await (const { ETag, LastModified } of allParts(client, token, undefined)) {
    digest.update(revisionOf(ETag) ?? '', 'hex')
    count++
    latest = Math.max(latest, LastModified?.getTime() ?? 0)
  }
  const head = new HeadObjectCommand({ Bucket: client.bucket, Key: token.key })
  const object = await client
    .call((s3, options) => s3.send(head, options), undefined)
    .catch((error: unknown) => {
      if (isGatewayError(error, 'not_found')) return undefined
      throw error
    })
  // One that is older only has the same content. Some times are told to the second alone.
  const isOlder = (object?.LastModified?.getTime() ?? latest) + 1000 <= latest
  return count > 0 && !isOlder && revisionOf(object?.ETag) === `${digest.digest('hex')}-${count}`
}

function isPassing(error: unknown): boolean {
  return isGatewayError(error, 'unavailable', 'timeout', 'busy', 'throttled')
}

/**
 * The parts that are there from the first one on, without a gap and each as long as it has to be. Undefined where the server knows
 * nothing of them, or has more than the file.
 */
async function storedParts(
  client: BucketClient,
  token: Token,
  size: number,
  signal: AbortSignal | undefined,
): Promise<{ readonly parts: readonly Part[]; readonly bytes: number } | undefined> {
  const parts: Part[] = []
  let bytes = 0
  try {
    for await (const found of allParts(client, token, signal)) {
      const isNext = found.PartNumber === parts.length + 1 && bytes < size
      if (!isNext || found.Size !== Math.min(token.part, size - bytes)) break
      parts.push(found)
      bytes += found.Size
    }
  } catch (error) {
    if (signal?.aborted || client.closed || isPassing(error)) throw error
    return undefined
  }
  return { parts, bytes }
}

/** In the order of their numbers. */
async function* allParts(client: BucketClient, token: Token, signal: AbortSignal | undefined): AsyncGenerator<Part> {
  const upload = { Bucket: client.bucket, Key: token.key, UploadId: token.upload }
  let marker: string | undefined
  do {
    const command = new ListPartsCommand({ ...upload, PartNumberMarker: marker })
    const answer = await client.call((s3, options) => s3.send(command, options), signal)
    yield* answer.Parts ?? []
    const next = answer.IsTruncated === true ? answer.NextPartNumberMarker : undefined
    if (next !== undefined && next === marker) return
    marker = next
  } while (marker !== undefined)
}

function parsed(text: string): Token | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null) return undefined
  const { key, upload, part } = value as Partial<Record<keyof Token, unknown>>
  const isToken =
    typeof key === 'string' && typeof upload === 'string' && Number.isSafeInteger(part) && Number(part) > 0
  return isToken ? { key, upload, part: Number(part) } : undefined
}
