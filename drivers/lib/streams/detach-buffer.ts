/** Releases the memory of buffers without waiting for the garbage collector. */
import { MessageChannel } from 'node:worker_threads'

/** Minimum size in bytes. Smaller buffers are cheaper to leave to the garbage collector. */
const minSize = 8192

/** Memory that is transferred to a closed port is freed. */
const closedPort = new MessageChannel().port1
closedPort.close()

/**
 * Frees the memory of a buffer that is no longer used. The next allocation can reuse it while it is still in the
 * processor cache. Without this, tens of mebibytes wait for the garbage collector, are returned to the system, and are
 * faulted in again page by page.
 *
 * The buffer has length 0 afterwards. A buffer that covers only a part of its memory, is small, or cannot be
 * transferred is unchanged.
 */
export function detach(buffer: Buffer): void {
  if (buffer.length < minSize || buffer.length < buffer.buffer.byteLength) return
  try {
    closedPort.postMessage(undefined, [buffer.buffer as ArrayBuffer])
  } catch {
    // Shared and pooled memory cannot be transferred.
  }
}
