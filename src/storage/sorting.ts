/** Orders of listings: that of a storage (its options order_by, order_direction and extract_folder), and others. */
import type { Entry } from '../contract/entry.js'
import { Pauses } from '../base/pauses.js'
import { foldName } from '../base/folding.js'

export interface Order {
  /** `given`: the entries stay in the order that they have. */
  readonly by: '' | 'name' | 'size' | 'modified' | 'given'
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
  return arranged(ascending(entries, order), order)
}

function ascending(entries: readonly Entry[], order: Order): Entry[] {
  if (order.by === 'given') return [...entries]
  if (order.by === 'name') return keyed(entries, order).sort(compareKeys).map(entryOf)
  return [...entries].sort(compare(order.by))
}

/** Entries that are sorted in one turn of the event loop. */
const runLength = 2000

/** Sorts as `sorted` does, in several turns of the event loop if there are many entries. */
export async function sortedInTurns(entries: readonly Entry[], order: Order): Promise<readonly Entry[]> {
  if (entries.length <= runLength || order.by === 'given') return sorted(entries, order)
  const result =
    order.by === 'name'
      ? (await mergeSorted(entries, (run) => keyed(run, order), compareKeys)).map(entryOf)
      : await mergeSorted(entries, (run) => run, compare(order.by))
  return arranged(result, order)
}

/**
 * The direction, and the place of the folders. Takes over `result`, which is in ascending order unless that is given.
 */
function arranged(result: Entry[], order: Order): readonly Entry[] {
  if (order.by !== '' && order.by !== 'given' && order.direction === 'desc') result.reverse()
  if (order.folders === '') return result
  const folders = result.filter((entry) => entry.kind === 'folder')
  if (folders.length === 0 || folders.length === result.length) return result
  const others = result.filter((entry) => entry.kind !== 'folder')
  return order.folders === 'front' ? [...folders, ...others] : [...others, ...folders]
}

function compare(by: Exclude<Order['by'], 'name' | 'given'>): (one: Entry, other: Entry) => number {
  switch (by) {
    case 'size':
      return (one, other) => one.size - other.size || plainOrder(one.name, other.name)
    case 'modified':
      return (one, other) => one.modified.getTime() - other.modified.getTime() || plainOrder(one.name, other.name)
    case '':
      return (one, other) => plainOrder(one.name, other.name)
  }
}

/** An entry with the key of its name in the natural order. */
interface Keyed {
  readonly entry: Entry
  readonly key: string
}

function keyed(entries: readonly Entry[], { ignoreCase = false }: Order): Keyed[] {
  return entries.map((entry) => ({ entry, key: naturalKey(ignoreCase ? foldName(entry.name) : entry.name) }))
}

function compareKeys(one: Keyed, other: Keyed): number {
  return plainOrder(one.key, other.key) || plainOrder(one.entry.name, other.entry.name)
}

function entryOf({ entry }: Keyed): Entry {
  return entry
}

/** Sorts runs of entries, and merges them in pairs. `itemsOf` makes new items of a run. */
async function mergeSorted<Item>(
  entries: readonly Entry[],
  itemsOf: (run: Entry[]) => Item[],
  compareItems: (one: Item, other: Item) => number,
): Promise<Item[]> {
  const pauses = new Pauses()
  let runs: Item[][] = []
  for (let from = 0; from < entries.length; from += runLength) {
    runs.push(itemsOf(entries.slice(from, from + runLength)).sort(compareItems))
    if (pauses.areDue) await pauses.take()
  }
  while (runs.length > 1) {
    const merged: Item[][] = []
    for (let at = 0; at < runs.length; at += 2) {
      merged.push(await merge(runs[at] ?? [], runs[at + 1] ?? [], compareItems, pauses))
    }
    runs = merged
  }
  return runs[0] ?? []
}

/** Merges sorted items. Of equal ones, those of `first` precede. */
async function merge<Item>(
  first: Item[],
  second: Item[],
  compareItems: (one: Item, other: Item) => number,
  pauses: Pauses,
): Promise<Item[]> {
  const merged: Item[] = []
  let [at, from] = [0, 0]
  for (;;) {
    const [one, other] = [first[at], second[from]]
    if (one === undefined || other === undefined) break
    if (compareItems(one, other) <= 0) {
      merged.push(one)
      at++
    } else {
      merged.push(other)
      from++
    }
    if (merged.length % runLength === 0 && pauses.areDue) await pauses.take()
  }
  // One of the two is used up. Not `push(...)`: a call has a limited number of arguments.
  return merged.concat(first.slice(at), second.slice(from))
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
