/** The order of a storage's listings (its options order_by, order_direction and extract_folder). */
import type { Entry } from './driver.js'

export interface Order {
  readonly by: '' | 'name' | 'size' | 'modified'
  readonly direction: '' | 'asc' | 'desc'
  readonly folders: '' | 'front' | 'back'
}

/**
 * A sorted copy. Without an order: by name, code unit by code unit. `name` is the natural order: runs of digits count as
 * numbers, everything else by code point.
 */
export function sorted(entries: readonly Entry[], order: Order): readonly Entry[] {
  const result = [...entries].sort(compare(order.by))
  if (order.by !== '' && order.direction === 'desc') result.reverse()
  if (order.folders === '') return result
  const folders = result.filter((entry) => entry.kind === 'folder')
  const others = result.filter((entry) => entry.kind !== 'folder')
  return order.folders === 'front' ? [...folders, ...others] : [...others, ...folders]
}

function compare(by: Order['by']): (one: Entry, other: Entry) => number {
  switch (by) {
    case 'name':
      return (one, other) => naturalOrder(one.name, other.name)
    case 'size':
      return (one, other) => one.size - other.size || plainOrder(one, other)
    case 'modified':
      return (one, other) => one.modified.getTime() - other.modified.getTime() || plainOrder(one, other)
    case '':
      return plainOrder
  }
}

function plainOrder(one: Entry, other: Entry): number {
  return one.name < other.name ? -1 : one.name > other.name ? 1 : 0
}

const zero = 48
const nine = 57

const isDigit = (code: number): boolean => code >= zero && code <= nine

/** Runs of digits count as the numbers they are, everything else by code point. Names that differ never compare as equal. */
export function naturalOrder(one: string, other: string): number {
  const shorter = Math.min(one.length, other.length)
  let at = 0
  while (at < shorter && one.charCodeAt(at) === other.charCodeAt(at)) at++
  // Up to here both are the same: only the run of digits that this place belongs to is to be weighed.
  const begin = startOfDigits(one, at)
  if (isDigit(one.charCodeAt(begin)) && isDigit(other.charCodeAt(begin))) {
    const numbers = compareNumbers(one, other, begin)
    if (numbers !== 0) return numbers
    const [first, second] = [endOfDigits(one, begin), endOfDigits(other, begin)]
    // The same number spelled with more or fewer zeros: what follows decides, then the spelling.
    if (first !== second) return naturalOrder(one.slice(first), other.slice(second)) || second - first
  }
  const difference = (one.codePointAt(at) ?? -1) - (other.codePointAt(at) ?? -1)
  return difference || one.length - other.length
}

/** Where the run of digits begins that ends right before `at` or holds it; `at` where none does. */
function startOfDigits(text: string, at: number): number {
  let begin = at
  while (begin > 0 && isDigit(text.charCodeAt(begin - 1))) begin--
  return begin
}

/** Compares the numbers that begin at `begin` in both. */
function compareNumbers(one: string, other: string, begin: number): number {
  let i = begin
  let j = begin
  while (one.charCodeAt(i) === zero) i++
  while (other.charCodeAt(j) === zero) j++
  const lengths = endOfDigits(one, i) - i - (endOfDigits(other, j) - j)
  if (lengths !== 0) return lengths
  for (; isDigit(one.charCodeAt(i)); i++, j++) {
    const difference = one.charCodeAt(i) - other.charCodeAt(j)
    if (difference !== 0) return difference
  }
  return 0
}

function endOfDigits(text: string, from: number): number {
  let at = from
  while (isDigit(text.charCodeAt(at))) at++
  return at
}
