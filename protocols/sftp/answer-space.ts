/** Memory for answers to READs, handed out side by side, so that the answers can be sent as one piece. */

const blockSize = 1024 * 1024

export class AnswerSpace {
  #block = Buffer.alloc(0)

  /** A buffer of this length. What it held before is whatever other answers of the session left there. */
  take(length: number): Buffer {
    if (length > this.#block.length) this.#block = Buffer.allocUnsafeSlow(Math.max(length, blockSize))
    const taken = this.#block.subarray(0, length)
    this.#block = this.#block.subarray(length)
    return taken
  }
}
