/** Whether two sources hold the same bytes. */
import type { Readable } from 'node:stream'
import type { HashName, Source } from './driver.js'
import { withoutWaiting } from './driver-calls.js'

/** By size, by a digest that both know, else by reading both to the first difference. */
export async function isSameContent(one: Source, other: Source, signal: AbortSignal): Promise<boolean> {
  if (one.size !== other.size) return false
  for (const [name, digest] of Object.entries(one.hashes ?? {}) as [HashName, string][]) {
    const theirs = other.hashes?.[name]
    if (theirs !== undefined) return theirs === digest
  }
  const streams = [await opening(one, signal)]
  try {
    // Two that compare files of one storage would else wait for each other's second stream.
    streams.push(await withoutWaiting(() => opening(other, signal)))
    const [mine, theirs] = streams.map((stream) => stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>)
    if (!mine || !theirs) return false
    let [left, right]: [Buffer, Buffer] = [Buffer.alloc(0), Buffer.alloc(0)]
    for (;;) {
      if (left.length === 0) left = await nextChunk(mine)
      if (right.length === 0) right = await nextChunk(theirs)
      const length = Math.min(left.length, right.length)
      if (length === 0) return left.length === right.length
      if (!left.subarray(0, length).equals(right.subarray(0, length))) return false
      left = left.subarray(length)
      right = right.subarray(length)
    }
  } finally {
    for (const stream of streams) stream.destroy()
  }
}

/** One that fails before it is read ends nothing else: whoever reads it is told. */
async function opening(source: Source, signal: AbortSignal): Promise<Readable> {
  return (await source.read(undefined, { signal })).on('error', () => undefined)
}

/** Empty at the end. */
async function nextChunk(chunks: AsyncIterator<Buffer>): Promise<Buffer> {
  for (;;) {
    const next = await chunks.next()
    if (next.done === true) return Buffer.alloc(0)
    if (next.value.length > 0) return next.value
  }
}
