/** A strict reader for the data types of RFC 4251 §5. */
import { decodeUtf8 } from '../contract/utf8.js'

/** The bytes are malformed. */
/** The bytes do not match the format. The callers decide what that means: an invalid key, or a wrong signature. */
export class SshWireError extends Error {}

export class WireReader {
  #offset = 0

  constructor(private readonly bytes: Buffer) {}

  /** A string: its length as a uint32, then its bytes. */
  string(): Buffer {
    const length = this.uint32()
    return this.#take(length)
  }

  text(): string {
    const text = decodeUtf8(this.string())
    if (text === undefined) throw new SshWireError('text is not UTF-8')
    return text
  }

  /** A positive mpint as its bytes, most significant first, without leading zeros. */
  positiveMpint(): Buffer {
    const bytes = this.string()
    const first = bytes[0]
    if (first === undefined) throw new SshWireError('a number is zero')
    if (first >= 0x80) throw new SshWireError('a number is negative')
    if (first > 0) return bytes
    if ((bytes[1] ?? 0) < 0x80) throw new SshWireError('a number has superfluous leading zeros')
    return bytes.subarray(1)
  }

  byte(): number {
    return this.#take(1).readUInt8()
  }

  uint32(): number {
    return this.#take(4).readUInt32BE()
  }

  /** Throws if bytes remain. */
  expectEnd(): void {
    if (this.#offset !== this.bytes.length) throw new SshWireError('unexpected trailing bytes')
  }

  #take(length: number): Buffer {
    if (length > this.bytes.length - this.#offset) throw new SshWireError('bytes are missing')
    const bytes = this.bytes.subarray(this.#offset, this.#offset + length)
    this.#offset += length
    return bytes
  }
}
