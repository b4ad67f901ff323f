/** A strict reader for the data types of RFC 4251 §5. */
import { decodeUtf8 } from '../base/utf8.js'

/** The bytes do not match the format. The callers decide what that means: an invalid key, or a wrong signature. */
export class SshWireError extends Error {}

export class WireReader {
  #at = 0

  constructor(protected readonly bytes: Buffer) {}

  get remaining(): number {
    return this.bytes.length - this.#at
  }

  byte(): number {
    return this.bytes.readUInt8(this.advance(1))
  }

  uint32(): number {
    return this.bytes.readUInt32BE(this.advance(4))
  }

  /** A string: its length as a uint32, then its bytes. */
  string(): Buffer {
    const length = this.uint32()
    const at = this.advance(length)
    return this.bytes.subarray(at, at + length)
  }

  /** A string that must be UTF-8. */
  text(): string {
    const text = decodeUtf8(this.string())
    if (text === undefined) throw this.notUtf8()
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

  /** Throws if bytes remain. */
  expectEnd(): void {
    if (this.remaining > 0) throw new SshWireError('unexpected trailing bytes')
  }

  /** Passes over this many bytes, and returns the offset of the first one. */
  protected advance(length: number): number {
    const at = this.#at
    if (length > this.remaining) throw this.endsEarly()
    this.#at += length
    return at
  }

  protected endsEarly(): Error {
    return new SshWireError('bytes are missing')
  }

  protected notUtf8(): Error {
    return new SshWireError('text is not UTF-8')
  }
}
