/** Multipart uploads that can be resumed after a restart: ListParts returns the parts that the server has. */
import { createHash } from 'node:crypto'
import { AbortMultipartUploadCommand, HeadObjectCommand, ListPartsCommand, type Part } from '@aws-sdk/client-s3'
import type { UploadPlan } from '../../src/contract/capabilities.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import type { BucketClient } from './client.js'
import { revisionOf } from './object-keys.js'
import { contiguousParts } from '../lib/streams/parts.js'
import { Multipart, partSize, type UploadTarget } from './upload.js'

/** The resume token: identifies the multipart upload. */
interface Token {
  readonly key: string
  readonly upload: string
  /** Bytes of each part but the last. */
  readonly part: number
}

/** A multipart upload of one object, some parts of which may already be stored. */
export interface ResumableMultipart {
  readonly multipart: Multipart
  readonly token: string
  /** Bytes of each part but the last. */
  readonly partLength: number
  /** Bytes stored by the server, from the start of the file. */
  readonly committedOffset: number
}

/** Resumes the upload of the plan's token, or starts a new one. Rejects with `unsupported` for an empty file. */
export async function openResumable(
  client: BucketClient,
  target: UploadTarget,
  { size, resumeToken: resume }: UploadPlan,
  signal: AbortSignal | undefined,
): Promise<ResumableMultipart> {
  if (size === 0) throw new GatewayError('unsupported', { reason: 'an empty file has no parts' })
  const token = resume === undefined ? undefined : parseToken(resume)
  const stored = token && (await storedParts(client, token, size, signal))
  if (token && stored && token.key === target.key) {
    const multipart = new Multipart(client, token.key, token.upload, stored.parts)
    return { multipart, token: JSON.stringify(token), partLength: token.part, committedOffset: stored.bytes }
  }
  // The earlier upload cannot be resumed.
  if (token) await new Multipart(client, token.key, token.upload).abort()
  const multipart = await Multipart.begin(client, target, signal)
  const started: Token = { key: multipart.key, upload: multipart.id, part: partSize(1, size) }
  return { multipart, token: JSON.stringify(started), partLength: started.part, committedOffset: 0 }
}

/** Aborts the upload of a token; ignores malformed tokens. Rejects only if a retry may succeed. */
export async function abortUpload(client: BucketClient, text: string): Promise<void> {
  const token = parseToken(text)
  if (!token) return
  const command = new AbortMultipartUploadCommand({ Bucket: client.bucket, Key: token.key, UploadId: token.upload })
  try {
    if (await isCompleted(client, token)) return
    await client.call((s3, options) => s3.send(command, options), undefined)
  } catch (error) {
    // If the server refuses, or does not have the upload, cleanup is left to the bucket's lifecycle rules.
    if (client.closed || isTransient(error)) throw error
  }
}

/**
 * Whether the object consists of exactly these parts: the upload may have been completed although the response was
 * lost. Some servers would then delete the data of the object on AbortMultipartUpload.
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
  const object = await undefinedIfMissing(client.call((s3, options) => s3.send(head, options), undefined))
  // An object older than the parts has the same content, but from another upload. Some times have a precision of one
  // second.
  const isOlder = (object?.LastModified?.getTime() ?? latest) + 1000 <= latest
  return count > 0 && !isOlder && revisionOf(object?.ETag) === `${digest.digest('hex')}-${count}`
}

function isTransient(error: unknown): boolean {
  return isGatewayError(error, 'unavailable', 'timeout', 'busy', 'throttled')
}

/**
 * The contiguous stored parts from the first one on, each of the expected size. Undefined if the server does not have
 * the upload or refuses to list it.
 */
async function storedParts(
  client: BucketClient,
  token: Token,
  size: number,
  signal: AbortSignal | undefined,
): Promise<{ readonly parts: readonly Part[]; readonly bytes: number } | undefined> {
  const numbered = async function* () {
    for await (const part of allParts(client, token, signal)) {
      yield { ...part, number: part.PartNumber ?? 0, size: part.Size ?? 0 }
    }
  }
  try {
    return await contiguousParts(numbered(), token.part, size)
  } catch (error) {
    if (signal?.aborted || client.closed || isTransient(error)) throw error
    return undefined
  }
}

/** All parts of the upload, by ascending part number. */
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

function parseToken(text: string): Token | undefined {
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
