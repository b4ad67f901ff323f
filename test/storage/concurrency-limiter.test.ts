/** The limit of concurrent calls of a driver: what holds a slot and for how long, without deadlocks between calls. */
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { OpenFile, Upload } from '../../src/contract/capabilities.js'
import type { Source } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath, type Path } from '../../src/base/path.js'
import type { ResumableUpload } from '../../src/storage/fallbacks/resumable-write.js'
import type { Storage } from '../../src/storage/storage.js'
import { bare, contents, newStorage, newTree, openBody, sourceOf, text, type Over } from '../tree/tree-fixture.js'
import { webdav } from '../../protocols/webdav/index.js'
import { isSameContent } from '../../src/transfer/same-file.js'

const root = asPath('/')
const x = asPath('/x')
const y = asPath('/y')
const { signal } = new AbortController()

/** Long enough that work that need not wait has begun. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 20; turns++) await turn()
}

/** Whether this settles before other pending work has had time to proceed. */
async function isDone(work: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending')
  return (await Promise.race([work.catch(() => undefined), settled().then(() => pending)])) !== pending
}

class InFlight {
  now = 0
  most = 0

  async during<T>(result: T): Promise<T> {
    this.most = Math.max(this.most, ++this.now)
    await sleep(2)
    this.now--
    return result
  }
}

const entry = { name: 'x', kind: 'file', size: 16 * 1024 * 1024, modified: new Date(0) } as const

/** A driver with every method, each of which takes two milliseconds. */
function slowDriver(calls: InFlight): Required<Driver> {
  const file: Required<OpenFile> = {
    entry,
    preferredReadSize: 1000,
    read: () => calls.during(0),
    write: () => calls.during(undefined),
    truncate: () => calls.during(undefined),
    sync: () => calls.during(undefined),
    commit: () => calls.during(entry),
    close: () => calls.during(undefined),
  }
  const upload: Upload = {
    token: 'token',
    committedOffset: 0,
    write: () => calls.during(undefined),
    commit: () => calls.during(entry),
    close: () => calls.during(undefined),
  }
  return {
    traits: {},
    stat: () => calls.during(entry),
    pages: async function* () {
      for (let page = 0; page < 3; page++) yield await calls.during([{ ...entry, name: `${page}` }])
    },
    read: () => calls.during(Readable.from([Buffer.from('x')], { objectMode: false })),
    write: () => calls.during(entry),
    mkdir: () => calls.during(undefined),
    remove: () => calls.during(undefined),
    move: () => calls.during(undefined),
    copy: () => calls.during(undefined),
    copyFiles: () => calls.during([]),
    removeTree: () => calls.during(undefined),
    open: () => calls.during(file),
    upload: () => calls.during(upload),
    dropUpload: () => calls.during(undefined),
    addDownload: () => calls.during('id'),
    findDownload: () => calls.during(undefined),
    removeDownload: () => calls.during(undefined),
    setAttributes: () => calls.during(undefined),
    setSymlinkTime: () => calls.during(undefined),
    readSymlink: () => calls.during('target'),
    realPath: (path) => calls.during(path),
    look: (path) => calls.during({ path, entry }),
    identities: () => calls.during([]),
    symlink: () => calls.during(undefined),
    hardLink: () => calls.during(undefined),
    folderRevision: () => calls.during('folderRevision'),
    directUrl: () => calls.during({ url: 'http://localhost/x' }),
    thumbnail: () => calls.during({ type: 'image/png', bytes: Buffer.alloc(0) }),
    usage: () => calls.during({ total: 1, used: 0, free: 1 }),
    removeOrphans: () => calls.during(undefined),
    close: async () => undefined,
  }
}

const largeFile: Source = { size: entry.size, rereadable: true, read: async () => Readable.from([]) }
const kept: ResumableUpload = { withResume: (_id, work) => work(undefined, async () => undefined) }

/** Calls of a storage that lead to each driver method. The path distinguishes concurrent calls. */
const asking: Readonly<
  Record<Exclude<keyof Driver, 'traits' | 'close'>, (storage: Storage, at: Path) => Promise<unknown>>
> = {
  stat: (storage, at) => storage.stat(at),
  pages: async (storage, at) => {
    for await (const page of storage.pages(at)) t.equal(page.length, 1)
  },
  read: async (storage, at) => buffer(await storage.read(at)),
  write: (storage, at) => storage.write(at, sourceOf('x')),
  mkdir: (storage, at) => storage.mkdir(at),
  remove: (storage, at) => storage.remove(at),
  move: (storage, at) => storage.tryMove(at, y),
  copy: (storage, at) => storage.copy(at, y),
  copyFiles: (storage, at) =>
    storage.copyFiles({ source: storage, from: at, to: at, files: [], beforePublish: async () => new Set() }),
  removeTree: (storage, at) => storage.removeTree(at),
  open: async (storage, at) => {
    const file = await storage.open(at, 'replace')
    await file.read(Buffer.alloc(1), 0)
    await file.write([], 0)
    await file.truncate(0)
    await file.sync()
    await file.commit?.()
    await file.close()
  },
  upload: (storage, at) => storage.write(at, largeFile, { resumable: kept }),
  dropUpload: (storage) => storage.dropUpload('token'),
  removeOrphans: (storage) => storage.removeOrphans(),
  addDownload: (storage, at) => storage.addDownload(at, 'https://example.org/'),
  findDownload: (storage, at) => storage.findDownload(at, { address: 'https://example.org/' }),
  removeDownload: (storage, at) => storage.removeDownload(at, 'id'),
  setAttributes: (storage, at) => storage.setAttributes(at, { modified: new Date(0) }),
  setSymlinkTime: (storage, at) => storage.setSymlinkTime(at, new Date(0)),
  readSymlink: (storage, at) => storage.readSymlink(at),
  realPath: (storage, at) => storage.realPath(at),
  look: (storage, at) => storage.look(at),
  identities: (storage, at) => storage.identities(at),
  symlink: (storage, at) => storage.symlink(at, 'target'),
  hardLink: (storage, at) => storage.hardLink(at, y),
  folderRevision: (storage, at) => storage.list(at),
  directUrl: (storage, at) => storage.directUrl(at),
  thumbnail: (storage, at) => storage.thumbnail(at, 'image'),
  usage: (storage) => storage.usage(),
}

void t.test('concurrent calls of each method reach `parallel` but do not exceed it', async (t) => {
  for (const [method, ask] of Object.entries(asking)) {
    const calls = new InFlight()
    const { storage } = await newStorage(t, slowDriver(calls), {}, { parallel: 4 })
    await Promise.all(Array.from({ length: 12 }, (_, index) => ask(storage, asPath(`/${index}`))))
    t.equal(calls.most, method === 'write' || method === 'upload' ? 3 : 4, method)
    t.equal(calls.now, 0)
  }
})

void t.test('concurrent calls of all methods together do not exceed `parallel`', async (t) => {
  for (const parallel of [1, 3]) {
    const calls = new InFlight()
    const { storage } = await newStorage(t, slowDriver(calls), {}, { parallel })
    const asked = Object.values(asking).flatMap((ask) => [asPath('/1'), asPath('/2')].map((at) => ask(storage, at)))
    await Promise.all(asked)
    t.equal(calls.most, parallel)
  }
})

void t.test('without a limit, all calls run at once', async (t) => {
  for (const [method, ask] of Object.entries(asking)) {
    const calls = new InFlight()
    const { storage } = await newStorage(t, slowDriver(calls), {}, { parallel: Infinity })
    await Promise.all(Array.from({ length: 12 }, (_, index) => ask(storage, asPath(`/${index}`))))
    t.equal(calls.most, 12, method)
  }
})

void t.test('pages of concurrent listings alternate, and a page in use holds no slot', async (t) => {
  const order: string[] = []
  const list: Driver['pages'] = async function* (path) {
    for (let page = 1; page <= 3; page++) {
      await turn()
      order.push(`${path} ${page}`)
      yield []
    }
  }
  const { storage } = await newStorage(t, { pages: list, folderRevision: async () => '' }, {}, { parallel: 1 })
  const walk = async (path: Path) => {
    for await (const _ of storage.pages(path)) await turn()
  }
  await Promise.all([walk(x), walk(y)])
  t.same(order, ['/x 1', '/y 1', '/x 2', '/y 2', '/x 3', '/y 3'])
  const pages = storage.pages(x)
  await pages.next()
  t.match(await storage.stat(root), { kind: 'folder' }, 'in the middle of a listing')
  await pages.return(undefined)
})

void t.test('a listing that waits for its slot ends on abort, and ending a listing ends the driver’s', async (t) => {
  let go: () => void = () => undefined
  let ended = 0
  const list: Driver['pages'] = async function* () {
    try {
      yield []
      await new Promise<void>((resolve) => (go = resolve))
      yield []
    } finally {
      ended++
    }
  }
  const { storage } = await newStorage(t, { pages: list, folderRevision: async () => '' }, {}, { parallel: 1 })
  const first = storage.pages(x)
  await first.next()
  const busy = first.next()
  const controller = new AbortController()
  const waiting = storage.pages(y, { signal: controller.signal }).next()
  t.notOk(await isDone(waiting))
  controller.abort()
  await t.rejects(waiting, { code: 'aborted' })
  go()
  await busy
  await first.return(undefined)
  t.equal(ended, 1)
})

/** A storage that allows one call at a time. */
const one = { over: bare, traits: { parallel: 1 } }

void t.test(
  'with one call at a time, trees can be listed, copied within and between storages, and removed',
  async (t) => {
    const { as } = await newTree(t, { '/': { ...one }, '/other': { ...one } })
    const fs = as()
    for (const folder of ['/a', '/a/b', '/a/b/c', '/a/d']) {
      await fs.mkdir(asPath(folder))
      for (let file = 0; file < 5; file++) await fs.write(asPath(`${folder}/${file}`), sourceOf(`${folder} ${file}`))
    }
    const ask = { overwrite: false }
    const before = await contents(fs, asPath('/a'))
    await Promise.all([fs.copy(asPath('/a'), asPath('/copy'), ask), fs.copy(asPath('/a'), asPath('/other/a'), ask)])
    await Promise.all([
      fs.copy(asPath('/other/a'), asPath('/back'), ask),
      fs.copy(asPath('/a'), asPath('/other/b'), ask),
    ])
    for (const copy of ['/copy', '/other/a', '/back', '/other/b']) {
      const renamed = Object.entries(await contents(fs, asPath(copy))).map(([at, content]) => [
        at.replace(copy, '/a'),
        content,
      ])
      t.same(Object.fromEntries(renamed), before, copy)
    }
    await fs.move(asPath('/copy'), asPath('/other/moved'), ask)
    for (const path of ['/a', '/back', '/other/a', '/other/b', '/other/moved']) await fs.remove(asPath(path))
    t.same(await contents(fs), { '/other': null })
  },
)

void t.test('with one call at a time, files of one storage can be compared concurrently', async (t) => {
  const { storage } = await newStorage(t, bare, {}, { parallel: 1 })
  for (const path of [x, y]) await storage.write(path, sourceOf('same'))
  const source = async (path: Path) => ({ ...storage.source(path, await storage.stat(path)), hashes: undefined })
  const [one, other] = [await source(x), await source(y)]
  const pairs = [
    [one, other],
    [other, one],
    [one, one],
  ] as const
  t.same(await Promise.all(pairs.map(([left, right]) => isSameContent(left, right, signal))), [true, true, true])
})

void t.test('a stream releases its slot at its end, on failure and when it is destroyed', async (t) => {
  const inner = new MemoryDriver(0)
  await inner.write(x, sourceOf('abc'))
  const { storage } = await newStorage(t, { read: (...args) => inner.read(...args) }, {}, { parallel: 1 })
  for (const end of [
    (stream: Readable) => stream.resume(),
    (stream: Readable) => stream.destroy(),
    (stream: Readable) => stream.on('error', () => undefined).destroy(new GatewayError('unavailable')),
  ]) {
    const stream = await storage.read(x)
    const next = storage.read(x)
    t.notOk(await isDone(next))
    t.ok(await isDone(storage.mkdir(y).then(() => storage.remove(y))), 'other calls proceed')
    end(stream)
    ;(await next).destroy()
    await turn()
  }
  await t.rejects(storage.read(y), { code: 'not_found' })
  t.equal(await text(storage.read(x)), 'abc', 'a failed read holds no slot')
})

void t.test(
  'paused streams of one user leave a quarter of the slots to others, and a waiting read can be aborted',
  async (t) => {
    const { as } = await newTree(t, { '/': { over: bare, traits: { parallel: 4 } } })
    const [ada, grace] = [as({ userId: 1 }), as({ userId: 2 })]
    await ada.write(x, sourceOf('abc'))
    const paused = [await ada.read(x), await ada.read(x), await as({ userId: 1, protocol: webdav }).read(x)]
    const controller = new AbortController()
    const waiting = ada.read(x, undefined, { signal: controller.signal })
    t.notOk(await isDone(waiting))
    t.equal(await text(grace.read(x)), 'abc')
    t.equal((await ada.stat(x)).size, 3)
    controller.abort()
    await t.rejects(waiting, { code: 'aborted' })
    const next = ada.read(x)
    const handle = await ada.open(x, 'read')
    const read = handle.read(Buffer.alloc(3), 0)
    t.notOk(await isDone(Promise.race([next, read])), 'a handle that reads by streams waits, too')
    paused[0]?.destroy()
    t.equal(await text(next), 'abc')
    t.equal(await read, 3)
    await handle.close()
    for (const stream of paused) stream.destroy()
  },
)

void t.test('stalled uploads leave a quarter of the slots to other calls', async (t) => {
  const { as } = await newTree(t, { '/': { over: bare, traits: { parallel: 4 } } })
  const fs = as()
  const bodies = Array.from({ length: 8 }, () => openBody())
  const writes = bodies.map(({ source }, index) => as({ userId: index }).write(asPath(`/${index}`), source))
  await settled()
  t.same((await fs.list(root)).entries, [])
  await fs.mkdir(asPath('/folder'))
  for (const { body } of bodies) body.push(null)
  await Promise.all(writes)
  t.equal((await fs.list(root)).total, 9)
})

void t.test('work that continues after its call has returned is limited, too', async (t) => {
  const inner = new MemoryDriver(0)
  await inner.write(x, sourceOf('abc'))
  const calls = new InFlight()
  let later: Promise<Entry[]> | undefined
  const over: Over = {
    mkdir: async () => {
      later = sleep(5).then(() => Promise.all([1, 2, 3].map(() => storage.stat(x, { refresh: true }))))
    },
    stat: async (...args) => calls.during(await inner.stat(...args)),
  }
  const { storage } = await newStorage(t, over, {}, { parallel: 1 })
  await storage.mkdir(y)
  t.equal((await later)?.length, 3)
  t.equal(calls.most, 1)
})

void t.test('a stream that has ended before it is returned holds no slot', async (t) => {
  const over = {
    stat: async () => ({ ...entry, size: 0 }),
    read: async () => {
      const stream = Readable.from([])
      const closed = once(stream, 'close')
      stream.resume()
      await closed
      return stream
    },
  }
  const { storage } = await newStorage(t, over, {}, { parallel: 1 })
  for (let count = 0; count < 3; count++) t.ok(await isDone(storage.read(x)))
})

void t.test('paused streams of several users leave some to the next one', async (t) => {
  const { as } = await newTree(t, { '/': { over: bare, traits: { parallel: 16 } } })
  await as().write(x, sourceOf('abc'))
  const paused: Readable[] = []
  for (const [userId, share] of [
    [1, 12],
    [2, 3],
  ] as const) {
    for (let count = 0; count < share; count++) paused.push(await as({ userId }).read(x))
    const controller = new AbortController()
    const waiting = as({ userId }).read(x, undefined, { signal: controller.signal })
    t.notOk(await isDone(waiting), `user ${userId} has ${share}`)
    controller.abort()
    await t.rejects(waiting, { code: 'aborted' })
  }
  t.equal(await text(as({ userId: 3 }).read(x)), 'abc')
  for (const stream of paused) stream.destroy()
})

void t.test('concurrent calls do not exceed `parallel`, and calls of beforePublish do not deadlock', async (t) => {
  const inner = new MemoryDriver(0)
  let running = 0
  let most = 0
  const slow = async <T>(work: () => Promise<T>) => {
    most = Math.max(most, ++running)
    await sleep(2)
    try {
      return await work()
    } finally {
      running--
    }
  }
  const over = {
    stat: (...args: Parameters<Driver['stat']>) => slow(() => inner.stat(...args)),
    write: (...args: Parameters<MemoryDriver['write']>) => slow(() => inner.write(...args)),
    read: (...args: Parameters<MemoryDriver['read']>) => inner.read(...args),
  }
  const { storage } = await newStorage(t, over, {}, { parallel: 2 })
  await inner.write(x, sourceOf('abc'))
  await Promise.all(Array.from({ length: 10 }, () => storage.stat(x)))
  t.equal(most, 2)
  const copies = Array.from({ length: 5 }, async (_, index) =>
    storage.write(asPath(`/copy${index}`), storage.source(x, await storage.stat(x)), {
      beforePublish: async () => {
        await storage.stat(x)
      },
    }),
  )
  t.equal((await Promise.all(copies)).length, 5)
})

void t.test('an aborted call leaves the queue of a busy backend at once', async (t) => {
  let go: () => void = () => undefined
  const stat = () => new Promise<Entry>((_resolve, reject) => (go = () => reject(new GatewayError('not_found'))))
  const { storage } = await newStorage(t, { stat }, {}, { parallel: 1 })
  const controller = new AbortController()
  const first = storage.stat(x)
  const second = storage.stat(y, { signal: controller.signal })
  await turn()
  controller.abort(new Error('the client went away'))
  await t.rejects(second, { code: 'aborted' })
  go()
  await t.rejects(first, { code: 'not_found' })
})
