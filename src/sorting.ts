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
  const result = order.by === 'name' ? naturallySorted(entries) : [...entries].sort(compare(order.by))
  if (order.by !== '' && order.direction === 'desc') result.reverse()
  if (order.folders === '') return result
  const folders = result.filter((entry) => entry.kind === 'folder')
  if (folders.length === 0 || folders.length === result.length) return result
  const others = result.filter((entry) => entry.kind !== 'folder')
  return order.folders === 'front' ? [...folders, ...others] : [...others, ...folders]
}

function compare(by: Exclude<Order['by'], 'name'>): (one: Entry, other: Entry) => number {
  switch (by) {
    case 'size':
      return (one, other) => one.size - other.size || plainOrder(one.name, other.name)
    case 'modified':
      return (one, other) => one.modified.getTime() - other.modified.getTime() || plainOrder(one.name, other.name)
    case '':
      return (one, other) => plainOrder(one.name, other.name)
  }
}

function naturallySorted(entries: readonly Entry[]): Entry[] {
  return entries
    .map((entry) => ({ entry, key: naturalKey(entry.name) }))
    .sort((one, other) => plainOrder(one.key, other.key) || plainOrder(one.entry.name, other.entry.name))
    .map(({ entry }) => entry)
}

function plainOrder(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}

/**
 * A text whose plain order is the natural order of the name. A run of digits becomes `0`, which is to anything else as every
 * digit is, then how many digits there are, then the digits: the longer number is the larger one. Numbers that are equal and
 * spelled with more or fewer zeros have one key; then the spelling decides.
 */
function naturalKey(name: string): string {
  const key = name.replace(/\d+/g, (run) => {
    const digits = run.replace(/^0+(?=\d)/, '')
    return `0${String.fromCharCode(digits.length)}${digits}`
  })
  return outsidePlainOrder.test(key) ? inCodePoints(key) : key
}

const outsidePlainOrder = /[\ud800-\uffff]/

/** Code units moved so that their order is that of the code points: surrogates stand for the highest of all. */
function inCodePoints(text: string): string {
  return text.replace(/[\ud800-\uffff]/g, (unit) => {
    const code = unit.charCodeAt(0)
    return String.fromCharCode(code < 0xe000 ? code + 0x2000 : code - 0x800)
  })
}
