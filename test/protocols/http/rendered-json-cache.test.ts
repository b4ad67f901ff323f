import t from 'tap'
import { RenderedJsonCache } from '../../../protocols/http/rendered-json-cache.js'

const [one, other, third] = [{ name: 'one' }, { name: 'other' }, { name: 'third' }]

void t.test('a cached text is returned only for the same items and the same variant', (t) => {
  const lists = new RenderedJsonCache()
  const text = Buffer.from('text')
  const parts = lists.chunks('/a', 'now', [one, other])
  t.equal(parts.get(0, 2), undefined)
  parts.set(0, 2, text)
  t.equal(parts.get(0, 2), text)
  t.equal(lists.chunks('/a', 'now', [one, other]).get(0, 2), text)
  t.equal(lists.chunks('/a', 'now', [other, one]).get(0, 2), undefined)
  t.equal(lists.chunks('/a', 'now', [one]).get(0, 1), undefined)
  t.equal(lists.chunks('/a', 'now', [one, { ...other }]).get(0, 2), undefined)
  t.equal(lists.chunks('/a', 'now', [third, one, other]).get(1, 3), undefined)
  t.equal(lists.chunks('/a', 'later', [one, other]).get(0, 2), undefined)
  t.equal(lists.chunks('/b', 'now', [one, other]).get(0, 2), undefined)
  const newer = Buffer.from('newer')
  lists.chunks('/a', 'later', [one, other]).set(0, 2, newer)
  t.equal(lists.chunks('/a', 'later', [one, other]).get(0, 2), newer)
  t.equal(parts.get(0, 2), undefined)
  t.end()
})

void t.test('the size of the cache is bounded, and the least recently used list is evicted', (t) => {
  const lists = new RenderedJsonCache(10_000)
  const text = Buffer.alloc(4000)
  const items = [one]
  const [a, b, c] = ['/a', '/b', '/c'].map((name) => lists.chunks(name, '', items))
  a?.set(0, 1, text)
  b?.set(0, 1, text)
  const both = lists.bytes
  b?.set(0, 1, text)
  t.equal(lists.bytes, both, 'storing a text again does not add its size')
  t.equal(a?.get(0, 1), text)
  c?.set(0, 1, text)
  t.equal(lists.bytes, both)
  t.equal(b?.get(0, 1), undefined)
  t.equal(a?.get(0, 1), text)
  t.equal(c?.get(0, 1), text)
  c?.set(0, 1, Buffer.alloc(20_000))
  t.equal(c?.get(0, 1), undefined, 'a text larger than the cache is not stored')
  t.ok(lists.bytes <= 10_000)
  t.end()
})
