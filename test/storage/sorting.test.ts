/** The order of listings: by name in natural order, by size or by time, and with folders first or last. */
import t from 'tap'
import type { Entry, EntryKind } from '../../src/contract/entry.js'
import { sorted, sortedInTurns, type Order } from '../../src/storage/sorting.js'

const entry = (name: string, size = 0, modified = 0, kind: EntryKind = 'file'): Entry => ({
  name,
  kind,
  size,
  modified: new Date(modified),
})

const names = (entries: readonly Entry[], order: Partial<Order>): string =>
  sorted(entries, { by: '', direction: '', folders: '', ...order })
    .map(({ name }) => name)
    .join(' ')

const mixed = ['ä', 'c10', 'a', '_', 'C2', 'B'].map((name) => entry(name))

void t.test('names sort naturally: digits as numbers, everything else by code point', async (t) => {
  t.equal(names(mixed, { by: 'name' }), 'B C2 _ a c10 ä')
  t.equal(names(mixed, { by: 'name', direction: 'desc' }), 'ä c10 a _ C2 B')
  t.equal(
    names(
      ['a10', 'a9', 'a1b', 'a1', 'a', 'a01'].map((name) => entry(name)),
      { by: 'name' },
    ),
    'a a01 a1 a1b a9 a10',
  )
  t.equal(
    names(
      ['😀', '\uffe5', '\ud7ff'].map((name) => entry(name)),
      { by: 'name' },
    ),
    '\ud7ff \uffe5 😀',
  )
})

void t.test('a given order is kept, whatever the direction', async (t) => {
  const given = [entry('b'), entry('d', 0, 0, 'folder'), entry('a'), entry('c', 0, 0, 'folder')]
  t.equal(names(given, { by: 'given', direction: 'desc' }), 'b d a c')
  t.equal(names(given, { by: 'given', folders: 'front' }), 'd c b a')
  const many = Array.from({ length: 5000 }, (_, index) => entry(String((index * 7) % 5000)))
  t.same(await sortedInTurns(many, { by: 'given', direction: '', folders: '' }), many)
})

void t.test('the natural order can ignore case', async (t) => {
  t.equal(names(mixed, { by: 'name', ignoreCase: true }), '_ a B C2 c10 ä')
  t.equal(
    names(
      ['b', 'Ä', 'a\u0308', 'a', 'A', 'B'].map((name) => entry(name)),
      { by: 'name', ignoreCase: true },
    ),
    'A a B b a\u0308 Ä',
    'names that differ in nothing else sort by code unit',
  )
})

void t.test('the natural order does not depend on the order of the input', async (t) => {
  const parts = ['', '0', '00', '1', '01', '10', 'a', 'b', '9'.repeat(30), '😀', '\uffff', '\ue000', ' ', '~']
  const all = new Set(parts.flatMap((one) => parts.flatMap((two) => parts.map((three) => one + two + three))))
  const entries = [...all].map((name) => entry(name))
  const expected = names(entries, { by: 'name' })
  t.equal(names(entries.toReversed(), { by: 'name' }), expected)
  t.equal(
    names(
      entries.map((_, index) => entries[(index * 7919) % entries.length] ?? entry('')),
      { by: 'name' },
    ),
    expected,
  )
})

void t.test('the natural order agrees with a simple implementation of it', async (t) => {
  const parts = ['', '0', '00', '1', '01', '10', 'a', 'b', '9'.repeat(30), '😀', '\uffff', '\ue000', ' ', '~']
  const all = [...new Set(parts.flatMap((one) => parts.flatMap((two) => parts.map((three) => one + two + three))))]
  const few = all.filter((_, index) => index % 7 === 0)
  for (const one of few) {
    for (const other of few) {
      const [first = entry('')] = sorted([entry(one), entry(other)], { by: 'name', direction: '', folders: '' })
      const expected = slowOrder(one, other)
      if (expected !== 0 && first.name !== (expected < 0 ? one : other)) t.fail(`${one} and ${other}`)
    }
  }
})

/**
 * Compares token by token: a run of digits as a number, anything else as one code point. Returns 0 if only leading
 * zeros differ.
 */
function slowOrder(one: string, other: string): number {
  const tokens = (text: string) => text.match(/\d+|./gsu) ?? []
  const [first, second] = [tokens(one), tokens(other)]
  for (let at = 0; at < Math.max(first.length, second.length); at++) {
    const [left, right] = [first[at], second[at]]
    if (left === undefined || right === undefined) return left === undefined ? -1 : 1
    const bothDigits = /^\d/.test(left) && /^\d/.test(right)
    const difference = bothDigits
      ? Number(BigInt(left) - BigInt(right))
      : (left.codePointAt(0) ?? 0) - (right.codePointAt(0) ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

void t.test('without an order, names sort by code unit', async (t) => {
  t.equal(names(mixed, {}), 'B C2 _ a c10 ä')
  t.equal(names(mixed, { direction: 'desc' }), 'B C2 _ a c10 ä', 'a direction alone has no effect')
  t.equal(
    names(
      ['a10', 'a9'].map((name) => entry(name)),
      {},
    ),
    'a10 a9',
  )
})

void t.test('entries sort by size or time, and by name if these are equal', async (t) => {
  const entries = [entry('c', 2, 10), entry('b', 1, 30), entry('a', 2, 20)]
  t.equal(names(entries, { by: 'size' }), 'b a c')
  t.equal(names(entries, { by: 'modified' }), 'c a b')
  t.equal(names(entries, { by: 'modified', direction: 'desc' }), 'b a c')
})

void t.test('folders come first, last or mixed, and each group is sorted', async (t) => {
  const entries = [entry('a'), entry('b', 0, 0, 'folder'), entry('c'), entry('d', 0, 0, 'folder')]
  t.equal(names(entries, { folders: 'front' }), 'b d a c')
  t.equal(names(entries, { folders: 'back' }), 'a c b d')
  t.equal(names(entries, { folders: '' }), 'a b c d')
  t.equal(names(entries, { by: 'name', direction: 'desc', folders: 'front' }), 'd b c a')
})

void t.test('sorted() does not change its input', async (t) => {
  const given = [entry('b'), entry('a')]
  sorted(given, { by: 'name', direction: '', folders: 'front' })
  t.same(
    given.map(({ name }) => name),
    ['b', 'a'],
  )
})

void t.test('many entries are sorted in several turns, in the same order', async (t) => {
  const entries = Array.from({ length: 30_001 }, (_, index) => {
    const number = (index * 7919) % 30_001
    return entry(
      `${number % 3 === 0 ? 'a' : 'A'}${number}`,
      number % 100,
      number % 1000,
      number % 7 === 0 ? 'folder' : 'file',
    )
  })
  let turns = 0
  const count = () => {
    turns++
    counting = setImmediate(count)
  }
  let counting = setImmediate(count)
  for (const by of ['', 'name', 'size', 'modified'] as const) {
    const order: Order = { by, direction: 'desc', folders: by === 'size' ? 'front' : '', ignoreCase: by === 'name' }
    turns = 0
    const inOrder = await sortedInTurns(entries, order)
    t.ok(same(inOrder, sorted(entries, order)), by)
    t.ok(turns > 1, `${turns} turns`)
    t.ok(same(await sortedInTurns(inOrder, order), inOrder), 'in order already')
  }
  clearImmediate(counting)
})

function same(one: readonly Entry[], other: readonly Entry[]): boolean {
  return one.length === other.length && one.every((each, index) => each === other[index])
}
