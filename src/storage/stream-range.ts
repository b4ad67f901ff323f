/** Ranges of streams, for backends that can only read whole files. */
import { Readable } from 'node:stream'
import type { ByteRange } from '../contract/call-options.js'

/** Returns a range of a stream that starts at byte 0. Bytes after the range are not read. */
export function streamRange(whole: Readable, range: ByteRange): Readable {
  const cut = Readable.from(bytesOf(whole, range), { objectMode: false })
  // The whole stream may fail before the range is read.
  whole.once('error', (error) => cut.destroy(error))
  return cut.once('close', () => whole.destroy())
}

async function* bytesOf(whole: Readable, range: ByteRange): AsyncGenerator<Buffer> {
  let skip = range.offset
  let left = range.length ?? Number.POSITIVE_INFINITY
  // If the iterator destroyed the stream on an early return, it would emit an error first. The caller destroys
  // the stream instead.
  for await (const chunk of whole.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    const from = Math.min(skip, chunk.length)
    skip -= from
    const bytes = chunk.subarray(from, Math.min(chunk.length, from + left))
    left -= bytes.length
    if (bytes.length > 0) yield bytes
    if (left === 0) return
  }
}
