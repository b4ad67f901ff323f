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

/** Runs of digits by their number, everything else by code point; names that differ in leading zeros alone by code unit. */
export function naturalOrder(one: string, other: string): number {
  let i = 0
  let j = 0
  while (i < one.length && j < other.length) {
    const a = one.charCodeAt(i)
    const b = other.charCodeAt(j)
    if (isDigit(a) && isDigit(b)) {
      i = afterZeros(one, i)
      j = afterZeros(other, j)
      const iEnd = afterDigits(one, i)
      const jEnd = afterDigits(other, j)
      if (iEnd - i !== jEnd - j) return iEnd - i - (jEnd - j)
      for (; i < iEnd; i++, j++) {
        const difference = one.charCodeAt(i) - other.charCodeAt(j)
        if (difference !== 0) return difference
      }
    } else {
      if (a !== b) return rank(a) - rank(b)
      i++
      j++
    }
  }
  return one.length - i - (other.length - j) || (one < other ? -1 : one > other ? 1 : 0)
}

function isDigit(unit: number): boolean {
  return unit >= zero && unit <= nine
}

function afterZeros(text: string, from: number): number {
  let at = from
  while (text.charCodeAt(at) === zero) at++
  return at
}

function afterDigits(text: string, from: number): number {
  let at = from
  while (at < text.length && isDigit(text.charCodeAt(at))) at++
  return at
}

/** Puts surrogates, which stand for the highest code points, after all other code units. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800
}
