/** Listings of keys, page by page, with version 1 or 2 of ListObjects. */
import {
  ListObjectsCommand,
  ListObjectsV2Command,
  type _Object as S3Object,
  type CommonPrefix,
} from '@aws-sdk/client-s3'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import { percentDecoded } from '../../src/base/utf8.js'
import type { BucketClient } from './client.js'

interface ListingRequest {
  readonly prefix: string
  readonly version: string
  /** Groups the keys that contain this character after `prefix` into one common prefix. */
  readonly delimiter?: '/'
  readonly pageSize?: number
  readonly signal?: AbortSignal | undefined
}

export interface ListedObject extends S3Object {
  readonly Key: string
}

interface Page {
  readonly objects: readonly ListedObject[]
  readonly prefixes: readonly string[]
}

interface Answer {
  readonly Contents?: S3Object[] | undefined
  readonly CommonPrefixes?: CommonPrefix[] | undefined
  readonly EncodingType?: string | undefined
  readonly IsTruncated?: boolean | undefined
}

/** The start of the next page: the server's continuation token, or the key after which the page begins. */
interface Position {
  readonly token?: string | undefined
  readonly after?: string | undefined
}

/** Yields the pages of a listing. Rejects with `unavailable` if the server returns the same position twice. */
export async function* pages(client: BucketClient, request: ListingRequest): AsyncGenerator<Page> {
  let position: Position = {}
  for (;;) {
    const { answer, next } = await pageAt(client, request, position)
    const page = pageOf(answer)
    yield page
    if (answer.IsTruncated !== true) return
    const following: Position = next ?? { after: lastOf(page) }
    const isRepeated = following.token === position.token && following.after === position.after
    // Prevents an infinite loop.
    if (isRepeated) throw new GatewayError('unavailable', { reason: 'the S3 server repeats a page of a listing' })
    position = following
  }
}

async function pageAt(
  client: BucketClient,
  { prefix, version, delimiter, pageSize = 1000, signal }: ListingRequest,
  { token, after }: Position,
): Promise<{ answer: Answer; next: Position | undefined }> {
  const input = {
    Bucket: client.bucket,
    Prefix: prefix,
    MaxKeys: pageSize,
    // XML cannot represent control characters in keys.
    EncodingType: 'url' as const,
    ...(delimiter === undefined ? {} : { Delimiter: delimiter }),
  }
  if (version === 'v2') {
    const start = token === undefined ? { StartAfter: after } : { ContinuationToken: token }
    const command = new ListObjectsV2Command({ ...input, ...start })
    const answer = await client.call((s3, options) => s3.send(command, options), signal).catch(rethrowMissing)
    const { NextContinuationToken: next } = answer
    return { answer, next: next === undefined || next === '' ? undefined : { token: next } }
  }
  const command = new ListObjectsCommand({ ...input, Marker: after })
  const answer = await client.call((s3, options) => s3.send(command, options), signal).catch(rethrowMissing)
  const next = decoded(answer.NextMarker, answer.EncodingType)
  return { answer, next: next === undefined || next === '' ? undefined : { after: next } }
}

/** A listing of no keys is empty: what is missing is the bucket, or the server is not an S3 server. */
function rethrowMissing(error: unknown): never {
  if (!isGatewayError(error, 'not_found')) throw error
  const reason = 'the server has no such bucket at this address, or hides it from these credentials'
  throw new GatewayError('unavailable', { reason, cause: error.cause })
}

function pageOf({ Contents = [], CommonPrefixes = [], EncodingType }: Answer): Page {
  const objects: ListedObject[] = []
  for (const each of Contents) {
    const key = decoded(each.Key, EncodingType)
    if (key !== undefined) objects.push({ ...each, Key: key })
  }
  const prefixes = CommonPrefixes.map(({ Prefix }) => decoded(Prefix, EncodingType))
  return { objects, prefixes: prefixes.filter((each) => each !== undefined) }
}

/** Undoes the URL encoding. Some servers encode spaces as `+` (minio/minio-py#1156). */
function decoded(text: string | undefined, encoding: string | undefined): string | undefined {
  if (text === undefined || encoding !== 'url') return text
  return percentDecoded(text.replaceAll('+', ' '))
}

/** The key after which the next page starts: past all keys and prefixes of this page. */
function lastOf({ objects, prefixes }: Page): string | undefined {
  const key = objects.at(-1)?.Key
  const prefix = prefixes.at(-1)
  if (prefix === undefined) return key
  const afterPrefix = `${prefix}\u{10ffff}`
  if (key === undefined) return afterPrefix
  return Buffer.compare(Buffer.from(key), Buffer.from(afterPrefix)) > 0 ? key : afterPrefix
}
