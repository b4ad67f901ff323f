/** The three ways in which the bytes of an encrypted name are written, all of them rclone's. */
import { decode as decode32768, encode as encode32768 } from 'base32768'

export interface NameText {
  encode(bytes: Buffer): string
  /** Undefined for what `encode` never writes. */
  decode(text: string): Buffer | undefined
}

/** RFC 4648 section 7, in small letters and without padding. */
const alphabet = '0123456789abcdefghijklmnopqrstuv'

const base32: NameText = {
  encode(bytes) {
    let text = ''
    let bits = 0
    let held = 0
    for (const byte of bytes) {
      held = (held << 8) | byte
      bits += 8
      for (; bits >= 5; bits -= 5) text += alphabet.charAt((held >> (bits - 5)) & 31)
      held &= (1 << bits) - 1
    }
    return bits > 0 ? text + alphabet.charAt((held << (5 - bits)) & 31) : text
  },
  decode(text) {
    const bytes: number[] = []
    let bits = 0
    let held = 0
    const small = text.toLowerCase()
    for (const letter of small) {
      const value = alphabet.indexOf(letter)
      if (value < 0) return undefined
      held = (held << 5) | value
      bits += 5
      if (bits >= 8) {
        bits -= 8
        bytes.push((held >> bits) & 0xff)
      }
      held &= (1 << bits) - 1
    }
    const result = Buffer.from(bytes)
    return base32.encode(result) === small ? result : undefined
  },
}

const base64: NameText = {
  encode: (bytes) => bytes.toString('base64url'),
  decode(text) {
    const bytes = Buffer.from(text, 'base64url')
    return base64.encode(bytes) === text ? bytes : undefined
  },
}

const base32768: NameText = {
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

export const nameTexts: Readonly<Record<string, NameText>> = { base32, base64, base32768 }
