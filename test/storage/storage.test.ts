/**
 * Storages over drivers that lack methods or attributes, the caching of their listings, and the limits of their calls.
 */
import { createHash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { ByteRange, Source } from '../../src/contract/call-options.js'
import type { OpenFile } from '../../src/contract/capabilities.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import type { DriverLog } from '../../src/base/log.js'
import { asPath, type Path } from '../../src/base/path.js'
import type { ResumableUpload } from '../../src/storage/fallbacks/resumable-write.js'
import { processorTime } from '../processor-time.js'
import { bare, newStorage, sourceOf, text, type Over } from '../tree/tree-fixture.js'

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

void t.test('without open(), a handle can read at any position', async (t) => {
  const { storage } = await newStorage(t, bare)
  const content = randomBytes(300_000)
  await storage.write(x, sourceOf(content))
  const file = await storage.open(x, 'read')
  const into = Buffer.alloc(1000)
  for (const position of [0, 1000, 200_000, 5]) {
    t.equal(await file.read(into, position), 1000)
    t.ok(into.equals(content.subarray(position, position + 1000)))
  }
  await file.close()
  await t.rejects(storage.open(asPath('/none'), 'read'), { code: 'not_found' })
  await t.rejects(storage.open(root, 'read'), { code: 'is_folder' })
})

void t.test('a method that the driver lacks rejects with unsupported, and emits no event', async (t) => {
  const { storage, heard } = await newStorage(t, { mkdir: undefined, remove: undefined, removeTree: undefined })
  await storage.write(x, sourceOf('x'))
  heard.length = 0
  await t.rejects(storage.mkdir(y), { code: 'unsupported' })
  await t.rejects(storage.remove(x), { code: 'unsupported' })
  await t.rejects(storage.removeTree(x), { code: 'unsupported' })
  t.same(heard, [])
})

void t.test('a handle that was opened to write has every method, and rejects what the driver lacks', async (t) => {
  const memory = new MemoryDriver(0)
  const open: Driver['open'] = async (...call) => {
    const file: OpenFile = { ...(await memory.open(...call)) }
    delete file.write
    delete file.truncate
    delete file.sync
    return file
  }
  const own = await newStorage(t, {
    open,
    write: (...call) => memory.write(...call),
    stat: (path) => memory.stat(path),
  })
  await own.storage.write(x, sourceOf('x'))
  for (const mode of ['update', 'replace'] as const) {
    const file = await own.storage.open(x, mode)
    await t.rejects(file.write([Buffer.from('y')], 0), { code: 'unsupported' })
    await t.rejects(file.truncate(0), { code: 'unsupported' })
    await t.rejects(file.sync(), { code: 'unsupported' })
    t.equal(file.commit === undefined, mode === 'update')
    await file.close()
  }
  const { storage } = await newStorage(t, bare)
  await storage.write(x, sourceOf('content'))
  for (const [mode, readable] of [['update', true] as const, ['replace', true] as const, ['replace', false] as const]) {
    const file = await storage.open(x, mode, { readable })
    await file.write([Buffer.from('new')], 0)
    await file.truncate(3)
    await t.rejects(file.sync(), { code: 'unsupported' })
    await file.commit?.()
    await file.close()
    t.equal(await text(storage.read(x)), 'new', mode)
  }
})

void t.test(
  'a driver that rejects with unsupported is used as one without the method, except to resolve symlinks',
  async (t) => {
    const refused = async () => Promise.reject(new GatewayError('unsupported'))
    const over = { look: refused, identities: refused, revision: async () => '1' }
    const { storage } = await newStorage(t, over)
    await storage.write(x, sourceOf('x'))
    t.match(await storage.look(x), { path: x, entry: { name: 'x' } })
    t.match(await storage.identities(x), [{ name: x }])
    const following = await newStorage(t, { ...over, realPath: refused })
    await t.rejects(following.storage.realPath(x), { code: 'unsupported' })
    await t.rejects(following.storage.look(x), { code: 'unsupported' })
  },
)

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
    for (const over of [{ pages }, { pages, stat, revision: async () => '1' }]) {
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

void t.test('without open(), a handle requests only the bytes that are read, and more in sequence only', async (t) => {
  const inner = new MemoryDriver(0)
  const asked: (ByteRange | undefined)[] = []
  const over: Over = {
    ...bare,
    read: (path, range, options) => {
      asked.push(range)
      return inner.read(path, range, options)
    },
    stat: (...args) => inner.stat(...args),
  }
  const { storage } = await newStorage(t, over)
  const content = randomBytes(8 * 1024 * 1024)
  await inner.write(x, sourceOf(content))
  const file = await storage.open(x, 'read')
  // As a program that reads an archive does: the end first, then the entries listed there.
  for (const [position, length] of [
    [content.length - 22, 22],
    [content.length - 1000, 900],
    [500_000, 30],
  ] as const) {
    await file.read(Buffer.alloc(length), position)
    t.same(asked.splice(0), [{ offset: position, length }])
  }
  const size = 32 * 1024
  for (let position = 0; position < content.length; position += size) await file.read(Buffer.alloc(size), position)
  t.ok(asked.length <= 6, `${asked.length} requests for 256 reads`)
  t.equal(
    asked.reduce((sum, range) => sum + (range?.length ?? Infinity), 0),
    content.length,
  )
  await file.close()
})

void t.test('without open(), a handle never mixes two versions of a file', async (t) => {
  const { storage } = await newStorage(t, bare)
  await storage.write(x, sourceOf(Buffer.alloc(100_000, 'a')))
  await storage.list(root)
  const file = await storage.open(x, 'read')
  t.equal(await file.read(Buffer.alloc(1000), 0), 1000)
  await storage.write(x, sourceOf(Buffer.alloc(100_000, 'b')))
  await t.rejects(file.read(Buffer.alloc(1000), 1000), { code: 'busy' })
  await t.rejects(file.read(Buffer.alloc(1000), 50_000), { code: 'busy' })
  await file.close()
})

void t.test(
  'without open(), a handle notices that another program has replaced the file, despite cached listings',
  async (t) => {
    const inner = new MemoryDriver(0)
    const over: Over = {
      ...bare,
      stat: (...args) => inner.stat(...args),
      read: (...args) => inner.read(...args),
      pages: (...args) => inner.pages(...args),
    }
    const { storage } = await newStorage(t, over)
    await inner.write(x, sourceOf(Buffer.alloc(100_000, 'a')))
    await storage.list(root)
    const file = await storage.open(x, 'read')
    t.equal(await file.read(Buffer.alloc(1000), 0), 1000)
    await inner.write(x, sourceOf(Buffer.alloc(100_000, 'b'), { modified: new Date(5000) }))
    await t.rejects(file.read(Buffer.alloc(1000), 50_000), { code: 'busy' })
    await file.close()
  },
)

void t.test('without open(), a handle writes a new file that is visible at commit', async (t) => {
  const { storage, heard } = await newStorage(t, bare)
  const file = await storage.open(x, 'replace', { modified: time })
  await file.write([Buffer.from('abc')], 0)
  await t.rejects(storage.stat(x), { code: 'not_found' })
  const later = new Date(time.getTime() + 5000)
  t.match(await file.commit?.({ modified: later, mode: 0o600 }), { size: 3, modified: later, mode: 0o600 })
  await file.close()
  t.equal(await text(storage.read(x)), 'abc')
  t.ok(heard.some((event) => event.kind === 'written' && event.path === '/mnt/x'))
  await t.rejects(storage.open(x, 'replace', { createOnly: true }), { code: 'exists' })
  await t.rejects(storage.open(root, 'replace'), { code: 'is_folder' })
  await t.rejects(storage.open(asPath('/none/x'), 'replace'), { code: 'parent_missing' }, 'before any byte is sent')
  await t.rejects(storage.open(asPath('/x/y'), 'replace'), { code: 'not_folder' })
})

void t.test('without open(), a file that is also read or changed is spooled', async (t) => {
  const { storage, spool } = await newStorage(t, bare)
  const file = await storage.open(x, 'replace', { readable: true, modified: time })
  await file.write([Buffer.from('world')], 6)
  await file.write([Buffer.from('hello ')], 0)
  const into = Buffer.alloc(11)
  t.equal(await file.read(into, 0), 11)
  t.equal(into.toString(), 'hello world')
  await file.commit?.({ modified: undefined, mode: undefined })
  await file.close()
  t.equal(await text(storage.read(x)), 'hello world')
  t.same((await storage.stat(x)).modified, time, 'undefined attributes override nothing')
  const change = await storage.open(x, 'update')
  await change.write([Buffer.from('H')], 0)
  t.equal(await text(storage.read(x)), 'hello world', 'not before the commit')
  await change.commit?.()
  await change.close()
  t.equal(await text(storage.read(x)), 'Hello world')
  await t.rejects(storage.open(y, 'update'), { code: 'not_found' }, 'an update creates no file')
  t.same(await readdir(spool.folder), [])
})

void t.test('a file that is changed through the spool keeps its mode and gets a new time', async (t) => {
  const { storage } = await newStorage(t, bare)
  await storage.write(x, sourceOf('hello'))
  await storage.setAttributes(x, { mode: 0o640, modified: time })
  const change = await storage.open(x, 'update')
  await change.write([Buffer.from('H')], 0)
  await change.commit?.()
  await change.close()
  const { mode, modified } = await storage.stat(x)
  t.equal(mode, 0o640)
  t.not(modified.getTime(), time.getTime())
})

void t.test('a storage whose backend cannot copy or remove trees does both, and does not rename', async (t) => {
  const refusing = async () => {
    throw new GatewayError('unsupported')
  }
  for (const over of [bare, { move: refusing, copy: refusing, removeTree: refusing, open: refusing }]) {
    const { storage, heard } = await newStorage(t, over)
    await storage.write(x, sourceOf('abc'))
    heard.length = 0
    t.equal(await storage.tryMove(x, y), false)
    t.same(heard, [], 'no event is emitted for it')
    await storage.setAttributes(x, { modified: time })
    await storage.copy(x, y)
    t.match(await storage.stat(y), { size: 3, modified: time })
    await t.rejects(storage.copy(root, y), { code: 'unsupported' }, 'a folder')
    await storage.mkdir(asPath('/d'))
    await storage.mkdir(asPath('/d/sub'))
    await storage.write(asPath('/d/sub/file'), sourceOf('abc'))
    heard.length = 0
    const removed: Path[] = []
    await storage.removeTree(asPath('/d'), { removed })
    t.same(removed, ['/d'])
    t.same(heard.length, 3, 'each removed entry is reported')
    await t.rejects(storage.stat(asPath('/d')), { code: 'not_found' })
    const file = await storage.open(x, 'read')
    t.equal(await file.read(Buffer.alloc(9), 0), 3)
    await file.close()
  }
})

void t.test('attributes that the backend cannot store are stored in the database', async (t) => {
  const { storage } = await newStorage(t, { setAttributes: undefined })
  await storage.write(x, sourceOf('abc'))
  await storage.setAttributes(x, { modified: time })
  t.same((await storage.stat(x)).modified, time)
  t.same((await storage.list(root)).entries[0]?.modified, time)
  await storage.setAttributes(x, { mode: 0o640 })
  t.match(await storage.stat(x), { modified: time, mode: 0o640 })
  await t.rejects(storage.setAttributes(y, { modified: time }), { code: 'not_found' })
  await storage.copy(x, y)
  t.match(await storage.stat(y), { modified: time, mode: 0o640 })
  await storage.write(x, sourceOf('abcd'))
  t.not((await storage.stat(x)).modified.getTime(), time.getTime(), 'new content has a new time')
  await storage.remove(y)
  await storage.write(y, sourceOf('new'))
  t.not((await storage.stat(y)).modified.getTime(), time.getTime(), 'attributes of a removed file are deleted')
})

void t.test('a mode that the backend ignores is stored in the database; the time is left to the backend', async (t) => {
  const inner = new MemoryDriver(0)
  const modeless = ({ mode: _mode, ...entry }: Entry) => entry
  const over: Over = {
    ...bare,
    stat: async (path, options) => modeless(await inner.stat(path, options)),
    async *pages(path, options) {
      for await (const page of inner.pages(path, options)) yield page.map(modeless)
    },
    read: (...args) => inner.read(...args),
    write: async (path, source, options) => modeless(await inner.write(path, source, options)),
    mkdir: (...args) => inner.mkdir(...args),
    setAttributes: (path, { modified }, options) => inner.setAttributes(path, { modified }, options),
  }
  const { storage } = await newStorage(t, over, {}, { keeps: ['modified'] })
  t.equal((await storage.write(x, sourceOf('abc'), { mode: 0o600 })).mode, 0o600)
  t.equal((await storage.stat(x)).mode, 0o600)
  await storage.setAttributes(x, { modified: time, mode: 0o640 })
  t.match(await storage.stat(x), { modified: time, mode: 0o640 })
  t.match((await storage.list(root)).entries, [{ modified: time, mode: 0o640 }])
  const later = new Date(time.getTime() + 60_000)
  await inner.setAttributes(x, { modified: later })
  t.match(await storage.stat(x, { refresh: true }), { modified: later, mode: 0o640 }, 'set by another program')
  await storage.copy(x, y)
  t.match(await storage.stat(y), { modified: later, mode: 0o640 })
  await t.rejects(storage.setAttributes(asPath('/none'), { mode: 0o640 }), { code: 'not_found' })
  t.equal((await storage.write(x, sourceOf('abc'), { mode: 0o6755 })).mode, 0o755, 'no special bits')
  await storage.setAttributes(x, { mode: 0o6010 })
  t.equal((await storage.stat(x)).mode, 0o610)
  await storage.mkdir(asPath('/folder'))
  await storage.setAttributes(asPath('/folder'), { mode: 0o6010 })
  t.equal((await storage.stat(asPath('/folder'))).mode, 0o710)
  await storage.setAttributes(root, { mode: 0 })
  t.equal((await storage.stat(root)).mode, undefined, 'that of the root is not changed')
})

void t.test(
  'a mode is stored by the backend if it can, and in the database if the backend does not show it',
  async (t) => {
    const inner = new MemoryDriver(0)
    let ignores = false
    const over: Over = {
      stat: (...args) => inner.stat(...args),
      write: (...args) => inner.write(...args),
      setAttributes: async (...args) => {
        if (!ignores) await inner.setAttributes(...args)
      },
    }
    const { storage } = await newStorage(t, over, {}, { keeps: [] })
    await storage.write(x, sourceOf('abc'))
    await storage.setAttributes(x, { modified: time, mode: 0o640 })
    t.match(await inner.stat(x), { modified: time, mode: 0o640 })
    await inner.setAttributes(x, { mode: 0o604 })
    t.match(await storage.stat(x), { modified: time, mode: 0o604 }, 'set by another program')
    ignores = true
    await storage.setAttributes(x, { mode: 0o600 })
    t.match(await storage.stat(x), { modified: time, mode: 0o600 })
    ignores = false
    await storage.setAttributes(x, { mode: 0o644 })
    t.match(await storage.stat(x), { modified: time, mode: 0o644 }, 'the latest mode is shown')
  },
)

void t.test('a backend that copies, but keeps no attributes, makes a copy with those that are asked for', async (t) => {
  const inner = new MemoryDriver(0)
  const over: Over = {
    stat: (...args) => inner.stat(...args),
    write: (path, source) => inner.write(path, source),
    copy: (from, to) => inner.copy(from, to, { modified: new Date() }),
    setAttributes: undefined,
  }
  const { storage, heard } = await newStorage(t, over)
  await storage.write(x, sourceOf('abc'))
  heard.length = 0
  await storage.copy(x, y, { modified: time, mode: 0o640 })
  t.match(await storage.stat(y), { modified: time, mode: 0o640 })
  t.match(heard, [{ kind: 'written' }])
})

void t.test('an unexpected failure to set attributes is reported', async (t) => {
  const refuse = async () => {
    throw new GatewayError('unsupported')
  }
  const { storage, heard } = await newStorage(t, { setAttributes: refuse })
  await storage.write(x, sourceOf('abc'))
  heard.length = 0
  await t.rejects(storage.setAttributes(x, { mode: 0o600 }), { code: 'unsupported' })
  t.same(heard, [])
})

void t.test('a time that the backend stores is not stored in the database', async (t) => {
  const inner = new MemoryDriver(0)
  const { storage } = await newStorage(t, {
    setAttributes: undefined,
    write: (...args) => inner.write(...args),
    stat: (...args) => inner.stat(...args),
  })
  await storage.write(x, sourceOf('abc'), { modified: time })
  t.same((await storage.stat(x)).modified, time)
  const later = new Date(time.getTime() + 60_000)
  await inner.write(x, sourceOf('by another program'), { modified: later })
  t.same((await storage.stat(x)).modified, later)
})

void t.test('a time that the backend does not store is stored in the database, also by a handle', async (t) => {
  const inner = new MemoryDriver(0)
  const over = {
    write: (path: typeof x, source: Source, { modified: _modified, ...options } = {} as { modified?: Date }) =>
      inner.write(path, { ...source, modified: undefined }, options),
    stat: (...args: Parameters<Driver['stat']>) => inner.stat(...args),
    open: (...args: Parameters<MemoryDriver['open']>) => inner.open(args[0], args[1], {}),
  }
  const { storage } = await newStorage(t, over, {}, { timeStep: Number.POSITIVE_INFINITY })
  t.same((await storage.write(x, sourceOf('abc'), { modified: time })).modified, time)
  t.same((await storage.stat(x)).modified, time)
  const file = await storage.open(y, 'replace', { mode: 0o600 })
  await file.write([Buffer.from('abc')], 0)
  await file.commit?.({ modified: time })
  await file.close()
  t.match(await storage.stat(y), { modified: time, mode: 0o600 })
})

void t.test('a backend without ranges is read from the start and skipped', async (t) => {
  const inner = new MemoryDriver(0)
  const asked: unknown[] = []
  const streams: Readable[] = []
  const { storage } = await newStorage(
    t,
    {
      write: (...args) => inner.write(...args),
      read: async (path, range, options) => {
        asked.push(range)
        const stream = await inner.read(path, range, options)
        streams.push(stream)
        return stream
      },
      stat: (...args) => inner.stat(...args),
    },
    {},
    { ranges: false },
  )
  const content = randomBytes(200_000)
  await storage.write(x, sourceOf(content))
  const part = async (offset: number, length?: number) => {
    const chunks: Buffer[] = []
    for await (const chunk of await storage.read(x, { offset, length })) chunks.push(chunk as Buffer)
    return Buffer.concat(chunks)
  }
  t.ok((await part(100_000, 50_000)).equals(content.subarray(100_000, 150_000)))
  t.ok((await part(199_999)).equals(content.subarray(199_999)))
  t.equal((await part(200_000)).length, 0)
  t.equal((await part(5, 0)).length, 0, 'a range of zero bytes makes no request')
  t.ok(asked.every((range) => range === undefined))
  t.equal(asked.length, 3)
  await turn()
  t.ok(streams.every((stream) => stream.destroyed))
  await t.rejects(storage.read(root, { offset: 0, length: 0 }), { code: 'is_folder' })
  const failing = await storage.read(x, { offset: 10 })
  const failed = new Promise((resolve) => failing.once('error', resolve))
  streams.at(-1)?.destroy(new GatewayError('unavailable'))
  t.match(await failed, { code: 'unavailable' }, 'a failure before the first read reaches the caller')
})

void t.test('a source is spooled only if the backend needs its size or reads it twice', async (t) => {
  const once = (content: string, size?: number): Source => sourceOf(content, { rereadable: false, size })
  for (const [writeNeeds, source, spools] of [
    ['stream', once('abc'), false],
    ['size', once('abc'), true],
    ['size', once('abc', 3), false],
    ['reread', once('abc', 3), true],
    ['reread', sourceOf('abc'), false],
  ] as const) {
    const inner = new MemoryDriver(0)
    const seen: Source[] = []
    const over: Parameters<typeof newStorage>[1] = {
      write: async (path, given, options) => {
        seen.push(given)
        t.same((await readdir(spool.folder)).length, spools ? 1 : 0)
        return inner.write(path, given, options)
      },
    }
    const { storage, spool } = await newStorage(t, over, {}, { writeNeeds })
    await storage.write(x, source)
    if (spools) t.match(seen[0], { size: 3, rereadable: true }, writeNeeds)
    else t.match(seen[0], { size: source.size, rereadable: source.rereadable }, writeNeeds)
    t.same(await readdir(spool.folder), [], 'the spool is empty')
  }
})

void t.test(
  'a write that is rejected as unsupported before the body is read is repeated through the spool',
  async (t) => {
    const inner = new MemoryDriver(0)
    let reads = false
    const over: Parameters<typeof newStorage>[1] = {
      write: async (path, given, options) => {
        if (reads) await given.read()
        if (given.size === undefined) throw new GatewayError('unsupported')
        return inner.write(path, given, options)
      },
    }
    const { storage, spool } = await newStorage(t, over)
    const unknown = () => sourceOf('abc', { rereadable: false, size: undefined })
    t.equal((await storage.write(x, unknown())).size, 3)
    t.same(await readdir(spool.folder), [], 'the spool is empty')
    reads = true
    await t.rejects(storage.write(x, unknown()), { code: 'unsupported' }, 'no second attempt after the body was read')
  },
)

void t.test('a spooled upload that fails leaves no file on the spool', async (t) => {
  const refuse = async () => {
    throw new GatewayError('no_space')
  }
  const { storage, spool } = await newStorage(t, { write: refuse }, {}, { writeNeeds: 'reread' })
  await t.rejects(storage.write(x, sourceOf('abc', { rereadable: false })), { code: 'no_space' })
  t.same(await readdir(spool.folder), [])
})

void t.test('a storage without write() rejects every change', async (t) => {
  const { storage } = await newStorage(t, { write: undefined })
  for (const change of [
    () => storage.write(x, sourceOf('')),
    () => storage.mkdir(x),
    () => storage.remove(x),
    () => storage.removeTree(x),
    () => storage.tryMove(x, y),
    () => storage.copy(x, y),
    () => storage.setAttributes(x, {}),
    () => storage.open(x, 'replace'),
    () => storage.open(x, 'update'),
    () => storage.setSymlinkTime(x, new Date()),
    () => storage.symlink(x, 'y'),
    () => storage.hardLink(x, y),
  ]) {
    await t.rejects(
      async () => {
        await change()
      },
      { code: 'unsupported' },
    )
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
    revision: async () => String(revision),
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
    revision: async () => '1',
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
          revision: async () => '1',
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
    revision: async () => '1',
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
    const { storage } = await newStorage(t, { ...over, revision: async () => '1' })
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

void t.test('a copy of a source that was replaced meanwhile rejects with busy', async (t) => {
  const { storage } = await newStorage(t, bare)
  await storage.write(x, sourceOf('old'))
  const source = storage.source(x, await storage.stat(x))
  await storage.write(x, sourceOf('longer'))
  await t.rejects(storage.copy(x, y, { source: { ...source, read: async () => Readable.from(['old']) } }), {
    code: 'busy',
    detail: 'source_changed',
  })
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

void t.test(
  'a source that lacks a hash that the driver needs is spooled and hashed, any other is passed on',
  async (t) => {
    const memory = new MemoryDriver(0)
    const seen: Source[] = []
    const write: Driver['write'] = (path, source, options) => {
      seen.push(source)
      return memory.write(path, source, options)
    }
    const { storage } = await newStorage(
      t,
      { stat: (path) => memory.stat(path), read: (...call) => memory.read(...call), write, open: undefined },
      {},
      { writeNeeds: 'reread', writeHashes: ['sha1'] },
    )
    const sha1 = createHash('sha1').update('content').digest('hex')
    const known: Source = { ...sourceOf('content'), hashes: { sha1: 'known', md5: 'm' }, rereadable: true }
    await storage.write(x, known)
    t.equal(seen[0]?.hashes, known.hashes, 'nothing was read in advance')
    for (const lacking of [{ ...known, hashes: { md5: 'm' } }, { ...known, hashes: undefined }, sourceOf('content')]) {
      await storage.write(x, lacking)
      t.match(seen.at(-1), { hashes: { ...lacking.hashes, sha1 }, rereadable: true, size: 7 })
    }
    await storage.write(x, { ...known, rereadable: false })
    t.match(seen.at(-1), { hashes: { sha1: 'known' }, rereadable: true }, 'a body that can be read once is spooled')
  },
)

void t.test('a driver is told of a client only what its URLs are bound to', async (t) => {
  const asked: unknown[] = []
  const directUrl: Driver['directUrl'] = async (_path, options) => {
    asked.push(options)
    return { url: 'https://example.org/' }
  }
  const client = { userAgent: 'player', address: '192.0.2.1', signal: new AbortController().signal }
  const plain = await newStorage(t, { directUrl })
  await plain.storage.directUrl(x, client)
  const bound = await newStorage(t, { directUrl }, {}, { urlsBoundTo: ['userAgent'] })
  await bound.storage.directUrl(x, client)
  t.same(asked, [{}, { userAgent: 'player' }])
})

void t.test('an upload is not aborted while it is being opened, so that it can be dropped', async (t) => {
  const order: string[] = []
  let opened: () => void = () => undefined
  const opening = new Promise<void>((resolve) => (opened = resolve))
  let begun: () => void = () => undefined
  const hasBegun = new Promise<void>((resolve) => (begun = resolve))
  const upload: Driver['upload'] = async (_path, _plan, { signal } = {}) => {
    begun()
    await opening
    order.push(signal?.aborted === true ? 'aborted while opening' : 'opened')
    return {
      token: 'token',
      committedOffset: 0,
      write: () => Promise.reject(new GatewayError('internal')),
      commit: () => Promise.reject(new GatewayError('internal')),
      close: async () => void order.push('closed'),
    }
  }
  const { storage } = await newStorage(t, { upload, dropUpload: async (token) => void order.push(`dropped ${token}`) })
  const content = { size: 20 * 1024 * 1024, rereadable: true, read: async () => Readable.from([]) }
  const resumable: ResumableUpload = {
    // The storage was deleted meanwhile.
    withResume: (_id, work) => work(undefined, () => Promise.reject(new GatewayError('not_found'))),
  }
  const written = t.rejects(storage.write(x, content, { resumable }))
  await hasBegun
  const ended = storage.endWrites().then(() => order.push('ended'))
  await turn()
  opened()
  await Promise.all([written, ended])
  t.same(order, ['opened', 'closed', 'dropped token', 'ended'])
})

void t.test('a handle is not closed while it is committed, when the writes end', async (t) => {
  const order: string[] = []
  let finish: () => void = () => undefined
  const finished = new Promise<void>((resolve) => (finish = resolve))
  const inner = new MemoryDriver(0)
  const open: Driver['open'] = async (...args) => {
    const file = await inner.open(...args)
    return {
      ...{ entry: file.entry, read: file.read.bind(file) },
      write: async () => undefined,
      truncate: async () => undefined,
      sync: async () => undefined,
      commit: async () => {
        order.push('commit')
        await finished
        order.push('committed')
        return file.entry
      },
      close: async () => void order.push('closed'),
    }
  }
  const { storage } = await newStorage(t, { open })
  await storage.write(x, sourceOf('old'))
  const file = (await storage.open(x, 'replace')) as Required<OpenFile>
  const committing = file.commit()
  const ended = storage.endWrites().then(() => order.push('ended'))
  await turn()
  finish()
  await Promise.all([committing, ended])
  t.same(order, ['commit', 'committed', 'closed', 'ended'])
})
