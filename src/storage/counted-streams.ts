/** Streams and sources whose bytes are counted, or whose errors are converted, without another buffer in between. */
import { EventEmitter } from 'node:events'
import { finished, Readable } from 'node:stream'
import type { Source } from '../contract/call-options.js'

/**
 * Calls `count` with the length of each chunk that the consumer of the stream receives. Does not start the stream,
 * which `stream.on('data')` would. The consumer must not stop listening for 'readable' while it still needs the stream:
 * some versions of Node.js then start any stream that has a listener for 'data' (Node.js:
 * lib/internal/streams/readable.js).
 */
export function countBytes<Stream extends Readable>(stream: Stream, count: (bytes: number) => void): Stream {
  EventEmitter.prototype.on.call(stream, 'data', (chunk: Buffer) => count(chunk.length))
  return stream
}

/**
 * Returns a stream of the same bytes. If `bytes` fails, it fails with what `convert` returns for the error. If the
 * consumer destroys it, `bytes` is destroyed, and `convert` is not called. Does not start `bytes` before the consumer
 * reads, and does not buffer more of it.
 */
export function convertErrors(bytes: Readable, convert: (error: unknown) => Error): Readable {
  let isStarted = false
  let isAwaited = false
  const pass = () => {
    const chunk = bytes.read() as Buffer | null
    isAwaited = chunk === null
    if (chunk !== null) converted.push(chunk)
  }
  const converted = new Readable({
    highWaterMark: 0,
    read: () => {
      if (!isStarted) {
        isStarted = true
        bytes.on('readable', () => {
          if (isAwaited) pass()
        })
      }
      pass()
    },
    destroy: (error, done) => {
      bytes.destroy()
      done(error)
    },
  })
  finished(bytes, { writable: false }, (error) => {
    if (converted.destroyed) return
    if (error) converted.destroy(convert(error))
    else converted.push(null)
  })
  return converted
}

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
  return {
    ...source,
    bytes: undefined,
    revert: () => count(-counted),
    complete: () => count((source.size ?? counted) - counted),
    async read(range, options) {
      const bytes = await source.read(range, options)
      count((range?.offset ?? 0) - counted)
      return countBytes(bytes, count)
    },
  }
}
