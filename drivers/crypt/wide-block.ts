/**
 * EME (Halevi and Rogaway, "A Parallelizable Enciphering Mode", 2003) with AES-256: a wide-block cipher for 1 to 128
 * blocks. Each bit of the ciphertext depends on each bit of the plaintext. It is deterministic, so that names can be
 * looked up.
 */
import { createCipheriv, createDecipheriv } from 'node:crypto'

const blockSize = 16

/** Maximum length of the plaintext, in bytes. */
export const wideBlockLimit = 128 * blockSize

type Blocks = (data: Buffer) => Buffer

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
