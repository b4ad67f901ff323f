/**
 * Determines whether two paths lead to the same file or folder, such as two mounts of one folder, or a view and the
 * storage below it, and whether two sources have the same content.
 */
import type { Readable } from 'node:stream'
import type { FileIdentity } from '../contract/entry.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { selfAndAncestors } from '../base/path.js'
import type { Source } from '../contract/call-options.js'
import type { MountedPath } from '../mounts/mounts.js'
import { outsideLimit } from '../storage/concurrency-limiter.js'

/** 'unknown': the identities of their backends cannot be compared. */
export type Sameness = 'same' | 'distinct' | 'unknown'

/** 'same' if a change of one would change the other, or a part of it. */
export async function sameness(first: MountedPath, second: MountedPath, signal: AbortSignal): Promise<Sameness> {
  return compareIdentities(await identitiesOf(first, signal), await identitiesOf(second, signal))
}

/** Identities of the path and of each folder above it, up to the root of its storage. */
export async function identitiesUpward(
  { storage, inner }: MountedPath,
  signal: AbortSignal,
): Promise<readonly FileIdentity[]> {
  const identities: FileIdentity[] = []
  for (const above of selfAndAncestors(inner))
    identities.push(...(await identitiesOf({ storage, inner: above }, signal)))
  return identities
}

/** Whether the path is certainly one of these. */
export async function matchesAny(
  place: MountedPath,
  others: readonly FileIdentity[],
  signal: AbortSignal,
): Promise<boolean> {
  return compareIdentities(await identitiesOf(place, signal), others) === 'same'
}

export function compareIdentities(
  firstIdentities: readonly FileIdentity[],
  secondIdentities: readonly FileIdentity[],
): Sameness {
  // The entry does not exist, or its backend reports no identity.
  if (firstIdentities.length === 0 || secondIdentities.length === 0) return 'unknown'
  const pairs = firstIdentities.flatMap((first) => secondIdentities.map((second) => [first, second] as const))
  if (pairs.some(([first, second]) => first.namespace === second.namespace && first.name === second.name)) return 'same'
  return pairs.every(([first, second]) => first.namespace === second.namespace) ? 'distinct' : 'unknown'
}

/** Empty for a path that does not exist, and for a symlink that leads outside the storage. */
export async function identitiesOf(
  { storage, inner }: MountedPath,
  signal: AbortSignal | undefined,
): Promise<readonly FileIdentity[]> {
  try {
    return await storage.identities(inner, { signal })
  } catch (error) {
    if (isGatewayError(error, 'not_found', 'not_folder', 'denied')) return []
    throw error
  }
}

export function sameFileError(): GatewayError {
  return new GatewayError('invalid', { reason: 'the source and the target are one and the same' })
}

/**
 * Whether both have the same bytes: compares the sizes, then a digest that both have, otherwise reads both until the
 * first difference.
 */
export async function isSameContent(one: Source, other: Source, signal: AbortSignal): Promise<boolean> {
  if (one.size !== other.size) return false
  for (const [name, digest] of Object.entries(one.hashes ?? {})) {
    const otherDigest = other.hashes?.[name]
    if (otherDigest !== undefined) return otherDigest === digest
  }
  const streams = [await open(one, signal)]
  try {
    // Concurrent comparisons of files of one storage could otherwise deadlock, each waiting for its second stream.
    streams.push(await outsideLimit(() => open(other, signal)))
    const [firstChunks, secondChunks] = streams.map((stream) => stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>)
    if (!firstChunks || !secondChunks) return false
    let [first, second]: [Buffer, Buffer] = [Buffer.alloc(0), Buffer.alloc(0)]
    for (;;) {
      if (first.length === 0) first = await nextChunk(firstChunks)
      if (second.length === 0) second = await nextChunk(secondChunks)
      const length = Math.min(first.length, second.length)
      if (length === 0) return first.length === second.length
      if (!first.subarray(0, length).equals(second.subarray(0, length))) return false
      first = first.subarray(length)
      second = second.subarray(length)
    }
  } finally {
    for (const stream of streams) stream.destroy()
  }
}

/** An error before the stream is read must not be an unhandled event; the reader still receives it. */
async function open(source: Source, signal: AbortSignal): Promise<Readable> {
  return (await source.read(undefined, { signal })).on('error', () => undefined)
}

/** Resolves to the next non-empty chunk, or to an empty buffer at the end. */
async function nextChunk(chunks: AsyncIterator<Buffer>): Promise<Buffer> {
  for (;;) {
    const next = await chunks.next()
    if (next.done === true) return Buffer.alloc(0)
    if (next.value.length > 0) return next.value
  }
}
