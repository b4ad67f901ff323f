/**
 * A pool of buffers for data to be written. Allocating and collecting new buffers costs more than copying the data into
 * existing ones.
 */

/** Bytes of each buffer. */
export const bufferSize = 128 * 1024
/** Maximum number of unused buffers: while bodies are being received, and while none is. */
const maxFree = 128
const maxIdle = 16

const free: Buffer[] = []

/**
 * Returns a buffer of `bufferSize` bytes with arbitrary content. The caller returns it with `returnBuffer` when it is
 * no longer read.
 */
export function takeBuffer(): Buffer {
  return free.pop() ?? Buffer.allocUnsafeSlow(bufferSize)
}

/** Returns buffers to the pool. `idle`: no body is being received. */
export function returnBuffer(buffers: readonly Buffer[], idle: boolean): void {
  free.push(...buffers)
  free.length = Math.min(free.length, idle ? maxIdle : maxFree)
}
