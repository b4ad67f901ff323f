/** Files written by handle to a backend that only accepts streams: order, gaps, memory and failures. */
import { randomBytes } from 'node:crypto'
import { getEventListeners } from 'node:events'
import { readdir } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import type { Source, WriteOptions } from '../../../src/contract/call-options.js'
import type { OpenFile } from '../../../src/contract/capabilities.js'
import type { Driver } from '../../../src/contract/driver.js'
import type { Entry } from '../../../src/contract/entry.js'
import { GatewayError } from '../../../src/base/errors.js'
import { asPath } from '../../../src/base/path.js'
import { StreamWriter } from '../../../src/storage/fallbacks/open-to-write.js'
import { bare, newStorage, sourceOf, text } from '../../tree/tree-fixture.js'
import { entryOf } from '../open-file.js'

const x = asPath('/x')
const y = asPath('/y')
const root = asPath('/')
const time = new Date(1_700_000_000_000)

/** A writer into memory. Stores the content once it is complete, like a backend that stages uploads. */
function writerInto(options: WriteOptions = {}, store = collect) {
  const stored: { content?: Buffer; options?: WriteOptions } = {}
  const writer = new StreamWriter(
    entryOf(0),
    options,
    (source, given) => {
      stored.options = given
      return store(source, given, stored)
    },
    async (entry, { modified = entry.modified }) => ({ ...entry, modified }),
  )
  return { writer, stored }
}

async function collect(source: Source, options: WriteOptions, stored: { content?: Buffer }): Promise<Entry> {
  const content = await buffer(await source.read())
  await options.beforePublish?.()
  stored.content = content
  return entryOf(content.length)
}

void t.test('StreamWriter: writes in order, or slightly out of order, become the file at commit', async (t) => {
  const { writer, stored } = writerInto()
  await writer.write([Buffer.from('ab'), Buffer.from('cd')], 0)
  await writer.write([Buffer.from('gh')], 6)
  await writer.write([Buffer.from('')], 4)
  await writer.write([Buffer.from('ef')], 4)
  t.equal(stored.content, undefined, 'no content is stored before')
  const modified = new Date(5000)
  t.match(await writer.commit({ modified }), { size: 8, modified })
  t.equal(stored.content?.toString(), 'abcdefgh')
  t.equal((await writer.commit()).size, 8, 'a second commit returns the same')
  await writer.close()
})

void t.test('StreamWriter: the caller may reuse its buffers when a write has settled', async (t) => {
  const { writer, stored } = writerInto()
  const reused = Buffer.from('one')
  await writer.write([reused], 3)
  reused.write('two')
  await writer.write([reused], 0)
  reused.write('xxx')
  await writer.commit()
  t.equal(stored.content?.toString(), 'twoone')
})

void t.test('StreamWriter: many pipelined writes wait for buffer space without a listener warning', async (t) => {
  const warnings: Error[] = []
  const warned = (warning: Error) => warnings.push(warning)
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))
  const { writer, stored } = writerInto()
  const content = randomBytes(4 * 1024 * 1024)
  const piece = 32 * 1024
  const writes: Promise<void>[] = []
  for (let at = 0; at < content.length; at += piece) {
    writes.push(writer.write([content.subarray(at, at + piece)], at))
  }
  await Promise.all(writes)
  await writer.commit()
  t.ok(stored.content?.equals(content))
  await turn()
  t.same(warnings, [])
})

void t.test('StreamWriter fills gaps and extended sizes with zeros', async (t) => {
  const { writer, stored } = writerInto()
  await writer.write([Buffer.from('z')], 6)
  await writer.write([Buffer.from('ab')], 1)
  await writer.truncate(9)
  await writer.commit()
  t.equal(stored.content?.toString(), '\0ab\0\0\0z\0\0')
  const empty = writerInto()
  await empty.writer.truncate(3)
  await empty.writer.commit()
  t.equal(empty.stored.content?.toString(), '\0\0\0')
})

void t.test('StreamWriter rejects a gap of unreasonable size', async (t) => {
  const { writer, stored } = writerInto()
  await writer.truncate(2 ** 50)
  await t.rejects(writer.commit(), { code: 'unsupported', reason: /a gap must not exceed 67108864 bytes/ })
  await writer.close()
  t.equal(stored.content, undefined)
})

void t.test('StreamWriter limits the memory of many small writes out of order', async (t) => {
  const { writer } = writerInto()
  const write = async () => {
    for (let at = 1; at < 100_000; at++) await writer.write([Buffer.from('x')], 2 * at)
  }
  await t.rejects(write(), { code: 'unsupported' })
  await t.rejects(writer.truncate(10), { code: 'unsupported' }, 'a size below what was written')
  await writer.close()
})

void t.test('StreamWriter rejects writes that go back, overlap, or exceed the buffer', async (t) => {
  const { writer } = writerInto()
  await writer.write([Buffer.from('abc')], 0)
  await t.rejects(writer.write([Buffer.from('x')], 1), { code: 'unsupported' })
  await writer.write([Buffer.from('xyz')], 10)
  await writer.write([Buffer.from('xyz')], 11)
  await t.rejects(writer.write([Buffer.alloc(9 * 1024 * 1024)], 100), { code: 'unsupported' })
  await t.rejects(writer.truncate(1), { code: 'unsupported' })
  await t.rejects(writer.truncate(13), { code: 'unsupported' }, 'buffered bytes count')
  await t.rejects(writer.read(), { code: 'unsupported' })
  await t.rejects(writer.commit(), { code: 'unsupported' })
  await writer.close()
})

void t.test('closing a StreamWriter without a commit stores nothing and aborts the backend', async (t) => {
  let asked = 0
  const { writer, stored } = writerInto({
    beforePublish: async () => {
      asked++
    },
  })
  await writer.write([Buffer.from('abc')], 0)
  await writer.close()
  t.ok(stored.options?.signal?.aborted)
  t.equal(stored.content, undefined)
  t.equal(asked, 0)
  await t.rejects(writer.write([Buffer.from('d')], 3), { code: 'invalid' })
  await t.rejects(writer.commit(), { code: 'invalid' })
  await writer.close()
})

void t.test('StreamWriter.close() waits for a commit in progress', async (t) => {
  let publish: () => void = () => undefined
  const { writer, stored } = writerInto({ beforePublish: () => new Promise((resolve) => (publish = resolve)) })
  await writer.write([Buffer.from('abc')], 0)
  const committed = writer.commit()
  let closed = false
  const closing = writer.close().then(() => (closed = true))
  for (let i = 0; i < 10; i++) await turn()
  t.equal(closed, false)
  publish()
  t.equal((await committed).size, 3)
  await closing
  t.equal(stored.content?.toString(), 'abc')
})

void t.test(
  'StreamWriter: a backend that fails before it reads the body fails the writes and the commit only',
  async (t) => {
    const { writer } = writerInto({}, async () => {
      throw new GatewayError('parent_missing')
    })
    await turn()
    await t.rejects(writer.write([Buffer.from('abc')], 0), { code: 'parent_missing' })
    await t.rejects(writer.commit(), { code: 'parent_missing' })
    await writer.close()
  },
)

void t.test('StreamWriter: a failure of the backend ends a write that waits for buffer space', async (t) => {
  let fail: (error: Error) => void = () => undefined
  const { writer } = writerInto({}, () => new Promise((_resolve, reject) => (fail = reject)))
  const waiting = writer.write([Buffer.alloc(3 * 1024 * 1024)], 0)
  await turn()
  fail(new GatewayError('no_space'))
  await t.rejects(waiting, { code: 'no_space' })
  await t.rejects(writer.commit(), { code: 'no_space' })
})

void t.test('StreamWriter: a backend may store a file without reading the body', async (t) => {
  const { writer } = writerInto({}, async () => entryOf(3 * 1024 * 1024))
  await writer.write([Buffer.alloc(3 * 1024 * 1024)], 0)
  t.equal((await writer.commit()).size, 3 * 1024 * 1024)
})

void t.test('StreamWriter: a rejection of beforePublish fails the commit', async (t) => {
  const { writer, stored } = writerInto({
    beforePublish: async () => {
      throw new GatewayError('locked')
    },
  })
  await writer.write([Buffer.from('abc')], 0)
  await t.rejects(writer.commit(), { code: 'locked' })
  t.equal(stored.content, undefined)
  await writer.close()
})

void t.test(
  'StreamWriter passes the signal of the session to the backend, and removes its listener at the end',
  async (t) => {
    const session = new AbortController()
    const { writer, stored } = writerInto({ signal: session.signal })
    await writer.write([Buffer.from('abc')], 0)
    t.equal(getEventListeners(session.signal, 'abort').length, 1)
    await writer.commit()
    t.equal(getEventListeners(session.signal, 'abort').length, 0)
    const { writer: cut, stored: options } = writerInto({ signal: session.signal })
    session.abort()
    t.ok(options.options?.signal?.aborted)
    t.notOk(stored.options?.signal?.aborted)
    await cut.close()
  },
)

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
