/** The listings of a storage: how they are cached, shared by callers and dropped, and which names they have. */
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import type { DriverLog } from '../../src/base/log.js'
import { asPath } from '../../src/base/path.js'
import { processorTime } from '../processor-time.js'
import { bare, newStorage, sourceOf } from '../tree/tree-fixture.js'

const x = asPath('/x')
const y = asPath('/y')
const root = asPath('/')
const time = new Date(1_700_000_000_000)

/** Driver methods that count their calls, over a memory driver. */
function counted(inner: Driver = new MemoryDriver(0)) {
  const calls = { pages: 0, stat: 0 }
  const over = {
    pages: (...args: Parameters<Driver['pages']>) => {
      calls.pages++
      return inner.pages(...args)
    },
    stat: (...args: Parameters<Driver['stat']>) => {
      calls.stat++
      return inner.stat(...args)
    },
    write: (...args: Parameters<NonNullable<Driver['write']>>) => inner.write!(...args),
    mkdir: (...args: Parameters<NonNullable<Driver['mkdir']>>) => inner.mkdir!(...args),
    remove: (...args: Parameters<NonNullable<Driver['remove']>>) => inner.remove!(...args),
    move: (...args: Parameters<NonNullable<Driver['move']>>) => inner.move!(...args),
    removeTree: (...args: Parameters<NonNullable<Driver['removeTree']>>) => inner.removeTree!(...args),
  }
  return { inner, calls, over }
}

const names = ({ entries }: { readonly entries: readonly Entry[] }) => entries.map(({ name }) => name)

const unnameable = ['', '.', '..', 'a/b', '../etc/passwd', 'a\\b', 'a\0b', 'bad \ufffd', 'half \ud83e', '\udc00']

void t.test(
  'names that cannot be part of a path are left out of listings, and each folder is logged once',
  async (t) => {
    const logged: object[] = []
    const silent = () => undefined
    const log = { debug: silent, info: silent, warn: (details: object) => void logged.push(details), error: silent }
    const entry = (name: string): Entry => ({ name, kind: 'file', size: 1, modified: time })
    const pages: Driver['pages'] = async function* () {
      yield [entry('first'), ...unnameable.map(entry)]
      yield unnameable.map(entry)
      yield [entry('last')]
    }
    const stat = async (): Promise<Entry> => ({ name: '', kind: 'folder', size: 0, modified: time })
    for (const over of [{ pages }, { pages, stat, folderRevision: async () => '1' }]) {
      logged.length = 0
      const { storage } = await newStorage(t, { ...bare, ...over }, {}, {}, log)
      for (const path of [root, x]) {
        t.same(names(await storage.list(path)), ['first', 'last'])
        t.same(names(await storage.list(path, { refresh: true })), ['first', 'last'])
        for (const refresh of [true, false]) {
          const paged: string[] = []
          for await (const page of storage.pages(path, { refresh })) paged.push(...page.map(({ name }) => name))
          t.same(paged, ['first', 'last'])
        }
      }
      t.match(logged, [
        { folder: '/', name: '' },
        { folder: '/x', name: '' },
      ])
      t.equal(logged.length, 2)
      for (let count = 0; count < 1500; count++) await storage.list(asPath(`/${count}`))
      t.equal(logged.length, 1000, 'logging stops after 1000 folders')
    }
  },
)

void t.test('a name that listings leave out cannot be found by its path', async (t) => {
  // A case-insensitive backend reports its own spelling, which becomes part of paths.
  for (const name of unnameable) {
    const stat = async (): Promise<Entry> => ({ name, kind: 'file', size: 1, modified: time })
    const { storage } = await newStorage(t, { ...bare, stat }, {}, { caseSensitive: false })
    await t.rejects(storage.stat(x), { code: 'not_found' }, JSON.stringify(name))
    t.equal((await storage.stat(root)).size, 1, 'the root needs no name')
  }
})

void t.test('listings are cached, and dropped by every change through the storage', async (t) => {
  const { over, calls } = counted()
  const { storage } = await newStorage(t, over)
  const list = async () => names(await storage.list(root))
  t.same(await list(), [])
  await list()
  t.equal(calls.pages, 1)
  await storage.write(x, sourceOf('abc'))
  t.same(await list(), ['x'])
  await storage.mkdir(asPath('/d'))
  t.same(await list(), ['d', 'x'])
  t.ok(await storage.tryMove(x, y))
  t.same(await list(), ['d', 'y'])
  await storage.write(asPath('/d/z'), sourceOf('abc'))
  t.same(names(await storage.list(asPath('/d'))), ['z'])
  t.ok(await storage.tryMove(asPath('/d'), asPath('/e')))
  t.same(names(await storage.list(asPath('/e'))), ['z'])
  await t.rejects(storage.list(asPath('/d')), { code: 'not_found' })
  await storage.removeTree(asPath('/e'))
  t.same(await list(), ['y'])
  await storage.remove(y)
  t.same(await list(), [])
})

void t.test(
  'stat() is answered from a cached listing in time that does not depend on the size of the folder',
  async (t) => {
    const { over, calls } = counted()
    const { storage } = await newStorage(t, over)
    const folder = async (path: string, count: number) => {
      await storage.mkdir(asPath(path))
      for (let i = 0; i < count; i++) await storage.write(asPath(`${path}/${i}`), sourceOf(''))
      await storage.list(asPath(path))
    }
    await folder('/few', 100)
    await folder('/many', 3000)
    calls.stat = 0
    const time = (path: string) =>
      processorTime(async () => {
        for (let i = 0; i < 2000; i++) await storage.stat(asPath(`${path}/${i % 100}`))
      }, 5)
    const [few, many] = [await time('/few'), await time('/many')]
    t.ok(many < 5 * few, `${few.toFixed(1)} ms in a folder of 100, ${many.toFixed(1)} ms in one of 3000`)
    t.equal(calls.stat, 0)
    await t.rejects(storage.stat(asPath('/many/none')), { code: 'not_found' })
    t.equal(calls.stat, 1, 'a name that it does not contain is looked up at the backend')
  },
)

void t.test('changes by other programs are visible when the cache expires, or at once on refresh', async (t) => {
  const { inner, over } = counted()
  const { storage } = await newStorage(t, over, { cacheExpiration: 0.2 / 60 })
  await storage.list(root)
  await inner.write!(x, sourceOf('abc'))
  t.same(names(await storage.list(root)), [])
  t.same(names(await storage.list(root, { refresh: true })), ['x'])
  await inner.write!(y, sourceOf('abc'))
  await sleep(250)
  t.same(names(await storage.list(root)), ['x', 'y'])
})

void t.test('with revisions, a cached listing is valid while the revision of the folder is the same', async (t) => {
  const { inner, over, calls } = counted()
  let revision = 1
  const old = new Date(Date.now() - 60_000)
  const { storage } = await newStorage(t, {
    ...over,
    stat: async (path, options) => ({ ...(await inner.stat(path, options)), ...(path === '/' && { modified: old }) }),
    folderRevision: async () => String(revision),
  })
  for (let i = 0; i < 20; i++) await inner.write!(asPath(`/${i}`), sourceOf('abc'))
  await storage.list(root, { part: 2 })
  t.equal(calls.pages, 1)
  t.match(await storage.list(root, { part: 2 }), { current: false })
  t.equal(calls.pages, 1)
  await inner.write!(asPath('/0'), sourceOf('longer'))
  t.equal((await storage.stat(asPath('/0'))).size, 6, 'stat() asks the backend')
  const { entries } = await storage.list(root, { part: 2 })
  const shown = entries.filter(({ name }) => name === '0')
  t.equal((await storage.refreshed(root, shown))[0]?.size, 6)
  revision++
  await inner.remove!(asPath('/0'))
  t.match(await storage.list(root, { part: 2 }), { current: true })
  t.same(await storage.refreshed(root, shown), [], 'removed entries are left out')
})

void t.test('a folder in the order of sizes or times is read again after a minute', async (t) => {
  const { inner, over, calls } = counted()
  const old = new Date(Date.now() - 60_000)
  const { storage } = await newStorage(t, {
    ...over,
    stat: async (path, options) => ({ ...(await inner.stat(path, options)), ...(path === '/' && { modified: old }) }),
    folderRevision: async () => '1',
  })
  for (let i = 0; i < 20; i++) await inner.write!(asPath(`/${i}`), sourceOf('x'.repeat(i)))
  const bySize = { part: 2, order: { by: 'size', direction: 'desc', folders: 'front' } } as const
  const byName = { part: 2, order: { ...bySize.order, by: 'name' } } as const
  t.equal(names(await storage.list(root, bySize))[0], '19')
  t.match(await storage.list(root, bySize), { current: false, serialized: undefined })
  t.equal((await storage.list(root, bySize)).entries, (await storage.list(root, bySize)).entries, 'sorted once')
  t.equal(calls.pages, 1)
  // Another program writes in place: the revision of the folder stays.
  await inner.write!(asPath('/7'), sourceOf('x'.repeat(100)))
  t.equal(names(await storage.list(root, bySize))[0], '19')
  const { now } = Date
  let later = 61_000
  t.intercept(Date, 'now', { value: () => now() + later })
  t.equal(names(await storage.list(root, byName))[0], '19')
  t.equal(calls.pages, 1, 'names follow the revision')
  t.equal(names(await storage.list(root, bySize))[0], '7')
  t.equal(calls.pages, 2)
  await storage.list(root, bySize)
  t.equal(calls.pages, 2)
  later *= 2
  await storage.list(root, bySize)
  await storage.list(root, bySize)
  t.equal(calls.pages, 3, 'read again without a change')
})

void t.test(
  'an order by size or time follows files that change in place, which leaves the revision as it was',
  async (t) => {
    const old = new Date(Date.now() - 60_000)
    for (const orderBy of ['size', 'modified'] as const) {
      const { inner, over } = counted()
      const { storage } = await newStorage(
        t,
        {
          ...over,
          stat: async (path, options) => ({
            ...(await inner.stat(path, options)),
            ...(path === '/' && { modified: old }),
          }),
          folderRevision: async () => '1',
        },
        { orderBy },
      )
      const write = (name: string, size: number) =>
        inner.write!(asPath(`/${name}`), sourceOf('x'.repeat(size)), { modified: new Date(size * 1000) })
      for (let size = 1; size <= 20; size++) await write(`file ${size}`, size)
      const first = async () => names(await storage.list(root, { part: 2 }))[0]
      t.equal(await first(), 'file 1')
      await write('file 1', 100)
      t.equal(await first(), 'file 2', orderBy)
      t.equal(names(await storage.list(root, { part: 2 })).at(-1), 'file 1')
    }
  },
)

void t.test('a listing that is read again without a change is not checked again', async (t) => {
  const { inner, over, calls } = counted()
  const old = new Date(Date.now() - 60_000)
  const entry: Entry = { name: 'x', kind: 'file', size: 3, modified: old }
  let asked = 0
  const { storage } = await newStorage(t, {
    ...over,
    stat: async (path, options) => {
      asked++
      return { ...(await inner.stat(path, options)), modified: old }
    },
    folderRevision: async () => '1',
    pages: async function* () {
      calls.pages++
      yield [entry]
    },
  })
  t.same(names(await storage.list(root)), ['x'])
  t.equal(asked, 1)
  t.same(names(await storage.list(root)), ['x'])
  t.equal(calls.pages, 2, 'sizes and times are read again')
  t.equal(asked, 1)
})

void t.test(
  'the listing of a recently changed folder is not cached, because its revision may miss a change',
  async (t) => {
    const { over, calls } = counted()
    const { storage } = await newStorage(t, { ...over, folderRevision: async () => '1' })
    for (let i = 0; i < 20; i++) await storage.write(asPath(`/${i}`), sourceOf(''))
    await storage.list(root, { part: 1 })
    await storage.list(root, { part: 1 })
    t.equal(calls.pages, 2)
  },
)

void t.test('atMost stops the reading of a large folder, unless another request wants all of it', async (t) => {
  let read = 0
  const { storage } = await newStorage(t, {
    pages: async function* () {
      for (let page = 0; page < 10; page++) {
        await turn()
        read++
        yield Array.from({ length: 100 }, (_, at): Entry => {
          return { name: `${page}-${at}`, kind: 'file', size: 1, modified: time }
        })
      }
    },
  })
  const part = await storage.list(root, { atMost: 250 })
  t.match(part, { isPartial: true, current: true })
  t.equal(part.entries.length, 300)
  t.equal(read, 3)
  t.equal((await storage.list(root, { atMost: 250 })).entries.length, 300, 'a part is not cached')
  read = 0
  const [some, all] = await Promise.all([storage.list(root, { atMost: 250 }), storage.list(root)])
  t.equal(read, 10, 'one load serves both')
  t.equal(some.entries.length, 1000)
  t.equal(all.entries.length, 1000)
  t.equal(all.isPartial, undefined)
  t.equal((await storage.list(root, { atMost: 250 })).entries.length, 1000, 'it is cached')
  t.equal(read, 10)
})

void t.test('a request that joins a load which has just stopped reads the whole folder', async (t) => {
  let joined: Promise<{ readonly entries: readonly Entry[] }> | undefined
  const { storage } = await newStorage(t, {
    pages: async function* () {
      try {
        for (let page = 0; page < 3; page++) {
          yield Array.from({ length: 100 }, (_, at): Entry => {
            return { name: `${page}-${at}`, kind: 'file', size: 1, modified: time }
          })
        }
      } finally {
        joined ??= storage.list(root)
      }
    },
  })
  t.equal((await storage.list(root, { atMost: 50 })).entries.length, 100)
  t.equal((await joined)?.entries.length, 300)
})

/** A driver whose listings wait until the test releases them. */
function stalled(heedsSignal = true) {
  const inner = new MemoryDriver(0)
  const waiting: { readonly go: () => void; readonly signal: AbortSignal | undefined }[] = []
  async function* list(path: typeof x, { signal }: { readonly signal?: AbortSignal | undefined } = {}) {
    await new Promise<void>((resolve, reject) => {
      waiting.push({ go: resolve, signal })
      if (heedsSignal) signal?.addEventListener('abort', () => reject(new GatewayError('aborted')))
    })
    yield* inner.pages(path)
  }
  return { inner, waiting, list }
}

void t.test('concurrent callers share one load of a listing', async (t) => {
  const { list, waiting } = stalled()
  const { storage } = await newStorage(t, { pages: list })
  const all = Promise.all([storage.list(root), storage.list(root), storage.list(root)])
  await turn()
  t.equal(waiting.length, 1)
  waiting[0]?.go()
  t.equal((await all).length, 3)
})

void t.test('a load of a listing stops when its last caller aborts', async (t) => {
  const { list, waiting } = stalled()
  const { storage } = await newStorage(t, { pages: list })
  const one = new AbortController()
  const other = new AbortController()
  const first = storage.list(root, { signal: one.signal })
  const second = storage.list(root, { signal: other.signal })
  await turn()
  one.abort()
  await t.rejects(first, { code: 'aborted' })
  t.notOk(waiting[0]?.signal?.aborted)
  other.abort()
  await t.rejects(second, { code: 'aborted' })
  t.ok(waiting[0]?.signal?.aborted)
})

void t.test('a caller after the last abort starts a new load', async (t) => {
  const { list, waiting } = stalled(false)
  const { storage } = await newStorage(t, { pages: list })
  const leaver = new AbortController()
  const left = storage.list(root, { signal: leaver.signal })
  await turn()
  leaver.abort()
  await t.rejects(left, { code: 'aborted' })
  const next = storage.list(root)
  await turn()
  t.equal(waiting.length, 2)
  for (const { go } of waiting) go()
  t.same((await next).entries, [])
})

void t.test('a listing that was read during a change is returned but not cached', async (t) => {
  const { list, waiting, inner } = stalled()
  const { storage } = await newStorage(t, { pages: list, write: (...args) => inner.write(...args) })
  const reading = storage.list(root)
  await turn()
  await storage.write(x, sourceOf('abc'))
  waiting[0]?.go()
  await reading
  const again = storage.list(root)
  await turn()
  t.equal(waiting.length, 2)
  waiting[1]?.go()
  t.same(names(await again), ['x'])
})

void t.test('an older load that ends after a refresh does not replace the newer listing', async (t) => {
  const { list, waiting, inner } = stalled()
  const { storage } = await newStorage(t, {
    pages: async function* (path, options) {
      const before = await inner.pages(path).next()
      for await (const page of list(path, options)) if (page.length < 0) yield page
      yield before.done === true ? [] : before.value
    },
  })
  const old = storage.list(root)
  await turn()
  await inner.write(x, sourceOf('by another program'))
  const fresh = storage.list(root, { refresh: true })
  await turn()
  waiting[1]?.go()
  t.same(names(await fresh), ['x'])
  waiting[0]?.go()
  await old
  t.same(names(await storage.list(root)), ['x'])
})

void t.test('a failed change drops cached listings, because it may have taken effect', async (t) => {
  const { inner, over } = counted()
  const { storage } = await newStorage(t, {
    ...over,
    write: async (...args) => {
      await inner.write!(...args)
      throw new GatewayError('timeout')
    },
    mkdir: async (...args) => {
      await inner.mkdir!(...args)
      throw new GatewayError('timeout')
    },
  })
  await storage.list(root)
  await t.rejects(storage.write(x, sourceOf('abc')), { code: 'timeout' })
  t.same(names(await storage.list(root)), ['x'])
  await t.rejects(storage.mkdir(y), { code: 'timeout' })
  t.same(names(await storage.list(root)), ['x', 'y'])
})

void t.test('changes of a handle are visible in the next listing, and emit an event when it is closed', async (t) => {
  const { storage, heard } = await newStorage(t)
  await storage.write(x, sourceOf('abc'))
  const size = async () => (await storage.list(root)).entries[0]?.size
  t.equal(await size(), 3)
  heard.length = 0
  const file = await storage.open(x, 'update')
  await file.write([Buffer.from('def')], 3)
  t.equal(await size(), 6)
  await file.truncate(1)
  t.equal(await size(), 1)
  t.same(heard, [])
  await file.close()
  t.same(heard, [{ kind: 'written', path: '/mnt/x' }])
  const untouched = await storage.open(x, 'update')
  await untouched.close()
  t.equal(heard.length, 1)
})

void t.test('cache policies of the storage set the expiration of single folders', async (t) => {
  const { over, calls } = counted()
  const { storage } = await newStorage(t, over, { customCachePolicies: ' :5\nnonsense\n/fresh:0\n/:' })
  await storage.mkdir(asPath('/fresh'))
  for (const path of ['/fresh', '/fresh', '/', '/']) await storage.list(asPath(path))
  t.equal(calls.pages, 3)
})

void t.test('stored cache policies that exceed a limit are ignored, and that is logged once', async (t) => {
  const { over, calls } = counted()
  const logged: string[] = []
  const log = { warn: (_details: object, message: string) => void logged.push(message) } as unknown as DriverLog
  const { storage } = await newStorage(t, over, { customCachePolicies: `/x:0\n${'a'.repeat(1001)}:1` }, {}, log)
  t.same(logged, ['the cache policies of the storage exceed a limit and are ignored'])
  await storage.mkdir(x)
  for (let times = 0; times < 2; times++) await storage.list(x)
  t.equal(calls.pages, 1, 'the folder is cached as if there were no policy')
  t.equal(logged.length, 1)
})

void t.test('closing a storage ends its loads and closes the driver once', async (t) => {
  const { list, waiting } = stalled()
  let closed = 0
  const { storage } = await newStorage(t, {
    pages: list,
    close: async () => {
      closed++
    },
  })
  const reading = storage.list(root)
  await turn()
  await storage.close()
  await t.rejects(reading, { code: 'aborted' })
  t.ok(waiting[0]?.signal?.aborted)
  t.equal(closed, 1)
})
