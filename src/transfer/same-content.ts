/** Compares the content of two sources. */
import type { Readable } from 'node:stream'
import type { Source } from '../contract/call-options.js'
import { outsideLimit } from '../storage/concurrency-limiter.js'

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
