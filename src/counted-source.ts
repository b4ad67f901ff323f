/** Bytes of a source, counted while they are read. */
import { pipeline, Transform } from 'node:stream'
import type { Source } from './driver.js'

export interface CountedSource extends Source {
  /** What was read comes to nothing: it is counted back. */
  takeBack(): void
}

/**
 * Tells `advance` how many bytes more were read. Whoever reads from some offset on has what lies before it: that is counted at once, and
 * what was counted before is given back.
 */
export function countedSource(source: Source, advance: (bytes: number) => void): CountedSource {
  let counted = 0
  const count = (bytes: number) => {
    counted += bytes
    advance(bytes)
  }
  const takeBack = () => count(-counted)
  return {
    ...source,
    takeBack,
    async read(range, options) {
      const bytes = await source.read(range, options)
      count((range?.offset ?? 0) - counted)
      const counter = new Transform({
        highWaterMark: bytes.readableHighWaterMark,
        transform(chunk: Buffer, _encoding, callback) {
          count(chunk.length)
          callback(null, chunk)
        },
      })
      // A failure of either ends both; the reader hears of it from the counter.
      return pipeline(bytes, counter, () => undefined)
    },
  }
}
