/** Blocks of LZ4: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md. */

const minMatch = 4
/** A match ends at least five bytes before the end, and begins at least twelve before it. */
const [lastLiterals, matchLimit] = [5, 12]

/** A valid block with literals and matches. */
export function compressBlock(bytes: Buffer): Buffer {
  const out: number[] = []
  const seen = new Map<number, number>()
  let literalsFrom = 0
  for (let at = 0; at < bytes.length - matchLimit;) {
    const word = bytes.readUInt32LE(at)
    const earlier = seen.get(word)
    seen.set(word, at)
    if (earlier === undefined || at - earlier > 0xffff) {
      at++
      continue
    }
    let length = minMatch
    while (at + length < bytes.length - lastLiterals && bytes[earlier + length] === bytes[at + length]) length++
    writeSequence(out, bytes.subarray(literalsFrom, at), { offset: at - earlier, length })
    at += length
    literalsFrom = at
  }
  writeSequence(out, bytes.subarray(literalsFrom))
  return Buffer.from(out)
}

function writeSequence(out: number[], literals: Buffer, match?: { readonly offset: number; readonly length: number }) {
  const extra = match ? match.length - minMatch : 0
  out.push((Math.min(literals.length, 15) << 4) | Math.min(extra, 15))
  if (literals.length >= 15) writeLength(out, literals.length - 15)
  out.push(...literals)
  if (!match) return
  out.push(match.offset & 255, match.offset >> 8)
  if (extra >= 15) writeLength(out, extra - 15)
}

function writeLength(out: number[], length: number): void {
  let rest = length
  for (; rest >= 255; rest -= 255) out.push(255)
  out.push(rest)
}
