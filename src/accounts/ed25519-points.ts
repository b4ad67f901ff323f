/**
 * The curve of RFC 8032 §5.1. Node.js imports any 32 bytes as a public key, without checking that they encode a point,
 * as OpenSSL does (openssl/openssl#23379).
 */

const p = 2n ** 255n - 19n
/** −121665/121666 */
const d = 37095705934669439343138083508754565189542113879843219016388785533085940283555n

/**
 * Whether 32 bytes encode a point of the curve −x² + y² = 1 + d·x²·y² (RFC 8032 §5.1.3) that is not one of the eight
 * points of small order, for which signatures can be forged without a private key.
 */
export function isOnEd25519(encoded: Buffer): boolean {
  // The most significant bit is the sign of x; either both x and −x are on the curve, or neither is.
  const y = BigInt(`0x${Buffer.from(encoded).reverse().toString('hex')}`) & (2n ** 255n - 1n)
  if (y >= p) return false
  const yy = (y * y) % p
  // x² is numerator / denominator, a square exactly where their product is one.
  const numerator = yy - 1n
  const denominator = d * yy + 1n
  const product = mod(numerator * denominator)
  // x = 0: the points of order 1 and 2. y = 0: those of order 4. x² = −y²: those of order 8, whose doubles have y = 0.
  if (product === 0n || y === 0n || mod(numerator + yy * denominator) === 0n) return false
  return power(product, (p - 1n) / 2n) === 1n
}

function mod(number: bigint): bigint {
  return ((number % p) + p) % p
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  for (let square = base, rest = exponent; rest > 0n; rest >>= 1n, square = (square * square) % p) {
    if (rest & 1n) result = (result * square) % p
  }
  return result
}
