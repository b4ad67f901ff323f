import t from 'tap'
import { WrittenLists } from '../../../protocols/http/written-lists.js'

const [one, other, third] = [{ name: 'one' }, { name: 'other' }, { name: 'third' }]

void t.test('a text holds for the very items that it was written of, and under the same circumstances', (t) => {
  const lists = new WrittenLists()
  const text = Buffer.from('text')
  const parts = lists.of('/a', 'now', [one, other])
  t.equal(parts.get(0, 2), undefined)
  parts.keep(0, 2, text)
  t.equal(parts.get(0, 2), text)
  t.equal(lists.of('/a', 'now', [one, other]).get(0, 2), text)
  t.equal(lists.of('/a', 'now', [other, one]).get(0, 2), undefined)
  t.equal(lists.of('/a', 'now', [one]).get(0, 1), undefined)
  t.equal(lists.of('/a', 'now', [one, { ...other }]).get(0, 2), undefined)
  t.equal(lists.of('/a', 'now', [third, one, other]).get(1, 3), undefined)
  t.equal(lists.of('/a', 'later', [one, other]).get(0, 2), undefined)
  t.equal(lists.of('/b', 'now', [one, other]).get(0, 2), undefined)
  const newer = Buffer.from('newer')
  lists.of('/a', 'later', [one, other]).keep(0, 2, newer)
  t.equal(lists.of('/a', 'later', [one, other]).get(0, 2), newer)
  t.equal(parts.get(0, 2), undefined)
  t.end()
})

void t.test('the room is bounded, and the list that was used longest ago goes first', (t) => {
  const lists = new WrittenLists(10_000)
  const text = Buffer.alloc(4000)
  const items = [one]
  const [a, b, c] = ['/a', '/b', '/c'].map((name) => lists.of(name, '', items))
  a?.keep(0, 1, text)
  b?.keep(0, 1, text)
  const both = lists.bytes
  b?.keep(0, 1, text)
  t.equal(lists.bytes, both, 'what is kept again takes no more')
  t.equal(a?.get(0, 1), text)
  c?.keep(0, 1, text)
  t.equal(lists.bytes, both)
  t.equal(b?.get(0, 1), undefined)
  t.equal(a?.get(0, 1), text)
  t.equal(c?.get(0, 1), text)
  c?.keep(0, 1, Buffer.alloc(20_000))
  t.equal(c?.get(0, 1), undefined, 'what is larger than all the room is not kept')
  t.ok(lists.bytes <= 10_000)
  t.end()
})
