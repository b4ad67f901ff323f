/** Counts the bytes of a stream without another stream in between. */
import { EventEmitter } from 'node:events'
import type { Readable } from 'node:stream'

/**
 * Calls `count` with the length of each chunk that the consumer of the stream receives. Does not start the stream, which
 * `stream.on('data')` would. The consumer must not stop listening for 'readable' while it still needs the stream: some
 * versions of Node.js then start any stream that has a listener for 'data' (Node.js: lib/internal/streams/readable.js).
 */
export function countBytes<Stream extends Readable>(stream: Stream, count: (bytes: number) => void): Stream {
  EventEmitter.prototype.on.call(stream, 'data', (chunk: Buffer) => count(chunk.length))
  return stream
}
