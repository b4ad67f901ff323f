import t from 'tap'
import type { Entry } from '../../src/driver.js'
import { ListingCache, type KeptListing } from '../../src/listing-cache.js'
import { asPath } from '../../src/path.js'

const entry = (name: string): Entry => ({ name, kind: 'file', size: 0, modified: new Date(0) })
const listing = (count: number, prefix = 'file'): KeptListing => ({
  entries: Array.from({ length: count }, (_, index) => entry(`${prefix}${index}`)),
  revision: undefined,
  readAt: 0,
})
const a = asPath('/a')
const b = asPath('/b')

void t.test('listings are kept, replaced and dropped by folder', async (t) => {
  const cache = new ListingCache()
  cache.keep(a, listing(2))
  t.equal(cache.get(a)?.entries.length, 2)
  t.equal(cache.entry(a, 'file1')?.name, 'file1')
  cache.keep(a, listing(3, 'other'))
  t.equal(cache.get(a)?.entries.length, 3)
  t.equal(cache.entry(a, 'file1'), undefined)
  t.equal(cache.entry(a, 'other2')?.name, 'other2')
  cache.drop(a)
  cache.drop(a)
  t.equal(cache.get(a), undefined)
  t.equal(cache.entry(a, 'other2'), undefined)
})

void t.test('a tree is dropped with everything below, and nothing beside', async (t) => {
  const cache = new ListingCache()
  for (const path of ['/', '/a', '/a/b', '/a/b/c', '/ab']) cache.keep(asPath(path), listing(1))
  cache.dropWithin(a)
  t.same(
    ['/', '/a', '/a/b', '/a/b/c', '/ab'].filter((path) => cache.get(asPath(path))),
    ['/', '/ab'],
  )
  cache.clear()
  t.equal(cache.get(asPath('/')), undefined)
})

void t.test('the least recently used go when the limit is reached', async (t) => {
  const cache = new ListingCache(100_000)
  cache.keep(a, listing(100))
  cache.keep(b, listing(100))
  t.ok(cache.get(a), 'used last')
  cache.keep(asPath('/c'), listing(150))
  t.ok(cache.get(a))
  t.notOk(cache.get(b))
  t.ok(cache.get(asPath('/c')))
})

void t.test('one that is larger than the limit is not kept, and pushes nothing out', async (t) => {
  const cache = new ListingCache(100_000)
  cache.keep(a, listing(10))
  cache.keep(b, listing(10))
  cache.keep(b, listing(10_000))
  t.ok(cache.get(a))
  t.notOk(cache.get(b), 'nor the older one of the same folder')
})

void t.test('the count of bytes stays true over many changes', async (t) => {
  const cache = new ListingCache(100_000)
  for (let i = 0; i < 1000; i++) cache.keep(asPath(`/${i % 7}`), listing(i % 50))
  cache.dropWithin(asPath('/'))
  cache.keep(a, listing(300))
  t.ok(cache.get(a), 'nothing was counted twice')
})
