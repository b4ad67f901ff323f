/** Messages of a stream: each has its length before it (MS-SMB2 §2.1). */
import { ProtocolError } from './errors.js'

const prefixLength = 4
/** More than any answer that was asked for: the largest is a read of 1 MiB with its headers. */
const longest = 0x200000

export function framePrefix(length: number): Buffer {
  const prefix = Buffer.alloc(prefixLength)
  prefix.writeUInt32BE(length)
  return prefix
}

export class FrameReader {
  readonly #prefix = Buffer.alloc(prefixLength)
  #prefixFilled = 0
  #frame: Buffer | undefined
  #filled = 0

  /** Hands every message that is whole by now to `onFrame`, in memory of its own. */
  push(bytes: Buffer, onFrame: (frame: Buffer) => void): void {
    for (let at = 0; at < bytes.length;) {
      if (this.#frame === undefined) {
        const copied = bytes.copy(this.#prefix, this.#prefixFilled, at)
        at += copied
        this.#prefixFilled += copied
        if (this.#prefixFilled < prefixLength) return
        this.#prefixFilled = 0
        const length = this.#prefix.readUInt32BE()
        if (length === 0) continue // kept alive
        if (length > longest) throw new ProtocolError('the server does not speak SMB2')
        this.#frame = Buffer.allocUnsafeSlow(length)
        this.#filled = 0
      }
      const copied = bytes.copy(this.#frame, this.#filled, at)
      at += copied
      this.#filled += copied
      if (this.#filled < this.#frame.length) return
      const whole = this.#frame
      this.#frame = undefined
      onFrame(whole)
    }
  }
}
