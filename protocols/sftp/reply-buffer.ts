/** Allocates adjacent buffers for the responses to READs, so that several responses can be sent as one buffer. */

const blockSize = 1024 * 1024

export class ReplyBuffer {
  #block = Buffer.alloc(0)

  /** Returns a buffer of `length` bytes, not zeroed. The caller must overwrite all bytes that it sends. */
  allocate(length: number): Buffer {
    if (length > this.#block.length) this.#block = Buffer.allocUnsafeSlow(Math.max(length, blockSize))
    const buffer = this.#block.subarray(0, length)
    this.#block = this.#block.subarray(length)
    return buffer
  }
}
