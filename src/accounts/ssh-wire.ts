/** The data types of RFC 4251 §5, read strictly. */

/** What the bytes are not. */
export class WireError extends Error {}

export class WireReader {
  #at = 0

  constructor(private readonly bytes: Buffer) {}

  /** A string: its length in four bytes, then that many. */
  string(): Buffer {
    const length = this.uint32()
    return this.#take(length)
  }

  text(): string {
    const bytes = this.string()
    const text = bytes.toString('utf8')
    if (!Buffer.from(text).equals(bytes)) throw new WireError('text is not UTF-8')
    return text
  }

  /** A positive mpint as its bytes, most significant first, without leading zeros. */
  positive(): Buffer {
    const bytes = this.string()
    const first = bytes[0]
    if (first === undefined) throw new WireError('a number is zero')
    if (first >= 0x80) throw new WireError('a number is negative')
    if (first > 0) return bytes
    if ((bytes[1] ?? 0) < 0x80) throw new WireError('a number has needless zeros')
    return bytes.subarray(1)
  }

  byte(): number {
    return this.#take(1).readUInt8()
  }

  uint32(): number {
    return this.#take(4).readUInt32BE()
  }

  /** Nothing may be left. */
  end(): void {
    if (this.#at !== this.bytes.length) throw new WireError('bytes are left over')
  }

  #take(length: number): Buffer {
    if (length > this.bytes.length - this.#at) throw new WireError('bytes are missing')
    const taken = this.bytes.subarray(this.#at, this.#at + length)
    this.#at += length
    return taken
  }
}
