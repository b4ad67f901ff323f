/** The Range header: RFC 9110 §14. */

/** Bytes from `offset`; the length is at least 1. */
export interface Part {
  readonly offset: number
  readonly length: number
}

/** More parts than this are no honest request (RFC 9110 §14.2): the header is ignored. */
const partLimit = 100

/**
 * The parts of a file of `size` bytes that `header` asks for, in its order. 'whole' where the header does not count: another
 * unit, malformed, an empty file, too many parts, more than two that overlap, or more bytes in sum than the file has.
 * 'unsatisfiable' where it counts and names nothing that is there.
 */
export function parseRange(header: string | undefined, size: number): readonly Part[] | 'whole' | 'unsatisfiable' {
  const list = /^bytes[ \t]*=(.*)$/i.exec(header ?? '')?.[1]
  if (list === undefined || size === 0) return 'whole'
  const texts = list.split(',', partLimit + 1)
  if (texts.length > partLimit) return 'whole'
  const parts: Part[] = []
  let given = 0
  for (const text of texts) {
    const trimmed = text.trim()
    if (trimmed === '') continue // RFC 9110 §5.6.1: empty elements of a list are skipped
    given += 1
    const part = parsePart(trimmed, size)
    if (part === undefined) return 'whole'
    if (part !== 'outside') parts.push(part)
  }
  if (given === 0) return 'whole'
  if (parts.length === 0) return 'unsatisfiable'
  return isAbsurd(parts, size) ? 'whole' : parts
}

function parsePart(text: string, size: number): Part | 'outside' | undefined {
  const match = /^(\d*)-(\d*)$/.exec(text)
  if (match === null) return undefined
  const [, from = '', to = ''] = match
  if (from === '') {
    if (to === '') return undefined
    const length = Math.min(Number(to), size) // of the end
    return length === 0 ? 'outside' : { offset: size - length, length }
  }
  const first = Number(from)
  const last = to === '' ? size - 1 : Number(to)
  if (to !== '' && last < first) return undefined
  if (first >= size) return 'outside'
  return { offset: first, length: Math.min(last, size - 1) - first + 1 }
}

function isAbsurd(parts: readonly Part[], size: number): boolean {
  if (parts.length === 1) return false
  const sum = parts.reduce((total, part) => total + part.length, 0)
  if (sum > size) return true
  const sorted = parts.toSorted((a, b) => a.offset - b.offset)
  let overlaps = 0
  let end = 0
  for (const part of sorted) {
    if (part.offset < end) overlaps += 1
    end = Math.max(end, part.offset + part.length)
  }
  return overlaps > 1
}
