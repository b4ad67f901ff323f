/**
 * MD4 (RFC 1320), which NTLM needs to hash passwords. Node with OpenSSL 3 does not provide it
 * (OSSL_PROVIDER-legacy(7)).
 */

const shifts = [
  [3, 7, 11, 19],
  [3, 5, 9, 13],
  [3, 9, 11, 15],
] as const

/** The order in which each round processes the words of a block. */
const orders = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15],
  [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15],
] as const

const constants = [0, 0x5a827999, 0x6ed9eba1] as const

type Mix = (x: number, y: number, z: number) => number
const mixes: readonly [Mix, Mix, Mix] = [
  (x, y, z) => (x & y) | (~x & z),
  (x, y, z) => (x & y) | (x & z) | (y & z),
  (x, y, z) => x ^ y ^ z,
]

/** Returns the 16-byte digest of `message`. */
export function md4(message: Buffer): Buffer {
  const padded = Buffer.alloc((Math.floor((message.length + 8) / 64) + 1) * 64)
  message.copy(padded)
  padded[message.length] = 0x80
  padded.writeBigUInt64LE(BigInt(message.length) * 8n, padded.length - 8)

  let [a, b, c, d] = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476]
  for (let block = 0; block < padded.length; block += 64) {
    const before = [a, b, c, d] as const
    for (const round of [0, 1, 2] as const) {
      for (const [step, word] of orders[round].entries()) {
        const sum = (a + mixes[round](b, c, d) + padded.readUInt32LE(block + word * 4) + constants[round]) | 0
        const shift = shifts[round][(step % 4) as 0 | 1 | 2 | 3]
        const rotated = (sum << shift) | (sum >>> (32 - shift))
        ;[a, b, c, d] = [d, rotated, b, c]
      }
    }
    ;[a, b, c, d] = [(a + before[0]) | 0, (b + before[1]) | 0, (c + before[2]) | 0, (d + before[3]) | 0]
  }
  const digest = Buffer.alloc(16)
  for (const [index, word] of [a, b, c, d].entries()) digest.writeInt32LE(word | 0, index * 4)
  return digest
}
