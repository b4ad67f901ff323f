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
      return (one, other) => one.size - other.size
    case 'modified':
      return (one, other) => one.modified.getTime() - other.modified.getTime()
    case '':
      return (one, other) => (one.name < other.name ? -1 : one.name > other.name ? 1 : 0)
  }
}

const zero = 48
const nine = 57

export function naturalOrder(one: string, other: string): number {
  let i = 0
  let j = 0
  while (i < one.length && j < other.length) {
    const a = one.charCodeAt(i)
    const b = other.charCodeAt(j)
    if (a >= zero && a <= nine && b >= zero && b <= nine) {
      const iEnd = endOfDigits(one, i)
      const jEnd = endOfDigits(other, j)
      const first = one.slice(i, iEnd).replace(/^0+/, '')
      const second = other.slice(j, jEnd).replace(/^0+/, '')
      if (first.length !== second.length) return first.length - second.length
      if (first !== second) return first < second ? -1 : 1
      i = iEnd
      j = jEnd
    } else {
      if (a !== b) return a - b
      i++
      j++
    }
  }
  return one.length - i - (other.length - j) || (one < other ? -1 : one > other ? 1 : 0)
}

function endOfDigits(text: string, from: number): number {
  let at = from
  while (at < text.length && text.charCodeAt(at) >= zero && text.charCodeAt(at) <= nine) at++
  return at
}
