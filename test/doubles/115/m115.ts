/**
 * The server's side of the envelope of 115's web API: requests are decoded, and answers encoded, with its own RSA key.
 */
import {
  constants,
  generateKeyPairSync,
  privateDecrypt,
  privateEncrypt,
  randomBytes,
  type KeyObject,
} from 'node:crypto'

const clientKey = Buffer.from('7806ad4c33865d184c013f46', 'hex')
const table = Buffer.from(
  'f0e569aebfdcbf8a1a45e8be7da673b8de8fe7c445da86c49b648b146ab4f1aa3801359e26692c86006b4fa5363462a6' +
    '2a966818f24afdbd6b978f4d8f8913b76c8e93ed0e0d483ed72f88d8fefe7e8650954fd1eb832634db667b9c7e9d7a81' +
    '32eab633de3aa95934663baaba816048b9d5819cf86c8477ff5478265fbee81e369f34805c452c9b76d51b8fccc3b8f5',
  'hex',
)
const blockSize = 128
/** Bytes of a block that are not padding. */
const maxPiece = 117
const seedSize = 16

/** A key of `size` bytes that is derived from a seed. */
export function derive(seed: Buffer, size: number): Buffer {
  return Buffer.from(
    Array.from({ length: size }, (_, at) => {
      const [first = 0, second = 0] = [table[size * at], table[size * (size - 1 - at)]]
      return (((seed[at] ?? 0) + first) & 255) ^ second
    }),
  )
}

/** The first bytes, as many as the length exceeds a multiple of four, are combined with the beginning of the key. */
export function combine(data: Buffer, key: Buffer): Buffer {
  const rest = data.length % 4
  return Buffer.from(data.map((byte, at) => byte ^ (key[(at < rest ? at : at - rest) % key.length] ?? 0)))
}

/** A message that could not be decoded. */
export class BadEnvelope extends Error {}

export class M115Server {
  readonly #key: KeyObject
  /** The modulus in hexadecimal. */
  readonly modulus: string

  constructor() {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', {
      modulusLength: 8 * blockSize,
      publicExponent: 65537,
    })
    this.#key = privateKey
    this.modulus = Buffer.from(publicKey.export({ format: 'jwk' }).n ?? '', 'base64url').toString('hex')
  }

  /** The text of a request, and the seed that its answer must be encoded with. Throws `BadEnvelope`. */
  decode(encoded: string): { readonly text: string; readonly seed: Buffer } {
    const bytes = Buffer.from(encoded, 'base64')
    if (bytes.length === 0 || bytes.length % blockSize !== 0) throw new BadEnvelope('not a number of whole blocks')
    const message = Buffer.concat(blocksOf(bytes, blockSize).map((block) => this.#decodeBlock(block)))
    const [seed, body] = [message.subarray(0, seedSize), message.subarray(seedSize)]
    const text = combine(combine(body, clientKey).reverse(), derive(seed, 4)).toString()
    return { text, seed: Buffer.from(seed) }
  }

  encode(text: string, requestSeed: Buffer): string {
    const seed = randomBytes(seedSize)
    const inner = combine(Buffer.from(text), derive(requestSeed, 4)).reverse()
    const message = Buffer.concat([seed, combine(inner, derive(seed, 12))])
    const encoded = blocksOf(message, maxPiece).map((piece) => this.#encodeBlock(piece))
    return Buffer.concat(encoded).toString('base64')
  }

  #decodeBlock(block: Buffer): Buffer {
    const padded = privateDecrypt({ key: this.#key, padding: constants.RSA_NO_PADDING }, block)
    const end = padded.indexOf(0, 2)
    if (padded[0] !== 0 || padded[1] !== 2 || end < 10) throw new BadEnvelope('wrong padding')
    return padded.subarray(end + 1)
  }

  #encodeBlock(piece: Buffer): Buffer {
    const padding = Buffer.alloc(blockSize - 3 - piece.length, 0xff)
    const padded = Buffer.concat([Buffer.from([0, 1]), padding, Buffer.from([0]), piece])
    return privateEncrypt({ key: this.#key, padding: constants.RSA_NO_PADDING }, padded)
  }
}

function blocksOf(bytes: Buffer, size: number): readonly Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.subarray(at * size, (at + 1) * size))
}
