/** The Range header: RFC 9110 §14. */

/** A byte range of a file. `length` is at least 1. */
export interface Part {
  readonly offset: number
  readonly length: number
}

/** Maximum number of ranges. A header with more is ignored, as a protection against abuse (RFC 9110 §14.2). */
const partLimit = 100

/**
 * Parses a Range header for a file of `size` bytes. Returns the satisfiable ranges in the order of the header,
 * 'unsatisfiable' if there are none, or 'whole' if the header is ignored: it has another unit, is malformed, has too
 * many ranges, more than one overlap or more bytes in total than the file, or the file is empty.
 */
export function parseRange(header: string | undefined, size: number): readonly Part[] | 'whole' | 'unsatisfiable' {
  const list = /^bytes[ \t]*=(.*)$/i.exec(header ?? '')?.[1]
  if (list === undefined || size === 0) return 'whole'
  const texts = list.split(',', partLimit + 1)
  if (texts.length > partLimit) return 'whole'
  const parts: Part[] = []
  let count = 0
  for (const text of texts) {
    const trimmed = text.trim()
    if (trimmed === '') continue // RFC 9110 §5.6.1: empty list elements are ignored
    count += 1
    const part = parsePart(trimmed, size)
    if (part === undefined) return 'whole'
    if (part !== 'outside') parts.push(part)
  }
  if (count === 0) return 'whole'
  if (parts.length === 0) return 'unsatisfiable'
  return isExcessive(parts, size) ? 'whole' : parts
}

function parsePart(text: string, size: number): Part | 'outside' | undefined {
  const match = /^(\d*)-(\d*)$/.exec(text)
  if (match === null) return undefined
  const [, from = '', to = ''] = match
  if (from === '') {
    if (to === '') return undefined
    const length = Math.min(Number(to), size) // suffix range
    return length === 0 ? 'outside' : { offset: size - length, length }
  }
  const first = Number(from)
  const last = to === '' ? size - 1 : Number(to)
  if (to !== '' && last < first) return undefined
  if (first >= size) return 'outside'
  return { offset: first, length: Math.min(last, size - 1) - first + 1 }
}

/** Whether there is more than one overlap, or the total length exceeds the file. */
function isExcessive(parts: readonly Part[], size: number): boolean {
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
