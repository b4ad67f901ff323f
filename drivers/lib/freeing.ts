/** Memory given back before the collector finds that nobody needs it. */
import { MessageChannel } from 'node:worker_threads'

/** Bytes. Fewer are cheaper to leave to the collector. */
const smallest = 8192

/** What is moved to a port that is closed is gone, and its memory with it. */
const nowhere = new MessageChannel().port1
nowhere.close()

/**
 * Nobody looks at this memory any more: the next buffer gets it at once, while it still is in the processor's cache. Buffers wait for
 * the collector by tens of mebibytes otherwise, which the system gets back then and has to give again, page by page. The buffer has no
 * bytes after this. One that shows a part of its memory only, or few bytes, or whose memory stays where it is, is left as it is.
 */
export function free(buffer: Buffer): void {
  if (buffer.length < smallest || buffer.length < buffer.buffer.byteLength) return
  try {
    nowhere.postMessage(undefined, [buffer.buffer as ArrayBuffer])
  } catch {
    // Shared memory, and pools, cannot be moved.
  }
}
