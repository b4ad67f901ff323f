/** The ciphers of names: rclone's `obfuscate`, and EME, whose block is as wide as the name. */
import { createCipheriv, createDecipheriv } from 'node:crypto'

const quote = '!'

/** A range of characters: its size, the largest rotation, and the mapping between code points and indexes. */
interface CharacterRange {
  readonly count: number
  readonly maxRotation: number
  index(code: number): number
  code(index: number): number
}

const digits: CharacterRange = {
  count: 10,
  maxRotation: 9,
  index: (code) => code - 0x30,
  code: (index) => index + 0x30,
}
const letters: CharacterRange = {
  count: 52,
  maxRotation: 25,
  index: (code) => (code >= 0x61 ? code - 0x61 + 26 : code - 0x41),
  code: (index) => (index >= 26 ? index - 26 + 0x61 : index + 0x41),
}
const latin: CharacterRange = {
  count: 96,
  maxRotation: 95,
  index: (code) => code - 0xa0,
  code: (index) => index + 0xa0,
}
const further = (base: number): CharacterRange => ({
  count: 256,
  maxRotation: 127,
  index: (code) => code - base,
  code: (index) => index + base,
})

function rangeOf(code: number): CharacterRange | undefined {
  if (code >= 0x30 && code <= 0x39) return digits
  if ((code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)) return letters
  if (code >= 0xa0 && code <= 0xff) return latin
  return code >= 0x100 ? further(code - (code % 256)) : undefined
}

function rotatedCode(code: number, range: CharacterRange, rotation: number): number {
  return range.code((range.index(code) + rotation + range.count) % range.count)
}

function isCharacter(code: number): boolean {
  return code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)
}

/**
 * Obfuscates a name: rotates each character within its range. The result starts with the sum of the code points modulo
 * 256 and a dot; that sum and the key determine the rotation. `shift`: the part of the distance that is derived from
 * the key.
 */
export function obfuscateName(name: string, shift: number): string {
  if (name === '') return ''
  let nameSum = 0
  for (const letter of name) nameSum += letter.codePointAt(0) ?? 0
  nameSum %= 256
  const distance = nameSum + shift
  let text = `${nameSum}.`
  for (const letter of name) {
    const code = letter.codePointAt(0) ?? 0
    const range = rangeOf(code)
    const to = range ? rotatedCode(code, range, (distance % range.maxRotation) + 1) : code
    if (letter === quote || !isCharacter(to)) text += quote + letter
    else text += String.fromCodePoint(to)
  }
  return text
}

/** Reverses the obfuscation. Undefined if `text` is not an obfuscated name. */
export function deobfuscateName(text: string, shift: number): string | undefined {
  const dot = text.indexOf('.')
  const number = text.slice(0, Math.max(dot, 0))
  const rest = text.slice(dot + 1)
  if (number === quote) return rest
  if (!/^[+-]?\d+$/.test(number)) return undefined
  const distance = Number(number) + shift
  let name = ''
  let quoted = false
  for (const letter of rest) {
    if (!quoted && letter === quote) {
      quoted = true
      continue
    }
    const code = letter.codePointAt(0) ?? 0
    const range = quoted ? undefined : rangeOf(code)
    quoted = false
    if (!range) {
      name += letter
      continue
    }
    const from = rotatedCode(code, range, -((distance % range.maxRotation) + 1))
    if (!isCharacter(from)) return undefined
    name += String.fromCodePoint(from)
  }
  return name
}

const blockSize = 16

/** Maximum length of the plaintext, in bytes. */
export const wideBlockLimit = 128 * blockSize

type Blocks = (data: Buffer) => Buffer

/**
 * EME (Halevi and Rogaway, "A Parallelizable Enciphering Mode", 2003) with AES-256: a wide-block cipher for 1 to 128
 * blocks. Each bit of the ciphertext depends on each bit of the plaintext. It is deterministic, so that names can be
 * looked up.
 */
export class WideBlockCipher {
  readonly #encrypt: Blocks
  readonly #decrypt: Blocks
  readonly #tweak: Buffer
  /** The encrypted zero block, from which all masks are derived by doubling. */
  readonly #seed: Buffer

  /** `key`: 32 bytes. `tweak`: 16 bytes. */
  constructor(key: Buffer, tweak: Buffer) {
    // ECB without padding has no state between calls, so the objects can be reused.
    const encipher = createCipheriv('aes-256-ecb', key, null).setAutoPadding(false)
    const decipher = createDecipheriv('aes-256-ecb', key, null).setAutoPadding(false)
    this.#encrypt = (data) => encipher.update(data)
    this.#decrypt = (data) => decipher.update(data)
    this.#tweak = Buffer.from(tweak)
    this.#seed = this.#encrypt(Buffer.alloc(blockSize))
  }

  /** `text`: 1 to 128 whole blocks of 16 bytes. */
  encrypt(text: Buffer): Buffer {
    return this.#transform(text, this.#encrypt)
  }

  decrypt(text: Buffer): Buffer {
    return this.#transform(text, this.#decrypt)
  }

  #transform(text: Buffer, blocks: Blocks): Buffer {
    const masks = Buffer.alloc(text.length)
    let mask = this.#seed
    for (let at = 0; at < text.length; at += blockSize) {
      mask = doubled(mask)
      mask.copy(masks, at)
    }
    const middle = blocks(xored(text, masks))
    const before = Buffer.from(this.#tweak)
    for (let at = 0; at < middle.length; at += blockSize) xorInto(before, middle.subarray(at, at + blockSize))
    const after = blocks(before)
    let difference = xored(before, after)
    const first = xored(after, this.#tweak)
    for (let at = blockSize; at < middle.length; at += blockSize) {
      difference = doubled(difference)
      const block = middle.subarray(at, at + blockSize)
      xorInto(block, difference)
      xorInto(first, block)
    }
    first.copy(middle)
    return xored(blocks(middle), masks)
  }
}

/** Multiplies by x in GF(2^128); the first byte is the least significant. */
function doubled(block: Buffer): Buffer {
  const result = Buffer.alloc(blockSize)
  let carry = 0
  for (let index = 0; index < blockSize; index++) {
    const byte = block.readUInt8(index)
    result[index] = ((byte << 1) & 0xff) | carry
    carry = byte >> 7
  }
  if (carry === 1) result[0] = result.readUInt8(0) ^ 0x87
  return result
}

function xored(one: Buffer, other: Buffer): Buffer {
  const result = Buffer.from(one)
  xorInto(result, other)
  return result
}

function xorInto(into: Buffer, other: Buffer): void {
  for (let index = 0; index < into.length; index++) into[index] = into.readUInt8(index) ^ other.readUInt8(index)
}
