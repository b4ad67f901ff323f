/** Orders of listings: that of a storage (its options order_by, order_direction and extract_folder), and others. */
import type { Entry } from '../contract/entry.js'
import { foldName } from '../store/search/folding.js'

export interface Order {
  readonly by: '' | 'name' | 'size' | 'modified'
  readonly direction: '' | 'asc' | 'desc'
  readonly folders: '' | 'front' | 'back'
  /** The natural order of names ignores case, except between names that differ in nothing else. */
  readonly ignoreCase?: boolean
}

/**
 * Returns a sorted copy. Without an order, names are compared by code units. `name` is the natural order: runs of
 * digits are compared as numbers, everything else by code points.
 */
export function sorted(entries: readonly Entry[], order: Order): readonly Entry[] {
  const result =
    order.by === 'name' ? naturallySorted(entries, order.ignoreCase === true) : [...entries].sort(compare(order.by))
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

function naturallySorted(entries: readonly Entry[], ignoreCase: boolean): Entry[] {
  return entries
    .map((entry) => ({ entry, key: naturalKey(ignoreCase ? foldName(entry.name) : entry.name) }))
    .sort((one, other) => plainOrder(one.key, other.key) || plainOrder(one.entry.name, other.entry.name))
    .map(({ entry }) => entry)
}

function plainOrder(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}

/**
 * Returns a key whose order by code units is the natural order of names. A run of digits is replaced by `0`, the number
 * of digits and the digits without leading zeros: `0` compares to other characters as any digit does, and a longer
 * number is larger. Numbers that differ only in leading zeros have the same key, and names with the same key are
 * compared by code units.
 */
function naturalKey(name: string): string {
  const key = name.replace(/\d+/g, (run) => {
    const digits = run.replace(/^0+(?=\d)/, '')
    return `0${String.fromCharCode(digits.length)}${digits}`
  })
  return outsidePlainOrder.test(key) ? inCodePoints(key) : key
}

const outsidePlainOrder = /[\ud800-\uffff]/

/**
 * Remaps code units so that their order is that of code points: surrogates, which encode the highest code points, come
 * last.
 */
function inCodePoints(text: string): string {
  return text.replace(/[\ud800-\uffff]/g, (unit) => {
    const code = unit.charCodeAt(0)
    return String.fromCharCode(code < 0xe000 ? code + 0x2000 : code - 0x800)
  })
}
