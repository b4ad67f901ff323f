/** A source that reports the number of bytes read from it. */
import type { Source } from '../contract/call-options.js'
import { countBytes } from '../storage/streams.js'

interface CountedSource extends Source {
  /** Reports the bytes of the source that were not read, because the backend copied them by itself. */
  complete(): void
  /** Reports everything counted so far as a negative number, after a failure. */
  revert(): void
}

/**
 * Calls `advance` with the number of bytes of each chunk that is read. A read that starts at an offset counts the bytes
 * before it immediately, and replaces the count of earlier reads.
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
    bytes: undefined,
    revert: takeBack,
    complete: () => count((source.size ?? counted) - counted),
    async read(range, options) {
      const bytes = await source.read(range, options)
      count((range?.offset ?? 0) - counted)
      return countBytes(bytes, count)
    },
  }
}
