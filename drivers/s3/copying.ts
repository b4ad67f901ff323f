/** Server-side copies: in one request, or in parts where the object is too large for one. */
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  UploadPartCopyCommand,
  type CompletedPart,
  type HeadObjectCommandOutput,
} from '@aws-sdk/client-s3'
import { joinSignals } from '../../src/base/cancellation.js'
import { GatewayError } from '../../src/base/errors.js'
import type { BucketClient } from './client.js'
import { abortMultipart } from './upload.js'

const mebibyte = 1024 * 1024

export interface CopyLimits {
  /** Bytes; larger objects are copied in parts. */
  readonly maxSingleCopy: number
  /** Minimum bytes of a part. */
  readonly minPartSize: number
}

/** `single` is the maximum that the protocol allows in one request; `part` is large enough to be worth a request. */
export const copyLimits: CopyLimits = { maxSingleCopy: 5_000_000_000, minPartSize: 100 * mebibyte }

const maxParts = 10_000
const parallelParts = 8
const changedDuringCopy = 'the file changed while it was copied'

/**
 * Copies an object within the bucket. `head` describes the source; the copy rejects with `busy` if the source has
 * changed since. `metadata` replaces the metadata of the source. `publish`: as in `upload()`.
 */
export async function copyObject(
  client: BucketClient,
  from: string,
  to: string,
  head: HeadObjectCommandOutput,
  metadata: Record<string, string>,
  limits: CopyLimits,
  publish: (finish: () => Promise<void>) => Promise<void>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const object = { Bucket: client.bucket, Key: to }
  const source = {
    CopySource: `${client.bucket}/${from}`.split('/').map(encodeSegment).join('/'),
    // For objects that were uploaded in parts, Swift compares an ETag other than the one that it reports.
    ...(head.ETag === undefined || head.ETag.includes('-') ? {} : { CopySourceIfMatch: head.ETag }),
  }
  // Sent explicitly, because a multipart copy does not copy any header or metadata.
  const attributes = {
    ...object,
    Metadata: metadata,
    ContentType: head.ContentType,
    CacheControl: head.CacheControl,
    ContentDisposition: head.ContentDisposition,
    ContentEncoding: head.ContentEncoding,
    ContentLanguage: head.ContentLanguage,
  }
  const size = head.ContentLength ?? 0
  const rethrowAsBusy = (error: unknown): never => {
    if (error instanceof GatewayError && error.code === 'precondition_failed') {
      throw new GatewayError('busy', { reason: changedDuringCopy, cause: error })
    }
    throw error
  }
  if (size <= limits.maxSingleCopy) {
    const command = new CopyObjectCommand({ ...attributes, ...source, MetadataDirective: 'REPLACE' })
    await publish(async () => {
      await client.call((s3, options) => s3.send(command, options), signal, 'lengthy').catch(rethrowAsBusy)
    })
    return
  }

  const { UploadId } = await client.call(
    (s3, options) => s3.send(new CreateMultipartUploadCommand(attributes), options),
    signal,
  )
  const length = Math.max(limits.minPartSize, Math.ceil(size / maxParts))
  const count = Math.ceil(size / length)
  const parts: CompletedPart[] = []
  const failed = new AbortController()
  const joined = joinSignals(signal, failed.signal)
  let next = 1
  const work = async () => {
    while (next <= count && !failed.signal.aborted) {
      const PartNumber = next++
      const first = (PartNumber - 1) * length
      const CopySourceRange = `bytes=${first}-${Math.min(size, first + length) - 1}`
      const command = new UploadPartCopyCommand({ ...object, ...source, UploadId, PartNumber, CopySourceRange })
      const answer = await client.call((s3, options) => s3.send(command, options), joined.signal, 'lengthy')
      parts.push({ PartNumber, ETag: answer.CopyPartResult?.ETag })
    }
  }
  let failure: unknown
  const worker = async () =>
    work().catch((error: unknown) => {
      failure ??= error
      failed.abort()
    })
  try {
    await Promise.all(Array.from({ length: Math.min(parallelParts, count) }, worker))
    if (failure !== undefined) rethrowAsBusy(failure)
    const headCommand = new HeadObjectCommand({ Bucket: client.bucket, Key: from })
    const current = await client.call((s3, options) => s3.send(headCommand, options), signal)
    if (current.ETag !== head.ETag) throw new GatewayError('busy', { reason: changedDuringCopy })
    parts.sort((one, other) => (one.PartNumber ?? 0) - (other.PartNumber ?? 0))
    const complete = new CompleteMultipartUploadCommand({ ...object, UploadId, MultipartUpload: { Parts: parts } })
    await publish(async () => {
      await client.call((s3, options) => s3.send(complete, options), signal, 'lengthy')
    })
  } catch (error) {
    await abortMultipart(client, { ...object, UploadId })
    throw error
  } finally {
    joined.release()
  }
}

/** Percent-encodes all but the unreserved characters (RFC 3986 §2.3); `encodeURIComponent` leaves `!'()*`. */
function encodeSegment(segment: string): string {
  return encodeURIComponent(segment).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
}
