/** The encodings of encrypted names that rclone supports: base32, base64 and base32768. */
import { decode as decode32768, encode as encode32768 } from 'base32768'

export interface NameEncoding {
  encode(bytes: Buffer): string
  /** Undefined if `text` is not the canonical encoding of any bytes. */
  decode(text: string): Buffer | undefined
}

/** base32hex (RFC 4648 §7) in lowercase, without padding. */
const alphabet = '0123456789abcdefghijklmnopqrstuv'

const base32: NameEncoding = {
  encode(bytes) {
    let text = ''
    let bits = 0
    let buffered = 0
    for (const byte of bytes) {
      buffered = (buffered << 8) | byte
      bits += 8
      for (; bits >= 5; bits -= 5) text += alphabet.charAt((buffered >> (bits - 5)) & 31)
      buffered &= (1 << bits) - 1
    }
    return bits > 0 ? text + alphabet.charAt((buffered << (5 - bits)) & 31) : text
  },
  decode(text) {
    const bytes: number[] = []
    let bits = 0
    let buffered = 0
    const lowercase = text.toLowerCase()
    for (const letter of lowercase) {
      const value = alphabet.indexOf(letter)
      if (value < 0) return undefined
      buffered = (buffered << 5) | value
      bits += 5
      if (bits >= 8) {
        bits -= 8
        bytes.push((buffered >> bits) & 0xff)
      }
      buffered &= (1 << bits) - 1
    }
    const result = Buffer.from(bytes)
    return base32.encode(result) === lowercase ? result : undefined
  },
}

const base64: NameEncoding = {
  encode: (bytes) => bytes.toString('base64url'),
  decode(text) {
    const bytes = Buffer.from(text, 'base64url')
    return base64.encode(bytes) === text ? bytes : undefined
  },
}

const base32768: NameEncoding = {
  encode: (bytes) => encode32768(bytes),
  decode(text) {
    try {
      const bytes = Buffer.from(decode32768(text))
      return base32768.encode(bytes) === text ? bytes : undefined
    } catch {
      return undefined
    }
  },
}

export const nameEncodings: Readonly<Record<string, NameEncoding>> = { base32, base64, base32768 }
