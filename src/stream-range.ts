/** A part of a stream, for backends that only tell all of a file. */
import { Readable } from 'node:stream'
import type { ByteRange } from './driver.js'

/** A range of a stream that starts at byte 0; what is not needed of it is never asked for. */
export function rangeOf(whole: Readable, range: ByteRange): Readable {
  const cut = Readable.from(bytesOf(whole, range), { objectMode: false })
  // It may fail before anybody reads the part.
  whole.once('error', (error) => cut.destroy(error))
  return cut.once('close', () => whole.destroy())
}

async function* bytesOf(whole: Readable, range: ByteRange): AsyncGenerator<Buffer> {
  let skip = range.offset
  let left = range.length ?? Number.POSITIVE_INFINITY
  // Left early, an iterator that ends its stream makes it fail first: `rangeOf` ends it.
  for await (const chunk of whole.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    const from = Math.min(skip, chunk.length)
    skip -= from
    const bytes = chunk.subarray(from, Math.min(chunk.length, from + left))
    left -= bytes.length
    if (bytes.length > 0) yield bytes
    if (left === 0) return
  }
}
