/** Direct TCP transport: each message is preceded by its length (MS-SMB2 §2.1). */
import { ProtocolError } from './errors.js'

const prefixLength = 4
/** Maximum length of a message. The largest expected one is a read response of 1 MiB with its headers. */
const maxLength = 0x200000

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

  /**
   * Calls `onFrame` with each complete message, in a newly allocated buffer. Throws a ProtocolError if a length is too
   * large.
   */
  push(bytes: Buffer, onFrame: (frame: Buffer) => void): void {
    for (let at = 0; at < bytes.length;) {
      if (this.#frame === undefined) {
        const copied = bytes.copy(this.#prefix, this.#prefixFilled, at)
        at += copied
        this.#prefixFilled += copied
        if (this.#prefixFilled < prefixLength) return
        this.#prefixFilled = 0
        const length = this.#prefix.readUInt32BE()
        if (length === 0) continue // keep-alive message
        if (length > maxLength) throw new ProtocolError('the server does not use SMB2')
        this.#frame = Buffer.allocUnsafeSlow(length)
        this.#filled = 0
      }
      const copied = bytes.copy(this.#frame, this.#filled, at)
      at += copied
      this.#filled += copied
      if (this.#filled < this.#frame.length) return
      const frame = this.#frame
      this.#frame = undefined
      onFrame(frame)
    }
  }
}
