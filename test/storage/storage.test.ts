/** Storages over drivers that lack methods or attributes, and how storages end. */
import { createHash, randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Source } from '../../src/contract/call-options.js'
import type { OpenFile } from '../../src/contract/capabilities.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath, type Path } from '../../src/base/path.js'
import type { ResumableUpload } from '../../src/storage/fallbacks/resumable-write.js'
import { bare, newStorage, sourceOf, type Over } from '../tree/tree-fixture.js'

const x = asPath('/x')
const y = asPath('/y')
const root = asPath('/')
const time = new Date(1_700_000_000_000)

void t.test('a method that the driver lacks rejects with unsupported, and emits no event', async (t) => {
  const { storage, heard } = await newStorage(t, { mkdir: undefined, remove: undefined, removeTree: undefined })
  await storage.write(x, sourceOf('x'))
  heard.length = 0
  await t.rejects(storage.mkdir(y), { code: 'unsupported' })
  await t.rejects(storage.remove(x), { code: 'unsupported' })
  await t.rejects(storage.removeTree(x), { code: 'unsupported' })
  t.same(heard, [])
})

void t.test(
  'a driver that rejects with unsupported is used as one without the method, except to resolve symlinks',
  async (t) => {
    const refused = async () => Promise.reject(new GatewayError('unsupported'))
    const over = { look: refused, identities: refused, folderRevision: async () => '1' }
    const { storage } = await newStorage(t, over)
    await storage.write(x, sourceOf('x'))
    t.match(await storage.look(x), { path: x, entry: { name: 'x' } })
    t.match(await storage.identities(x), [{ name: x }])
    const following = await newStorage(t, { ...over, realPath: refused })
    await t.rejects(following.storage.realPath(x), { code: 'unsupported' })
    await t.rejects(following.storage.look(x), { code: 'unsupported' })
  },
)

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
