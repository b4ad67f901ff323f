/** Memory given back before the collector finds that nobody needs it. */
import { MessageChannel } from 'node:worker_threads'

/** What is left to the collector: so few bytes are cheaper to keep than to give back. */
const leftFrom = 4096

/** What is moved to a port that is closed is gone, and its memory with it. */
const nowhere = new MessageChannel().port1
nowhere.close()

/**
 * Nobody looks at this memory any more: the next buffer gets it at once, while it still is in the processor's cache. Buffers wait for
 * the collector by tens of mebibytes otherwise, which the system gets back then and has to give again, page by page. The buffer has no
 * bytes after this. One that shows a part of its memory only, or few bytes, is left as it is.
 */
export function free(buffer: Buffer): void {
  if (buffer.length < leftFrom || buffer.length < buffer.buffer.byteLength) return
  nowhere.postMessage(undefined, [buffer.buffer as ArrayBuffer])
}
