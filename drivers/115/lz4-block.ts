/**
 * Decompression of an LZ4 block (LZ4 Block Format Description,
 * https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md).
 */

/** Bytes of the shortest match. */
const minMatch = 4

/** The decompressed block. Throws `RangeError` if it is not one, or has more than `limit` bytes. */
export function decompressLz4Block(block: Buffer, limit: number): Buffer {
  const result = Buffer.alloc(limit)
  let [at, size] = [0, 0]
  const next = (): number => {
    const byte = block[at++]
    if (byte === undefined) throw new RangeError('the block ends early')
    return byte
  }
  const lengthFrom = (nibble: number): number => {
    let length = nibble
    for (let more = nibble === 15; more;) {
      const byte = next()
      length += byte
      more = byte === 255
    }
    return length
  }
  const reserve = (length: number) => {
    if (size + length > limit) throw new RangeError('the block is too long')
  }
  while (at < block.length) {
    const token = next()
    const literals = lengthFrom(token >> 4)
    if (at + literals > block.length) throw new RangeError('the block ends early')
    reserve(literals)
    block.copy(result, size, at, at + literals)
    at += literals
    size += literals
    // The last sequence has no match.
    if (at === block.length) break
    const offset = next() + next() * 256
    if (offset === 0 || offset > size) throw new RangeError('a match begins before the block')
    const match = lengthFrom(token & 15) + minMatch
    reserve(match)
    // Byte by byte: the match may overlap what it makes.
    for (let index = 0; index < match; index++, size++) result[size] = result[size - offset] ?? 0
  }
  return result.subarray(0, size)
}
