/** Tables that lose their oldest entries. */
import t from 'tap'
import { dropOldest, put } from '../../src/base/bounded-tables.js'

void t.test('a full table loses the entry that was set the longest time ago', async (t) => {
  const table = new Map<string, number>()
  for (const [key, value] of [
    ['a', 1],
    ['b', 2],
    ['a', 3],
    ['c', 4],
  ] as const)
    put(table, key, value, 2)
  t.same(
    [...table],
    [
      ['a', 3],
      ['c', 4],
    ],
  )
})

void t.test('a full set loses its first value, and one that is not full loses none', async (t) => {
  const names = new Set(['a', 'b', 'c'])
  dropOldest(names, 3)
  t.same([...names], ['a', 'b', 'c'])
  dropOldest(names, 2)
  t.same([...names], ['b', 'c'])
})
