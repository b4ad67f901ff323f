/** Copies that the server makes by itself: in one request, or in parts where the object is too large for that. */
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  UploadPartCopyCommand,
  type CompletedPart,
  type HeadObjectCommandOutput,
} from '@aws-sdk/client-s3'
import { GatewayError } from '../../src/errors.js'
import type { BucketClient } from './client.js'
import { dropParts } from './upload.js'

const mebibyte = 1024 * 1024

export interface CopyLimits {
  /** Larger objects are copied in parts. */
  readonly single: number
  /** The least bytes of a part. */
  readonly part: number
}

/** What the protocol allows in one request, and parts that are worth a request each. */
export const copyLimits: CopyLimits = { single: 5_000_000_000, part: 100 * mebibyte }

const partLimit = 10_000
const parallelParts = 8
const changedMeanwhile = 'the file changed while it was copied'

/** `head`: what the source is; the copy fails with `busy` where that is no more. `publish`: as in `upload()`. */
export async function copyObject(
  client: BucketClient,
  from: string,
  to: string,
  head: HeadObjectCommandOutput,
  metadata: Record<string, string>,
  limits: CopyLimits,
  publish: (last: () => Promise<void>) => Promise<void>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const object = { Bucket: client.bucket, Key: to }
  const source = {
    CopySource: `${client.bucket}/${from}`.split('/').map(encodeSegment).join('/'),
    // Of what was uploaded in parts, Swift compares another ETag than the one that it tells.
    ...(head.ETag === undefined || head.ETag.includes('-') ? {} : { CopySourceIfMatch: head.ETag }),
  }
  // All of it is given anew, as a copy in parts takes nothing along.
  const facts = {
    ...object,
    Metadata: metadata,
    ContentType: head.ContentType,
    CacheControl: head.CacheControl,
    ContentDisposition: head.ContentDisposition,
    ContentEncoding: head.ContentEncoding,
    ContentLanguage: head.ContentLanguage,
  }
  const size = head.ContentLength ?? 0
  const changed = (error: unknown): never => {
    if (error instanceof GatewayError && error.code === 'precondition_failed') {
      throw new GatewayError('busy', { reason: changedMeanwhile, cause: error })
    }
    throw error
  }
  if (size <= limits.single) {
    const command = new CopyObjectCommand({ ...facts, ...source, MetadataDirective: 'REPLACE' })
    await publish(async () => {
      await client.call((s3, options) => s3.send(command, options), signal, 'lengthy').catch(changed)
    })
    return
  }

  const { UploadId } = await client.call(
    (s3, options) => s3.send(new CreateMultipartUploadCommand(facts), options),
    signal,
  )
  const length = Math.max(limits.part, Math.ceil(size / partLimit))
  const count = Math.ceil(size / length)
  const parts: CompletedPart[] = []
  const failed = new AbortController()
  const partSignal = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal
  let next = 1
  const work = async () => {
    while (next <= count && !failed.signal.aborted) {
      const PartNumber = next++
      const first = (PartNumber - 1) * length
      const CopySourceRange = `bytes=${first}-${Math.min(size, first + length) - 1}`
      const command = new UploadPartCopyCommand({ ...object, ...source, UploadId, PartNumber, CopySourceRange })
      const answer = await client.call((s3, options) => s3.send(command, options), partSignal, 'lengthy')
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
    if (failure !== undefined) changed(failure)
    const look = new HeadObjectCommand({ Bucket: client.bucket, Key: from })
    const now = await client.call((s3, options) => s3.send(look, options), signal)
    if (now.ETag !== head.ETag) throw new GatewayError('busy', { reason: changedMeanwhile })
    parts.sort((one, other) => (one.PartNumber ?? 0) - (other.PartNumber ?? 0))
    const complete = new CompleteMultipartUploadCommand({ ...object, UploadId, MultipartUpload: { Parts: parts } })
    await publish(async () => {
      await client.call((s3, options) => s3.send(complete, options), signal, 'lengthy')
    })
  } catch (error) {
    await dropParts(client, { ...object, UploadId })
    throw error
  }
}

/** Everything but what no server takes for anything else; `encodeURIComponent` leaves `!'()*`. */
function encodeSegment(segment: string): string {
  return encodeURIComponent(segment).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)
}
