/** Listing caches: what invalidates them, and the memory that they may use. */
import t from 'tap'
import type { Entry } from '../../src/contract/entry.js'
import { asPath } from '../../src/base/path.js'
import { ListingBudget, ListingCache, type ReadListing } from '../../src/storage/listing-cache.js'
import type { Order } from '../../src/storage/sorting.js'

const entry = (name: string): Entry => ({ name, kind: 'file', size: 0, modified: new Date(0) })
const listing = (count: number, prefix = 'file'): ReadListing => {
  const entries = Array.from({ length: count }, (_, index) => entry(`${prefix}${index}`))
  return { entries, backendOrder: entries.toReversed(), hasReserved: false, revision: undefined, readAt: 0 }
}
const a = asPath('/a')
const b = asPath('/b')

void t.test('listings are cached, replaced and dropped by folder', async (t) => {
  const cache = new ListingCache(new ListingBudget())
  cache.set(a, listing(2))
  t.equal(cache.get(a)?.entries.length, 2)
  t.equal(cache.entry(a, 'file1')?.name, 'file1')
  cache.set(a, listing(3, 'other'))
  t.equal(cache.get(a)?.entries.length, 3)
  t.equal(cache.entry(a, 'file1'), undefined)
  t.equal(cache.entry(a, 'other2')?.name, 'other2')
  cache.drop(a)
  cache.drop(a)
  t.equal(cache.get(a), undefined)
  t.equal(cache.entry(a, 'other2'), undefined)
})

void t.test('dropWithin() drops a folder and all folders below it, and no others', async (t) => {
  const cache = new ListingCache(new ListingBudget())
  for (const path of ['/', '/a', '/a/b', '/a/b/c', '/ab']) cache.set(asPath(path), listing(1))
  cache.dropWithin(a)
  t.same(
    ['/', '/a', '/a/b', '/a/b/c', '/ab'].filter((path) => cache.get(asPath(path))),
    ['/', '/ab'],
  )
})

void t.test('the least recently used listing is dropped at the limit', async (t) => {
  const cache = new ListingCache(new ListingBudget(100_000))
  cache.set(a, listing(100))
  cache.set(b, listing(100))
  t.ok(cache.get(a), 'used last')
  cache.set(asPath('/c'), listing(150))
  t.ok(cache.get(a))
  t.notOk(cache.get(b))
  t.ok(cache.get(asPath('/c')))
})

void t.test('dropRevised() drops the listings whose folders have revisions, of all storages', async (t) => {
  const budget = new ListingBudget()
  const [local, remote] = [new ListingCache(budget), new ListingCache(budget)]
  local.set(a, { ...listing(2), revision: 'r1' })
  remote.set(b, listing(3))
  const { bytes } = budget
  budget.dropRevised()
  t.equal(local.get(a), undefined)
  t.equal(remote.get(b)?.entries.length, 3)
  t.ok(budget.bytes > 0 && budget.bytes < bytes)
})

void t.test('a listing above the limit is not cached, and displaces no other', async (t) => {
  const cache = new ListingCache(new ListingBudget(100_000))
  cache.set(a, listing(10))
  cache.set(b, listing(10))
  cache.set(b, listing(10_000))
  t.ok(cache.get(a))
  t.notOk(cache.get(b), 'the older listing of this folder is dropped, too')
})

void t.test('the byte count stays correct over many changes', async (t) => {
  const cache = new ListingCache(new ListingBudget(100_000))
  for (let i = 0; i < 1000; i++) cache.set(asPath(`/${i % 7}`), listing(i % 50))
  cache.dropWithin(asPath('/'))
  cache.set(a, listing(300))
  t.ok(cache.get(a), 'no bytes were counted twice')
})

void t.test(
  'all storages share one limit, and the least recently used listing of any storage is dropped',
  async (t) => {
    const budget = new ListingBudget(100_000)
    const one = new ListingCache(budget)
    const other = new ListingCache(budget)
    one.set(a, listing(100))
    one.set(b, listing(100))
    other.set(a, listing(100))
    t.ok(one.get(a), 'used after the other one of its storage')
    other.set(b, listing(100))
    t.ok(one.get(a))
    t.notOk(one.get(b))
    t.ok(other.get(a), 'the same folder of another storage is a separate listing')
    t.ok(other.get(b))
    t.ok(budget.bytes <= budget.limit)
    for (let i = 0; i < 100; i++) new ListingCache(budget).set(a, listing(100))
    t.ok(budget.bytes <= budget.limit, 'however many storages there are')
  },
)

void t.test('closing a cache frees its bytes', async (t) => {
  const budget = new ListingBudget(100_000)
  const gone = new ListingCache(budget)
  for (const path of ['/', '/a', '/b']) gone.set(asPath(path), listing(100))
  gone.close()
  t.equal(budget.bytes, 0)
  gone.set(a, listing(100))
  t.equal(budget.bytes, 0, 'a listing that was still being read is not added later')
})

void t.test('unchanged() returns the cached entries if a listing has the same entries in any order', async (t) => {
  const budget = new ListingBudget()
  const cache = new ListingCache(budget)
  const kept = listing(3)
  cache.set(a, kept)
  const { bytes } = budget
  const again = kept.entries.toReversed()
  t.equal(cache.unchanged(a, again)?.entries, kept.entries)
  t.equal(cache.unchanged(a, kept.entries)?.entries, kept.entries, 'in any order')
  t.equal(cache.unchanged(a, again.slice(1)), undefined, 'an entry is missing')
  t.equal(cache.unchanged(a, [...again.slice(1), entry('file0')]), undefined, 'an entry is new')
  t.equal(cache.unchanged(b, again), undefined, 'not cached')
  cache.set(a, { ...kept, revision: 'new', readAt: 1 })
  t.match(cache.get(a), { revision: 'new', readAt: 1 })
  t.equal(cache.entry(a, 'file1'), kept.entries[1])
  t.equal(budget.bytes, bytes)
  cache.set(a, listing(1))
  t.equal(cache.get(a)?.entries.length, 1)
  t.equal(cache.entry(a, 'file1'), undefined)
})

void t.test('lookup() finds cached entries in any order of the names', async (t) => {
  const cache = new ListingCache(new ListingBudget())
  const { backendOrder: told, ...kept } = listing(5)
  cache.set(a, { ...kept, backendOrder: told })
  const asked = [...told, ...kept.entries, entry('other'), ...told.slice(2), ...told]
  const known = cache.lookup(a)
  for (const each of asked) t.equal(known(each.name), told.includes(each) ? each : undefined)
  t.equal(cache.lookup(b)('file1'), undefined)
})

void t.test('serialized parts are kept with their listing, in the form asked for last', async (t) => {
  const cache = new ListingCache(new ListingBudget())
  const first = listing(2000)
  cache.set(a, first)
  const parts = cache.get(a)?.serialized('one')
  t.equal(parts?.get(0), undefined)
  parts?.set(0, { bytes: Buffer.from('first') })
  parts?.set(1000, { bytes: Buffer.from('second') })
  t.same(
    [0, 1000].map((from) => String(cache.get(a)?.serialized('one').get(from)?.bytes)),
    ['first', 'second'],
  )
  cache.set(a, { ...first, revision: 'newer', readAt: 1 })
  t.match(cache.get(a), { revision: 'newer', readAt: 1 }, 'read again without a change')
  t.equal(String(parts?.get(1000)?.bytes), 'second')
  t.equal(cache.get(a)?.serialized('other').get(0), undefined)
  t.equal(cache.get(a)?.serialized('one').get(0), undefined, 'only one form is kept')
  parts?.set(0, { bytes: Buffer.from('late') })
  t.equal(cache.get(a)?.serialized('one').get(0), undefined, 'a form that is no longer kept accepts nothing')
  cache.set(a, listing(2000))
  t.equal(cache.get(a)?.serialized('one').get(0), undefined, 'another listing')
})

void t.test('serialized parts count towards the limit', async (t) => {
  const budget = new ListingBudget(100_000)
  const cache = new ListingCache(budget)
  cache.set(a, listing(10))
  cache.set(b, listing(10))
  const plain = budget.bytes
  cache
    .get(a)
    ?.serialized('form')
    .set(0, { bytes: Buffer.alloc(50_000) })
  t.equal(budget.bytes, plain + 50_000)
  cache
    .get(a)
    ?.serialized('form')
    .set(0, { bytes: Buffer.alloc(50_000), offsets: new Uint32Array(10) })
  t.equal(budget.bytes, plain + 50_040, 'a part is kept once, with the offsets of its entries')
  cache.get(a)?.serialized('other')
  t.equal(budget.bytes, plain, 'the parts of another form are dropped')
  cache
    .get(b)
    ?.serialized('form')
    .set(0, { bytes: Buffer.alloc(200_000) })
  t.equal(budget.bytes, plain, 'a part above the limit is not kept')
  cache
    .get(b)
    ?.serialized('form')
    .set(0, { bytes: Buffer.alloc(95_000) })
  t.notOk(cache.get(a), 'the least recently used listing makes room')
  const dropped = cache.get(b)?.serialized('form')
  cache.drop(b)
  t.equal(budget.bytes, 0)
  dropped?.set(1000, { bytes: Buffer.alloc(10) })
  t.equal(budget.bytes, 0, 'a listing that is no longer cached accepts nothing')
})

void t.test('the places of names are those of the order of the storage, and count towards the limit', async (t) => {
  const budget = new ListingBudget(100_000)
  const cache = new ListingCache(budget)
  cache.set(a, listing(100))
  const plain = budget.bytes
  const { entries = [] } = cache.get(a) ?? {}
  const places = cache.get(a)?.places()
  t.same(
    entries.map(({ name }) => places?.get(name)),
    entries.map((_, index) => index),
  )
  t.equal(places?.get('other'), undefined)
  t.equal(budget.bytes, plain + 4800)
  t.equal(cache.get(a)?.places(), places)
  t.equal(budget.bytes, plain + 4800, 'made once')
  const twice = [...listing(10).entries, entry('file3')]
  cache.set(b, { ...listing(10), entries: twice, backendOrder: twice })
  t.equal(cache.get(b)?.places(), undefined, 'of two entries with one name')
  const full = new ListingCache(new ListingBudget(plain + 500))
  full.set(a, listing(100))
  t.equal(full.get(a)?.places(), undefined, 'the map would exceed the limit')
})

void t.test('other orders are cached with their listing, within the limit', async (t) => {
  const budget = new ListingBudget(100_000)
  const cache = new ListingCache(budget)
  const backward: Order = { by: 'name', direction: 'desc', folders: '' }
  const forward: Order = { ...backward, direction: 'asc' }
  cache.set(a, listing(100))
  const plain = budget.bytes
  const entries = await cache.get(a)?.inOrder(backward)
  t.same(entries?.slice(0, 2), [entry('file99'), entry('file98')])
  t.equal(budget.bytes, plain + 800)
  t.equal(await cache.get(a)?.inOrder({ ...backward }), entries, 'sorted once')
  const both = [cache.get(a)?.inOrder(forward), cache.get(a)?.inOrder(forward)]
  t.equal(await both[0], await both[1], 'also for two at once')
  t.equal((await cache.get(a)?.inOrder(forward))?.[0]?.name, 'file0')
  t.equal(budget.bytes, plain + 1600)
  cache
    .get(a)
    ?.serialized('form')
    .set(0, { bytes: Buffer.alloc(1000) })
  cache.get(a)?.serialized('other')
  t.equal(budget.bytes, plain + 1600, 'the parts of another form are dropped, the orders stay')
  const item = cache.get(a)
  cache.drop(a)
  t.equal(budget.bytes, 0)
  t.equal((await item?.inOrder({ ...forward, by: 'size' }))?.length, 100)
  t.equal(budget.bytes, 0, 'a listing that is no longer cached takes no more')

  const small = new ListingBudget(plain + 500)
  const full = new ListingCache(small)
  full.set(a, listing(100))
  t.equal((await full.get(a)?.inOrder(backward))?.[0]?.name, 'file99')
  t.not(await full.get(a)?.inOrder(backward), await full.get(a)?.inOrder(backward), 'not cached above the limit')
  t.equal(small.bytes, plain)
})
