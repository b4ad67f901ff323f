import { randomBytes } from 'node:crypto'
import { getEventListeners } from 'node:events'
import { readdir } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import t, { type TAP } from 'tap'
import type { ByteRange, Source, WriteOptions } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/contract/errors.js'
import { SpooledFile, StreamReader, StreamWriter } from '../../src/storage/handles.js'
import { Spool } from '../../src/storage/spool.js'

const entryOf = (size: number): Entry => ({ name: 'x', kind: 'file', size, modified: new Date(0) })

/** A reader over `content` in pieces, with what it asked for. */
function readerOf(content: Buffer, piece = 1000, failsAt?: number, idleLimit?: number) {
  const asked: [from: number, to: number][] = []
  const streams: Readable[] = []
  let fails = failsAt
  const open = async ({ offset, length = content.length - offset }: ByteRange) => {
    const end = offset + length
    asked.push([offset, end])
    function* pieces() {
      for (let at = offset; at < end; at += piece) {
        if (fails !== undefined && at >= fails) {
          fails = undefined
          throw new GatewayError('unavailable')
        }
        yield content.subarray(at, Math.min(at + piece, end))
      }
    }
    const stream = Readable.from(pieces(), { objectMode: false })
    streams.push(stream)
    return stream
  }
  const reader = new StreamReader(entryOf(content.length), open, true, idleLimit)
  return { reader, asked, streams }
}

async function readAt(reader: StreamReader | SpooledFile, position: number, length: number): Promise<Buffer> {
  const into = Buffer.alloc(length)
  return into.subarray(0, await reader.read(into, position))
}

void t.test('a read that follows no other asks for its own bytes alone, and leaves no stream open', async (t) => {
  const content = randomBytes(3_000_000)
  const { reader, asked, streams } = readerOf(content, 10_000)
  for (const position of [2_999_978, 2_900_000, 0, 1_000_000]) {
    t.ok((await readAt(reader, position, 22)).equals(content.subarray(position, position + 22)))
  }
  t.same(asked, [
    [2_999_978, 3_000_000],
    [2_900_000, 2_900_022],
    [0, 22],
    [1_000_000, 1_000_022],
  ])
  t.ok(streams.every((stream) => stream.closed && stream.readableEnded))
  await reader.close()
})

void t.test('reads in sequence come in few streams, and ask for a few times what was read at most', async (t) => {
  const content = randomBytes(32 * 1024 * 1024)
  const { reader, asked } = readerOf(content, 64 * 1024)
  const size = 32 * 1024
  for (let position = 0; position < content.length; position += size) {
    const read = await readAt(reader, position, size)
    if (!read.equals(content.subarray(position, position + size))) t.fail(`other bytes at ${position}`)
    const [, end = 0] = asked.at(-1) ?? []
    if (end > 5 * (position + size)) t.fail(`asked for ${end} bytes when ${position + size} were read`)
  }
  t.ok(asked.length <= 7, `${asked.length} streams for 1,024 reads`)
  t.ok(
    asked.every(([from], index) => from === (asked[index - 1]?.[1] ?? 0)),
    'each byte is asked for once',
  )
  await reader.close()
})

void t.test('a read a little ahead within a stream skips, one far ahead or back asks for its own bytes', async (t) => {
  const content = randomBytes(9_000_000)
  const { reader, asked } = readerOf(content, 10_000)
  await readAt(reader, 0, 1_000_000)
  await readAt(reader, 1_000_000, 1000)
  asked.length = 0
  t.ok((await readAt(reader, 1_500_000, 10)).equals(content.subarray(1_500_000, 1_500_010)), 'a little ahead')
  t.same(asked, [])
  t.ok((await readAt(reader, 3_500_000, 10)).equals(content.subarray(3_500_000, 3_500_010)), 'far ahead')
  t.ok((await readAt(reader, 5, 10)).equals(content.subarray(5, 15)), 'back')
  t.same(asked, [
    [3_500_000, 3_500_010],
    [5, 15],
  ])
  await reader.close()
})

void t.test('a read over the end of a stream goes on with the next one', async (t) => {
  const content = randomBytes(100_000)
  const { reader, asked } = readerOf(content)
  await readAt(reader, 0, 1000)
  await readAt(reader, 1000, 1000)
  t.ok((await readAt(reader, 4000, 5000)).equals(content.subarray(4000, 9000)))
  t.same(asked, [
    [0, 1000],
    [1000, 5000],
    [5000, 9000],
  ])
  await reader.close()
})

void t.test('where parts cost all that lies before them, one stream goes to the end of the file', async (t) => {
  const content = randomBytes(100_000)
  const asked: unknown[] = []
  const reader = new StreamReader(
    entryOf(content.length),
    async (range) => {
      asked.push(range)
      return Readable.from([content.subarray(range.offset)], { objectMode: false })
    },
    false,
  )
  for (const position of [10, 1010, 50_000]) {
    t.ok((await readAt(reader, position, 1000)).equals(content.subarray(position, position + 1000)))
  }
  t.same(asked, [{ offset: 10, length: 99_990 }])
  await reader.close()
})

void t.test('a file that has shrunk ends early, one that has grown is read as far as was asked', async (t) => {
  for (const [size, told] of [
    [500, 1000],
    [1500, 1000],
  ] as const) {
    const content = randomBytes(size)
    const asked: unknown[] = []
    const reader = new StreamReader(entryOf(told), async (range) => {
      asked.push(range)
      return Readable.from([content.subarray(range.offset)], { objectMode: false })
    })
    t.ok((await readAt(reader, 0, 2000)).equals(content))
    t.equal((await readAt(reader, size, 10)).length, 0)
    t.same(asked, [{ offset: 0, length: 2000 }])
    await reader.close()
  }
})

void t.test('a stream that nobody reads from is ended after a while, and reading goes on where it was', async (t) => {
  const content = randomBytes(100_000)
  const { reader, asked, streams } = readerOf(content, 1000, undefined, 20)
  await readAt(reader, 0, 1000)
  await readAt(reader, 1000, 1000)
  const [, stream] = streams
  t.notOk(stream?.destroyed)
  while (stream?.destroyed === false) await sleep(5)
  t.ok((await readAt(reader, 2000, 1000)).equals(content.subarray(2000, 3000)))
  t.same(asked.slice(2), [[2000, 10_000]])
  await reader.close()
})

void t.test('pipelined reads are served in turn, whole, and short only at the end', async (t) => {
  const content = randomBytes(100_000)
  const { reader, asked } = readerOf(content, 777)
  const positions = Array.from({ length: 13 }, (_, index) => index * 8192)
  const parts = await Promise.all(positions.map((position) => readAt(reader, position, 8192)))
  t.ok(Buffer.concat(parts).equals(content))
  t.same(asked, [
    [0, 8192],
    [8192, 40_960],
    [40_960, 100_000],
  ])
  t.equal((await readAt(reader, content.length, 10)).length, 0)
  t.equal((await readAt(reader, content.length + 5_000_000, 10)).length, 0)
  t.equal((await readAt(reader, 0, 0)).length, 0)
  await reader.close()
})

void t.test('after a stream that failed, the next read opens another one: it is not the end of the file', async (t) => {
  const content = randomBytes(10_000)
  const { reader, asked } = readerOf(content, 1000, 5000)
  await t.rejects(readAt(reader, 0, 10_000), { code: 'unavailable' })
  t.ok((await readAt(reader, 3000, 7000)).equals(content.subarray(3000)))
  t.same(asked, [
    [0, 10_000],
    [3000, 10_000],
  ])
  await reader.close()
})

void t.test('a stream that comes after the handle was closed is ended', async (t) => {
  let arrive: (stream: Readable) => void = () => undefined
  const reader = new StreamReader(entryOf(10), () => new Promise((resolve) => (arrive = resolve)))
  const reading = readAt(reader, 0, 10)
  await turn()
  await reader.close()
  const stream = Readable.from([Buffer.alloc(10)], { objectMode: false })
  arrive(stream)
  await t.rejects(reading, { code: 'invalid' })
  t.ok(stream.destroyed)
  await t.rejects(readAt(reader, 0, 10), { code: 'invalid' })
})

void t.test('closing a reader ends its stream', async (t) => {
  const { reader, streams } = readerOf(randomBytes(10_000))
  await readAt(reader, 0, 10)
  await readAt(reader, 10, 10)
  t.notOk(streams.at(-1)?.destroyed)
  await reader.close()
  t.ok(streams.every((stream) => stream.destroyed))
})

/** A writer into memory: stores like a backend that stages. */
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

void t.test('bytes in order, and a little out of order, become the file at commit', async (t) => {
  const { writer, stored } = writerInto()
  await writer.write([Buffer.from('ab'), Buffer.from('cd')], 0)
  await writer.write([Buffer.from('gh')], 6)
  await writer.write([Buffer.from('')], 4)
  await writer.write([Buffer.from('ef')], 4)
  t.equal(stored.content, undefined, 'nothing is there before')
  const modified = new Date(5000)
  t.match(await writer.commit({ modified }), { size: 8, modified })
  t.equal(stored.content?.toString(), 'abcdefgh')
  t.equal((await writer.commit()).size, 8, 'a second commit tells the same')
  await writer.close()
})

void t.test("a writer's buffers belong to the caller again when a write settled", async (t) => {
  const { writer, stored } = writerInto()
  const reused = Buffer.from('one')
  await writer.write([reused], 3)
  reused.write('two')
  await writer.write([reused], 0)
  reused.write('xxx')
  await writer.commit()
  t.equal(stored.content?.toString(), 'twoone')
})

void t.test('many pipelined writes wait for room together, without a warning', async (t) => {
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

void t.test('a new file that is written with gaps, or given a size, has zeros where nothing was written', async (t) => {
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

void t.test('one request does not make zeros without end', async (t) => {
  const { writer, stored } = writerInto()
  await writer.truncate(2 ** 50)
  await t.rejects(writer.commit(), { code: 'unsupported', reason: /a gap must not exceed 67108864 bytes/ })
  await writer.close()
  t.equal(stored.content, undefined)
})

void t.test('many tiny writes out of order are bounded by the memory that they take', async (t) => {
  const { writer } = writerInto()
  const write = async () => {
    for (let at = 1; at < 100_000; at++) await writer.write([Buffer.from('x')], 2 * at)
  }
  await t.rejects(write(), { code: 'unsupported' })
  await t.rejects(writer.truncate(10), { code: 'unsupported' }, 'a size below what was written')
  await writer.close()
})

void t.test('a write that jumps back, overlaps, or holds back too much is refused clearly', async (t) => {
  const { writer } = writerInto()
  await writer.write([Buffer.from('abc')], 0)
  await t.rejects(writer.write([Buffer.from('x')], 1), { code: 'unsupported' })
  await writer.write([Buffer.from('xyz')], 10)
  await writer.write([Buffer.from('xyz')], 11)
  await t.rejects(writer.write([Buffer.alloc(9 * 1024 * 1024)], 100), { code: 'unsupported' })
  await t.rejects(writer.truncate(1), { code: 'unsupported' })
  await t.rejects(writer.truncate(13), { code: 'unsupported' }, 'what is held back counts')
  await t.rejects(writer.read(), { code: 'unsupported' })
  await t.rejects(writer.commit(), { code: 'unsupported' })
  await writer.close()
})

void t.test('a writer closed without a commit publishes nothing and lets the backend go', async (t) => {
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

void t.test('closing waits for a commit that is under way', async (t) => {
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
  'a backend that fails before it reads the body fails the writes and the commit, and nothing else',
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

void t.test('a backend that fails while a write waits for room ends the wait', async (t) => {
  let fail: (error: Error) => void = () => undefined
  const { writer } = writerInto({}, () => new Promise((_resolve, reject) => (fail = reject)))
  const waiting = writer.write([Buffer.alloc(3 * 1024 * 1024)], 0)
  await turn()
  fail(new GatewayError('no_space'))
  await t.rejects(waiting, { code: 'no_space' })
  await t.rejects(writer.commit(), { code: 'no_space' })
})

void t.test('a backend that has the bytes already need not read them', async (t) => {
  const { writer } = writerInto({}, async () => entryOf(3 * 1024 * 1024))
  await writer.write([Buffer.alloc(3 * 1024 * 1024)], 0)
  t.equal((await writer.commit()).size, 3 * 1024 * 1024)
})

void t.test('a publication that is refused fails the commit', async (t) => {
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

void t.test('a writer passes the signal of its session on, and lets go of it in the end', async (t) => {
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
})

const sourceOf = (content: Buffer): Source => ({
  size: content.length,
  rereadable: true,
  read: async () => Readable.from([content], { objectMode: false }),
})

async function spoolOf(t: Pick<TAP, 'testdir'>): Promise<Spool> {
  return Spool.open(t.testdir())
}

void t.test('a spooled file is read and changed at any position and written back by commit', async (t) => {
  const spool = await spoolOf(t)
  const written: { content?: string; modified?: Date | undefined } = {}
  const file = await SpooledFile.open(
    spool,
    entryOf(10),
    sourceOf(Buffer.from('0123456789')),
    async (source, attributes) => {
      written.content = (await buffer(await source.read())).toString()
      t.equal((await buffer(await source.read({ offset: 2, length: 3 }))).toString(), '2XY', 'it can be read again')
      t.equal((await buffer(await source.read({ offset: 2, length: 0 }))).length, 0)
      written.modified = attributes.modified
      return entryOf(source.size ?? 0)
    },
  )
  await file.write([Buffer.from('X'), Buffer.from('Y')], 3)
  await file.write([Buffer.from('end')], 12)
  t.equal((await readAt(file, 0, 100)).toString('latin1'), '012XY56789\0\0end')
  await file.truncate(8)
  t.equal((await file.commit({ modified: new Date(1) })).size, 8)
  t.same(written, { content: '012XY567', modified: new Date(1) })
  await file.close()
  t.same(await readdir(spool.folder), [], 'nothing is left')
})

void t.test('a spooled file that is closed changes nothing and leaves nothing, twice too', async (t) => {
  const spool = await spoolOf(t)
  const file = await SpooledFile.open(spool, entryOf(0), undefined, () => Promise.reject(new Error('written back')))
  await file.write([Buffer.from('abc')], 0)
  await file.close()
  await file.close()
  t.same(await readdir(spool.folder), [])
})

void t.test('handles and uploads share one budget of the spool', async (t) => {
  const spool = await Spool.open(t.testdir(), { limit: () => 10 })
  const stored = async () => entryOf(0)
  const file = await SpooledFile.open(spool, entryOf(4), sourceOf(Buffer.alloc(4)), stored)
  await file.write([Buffer.alloc(2), Buffer.alloc(1)], 4)
  await file.write([Buffer.alloc(7)], 0)
  const full = { code: 'no_space', message: /spool_size_limit/ }
  await t.rejects(file.write([Buffer.alloc(1)], 10), full, 'a gap counts too')
  await t.rejects(file.truncate(11), full)
  t.equal((await buffer(await (await spool.receive(sourceOf(Buffer.alloc(3)))).read())).length, 3)
  await t.rejects(spool.receive(sourceOf(Buffer.alloc(1))), full)
  await t.rejects(file.write([Buffer.alloc(1)], 7), full)
  await file.truncate(2)
  const other = await SpooledFile.open(spool, entryOf(0), undefined, stored)
  await other.write([Buffer.alloc(5)], 0)
  await t.rejects(other.write([Buffer.alloc(1)], 5), full)
  await file.close()
  await other.write([Buffer.alloc(2)], 5)
  await other.close()
  const last = await spool.receive(sourceOf(Buffer.alloc(7)))
  t.equal(last.size, 7, 'what was closed counts no more')
})

void t.test('closing a spooled file keeps its bytes until they are written back', async (t) => {
  const spool = await spoolOf(t)
  let go: () => void = () => undefined
  const file = await SpooledFile.open(spool, entryOf(0), undefined, async (source) => {
    await new Promise<void>((resolve) => (go = resolve))
    return entryOf((await buffer(await source.read())).length)
  })
  await file.write([Buffer.from('abc')], 0)
  const committed = file.commit()
  while (go.length === 0) await turn()
  for (let i = 0; i < 20; i++) await turn()
  const closing = file.close()
  await turn()
  go()
  t.equal((await committed).size, 3)
  await closing
})

void t.test('a source that fails on its way to the spool leaves nothing there', async (t) => {
  const spool = await spoolOf(t)
  const failing: Source = {
    rereadable: false,
    read: async () =>
      Readable.from(
        (function* () {
          yield Buffer.alloc(10)
          throw new GatewayError('unavailable')
        })(),
      ),
  }
  await t.rejects(spool.receive(failing), { code: 'unavailable' })
  await t.rejects(spool.receive({ ...sourceOf(Buffer.alloc(3)), size: 4 }), { code: 'invalid' })
  await t.rejects(spool.receive(sourceOf(Buffer.alloc(3)), AbortSignal.abort()), { name: 'AbortError' })
  t.same(await readdir(spool.folder), [])
})

void t.test('a spool gives back what it received, with what was known of it', async (t) => {
  const spool = await spoolOf(t)
  const modified = new Date(7)
  const content = randomBytes(3_000_000)
  const spooled = await spool.receive({
    ...sourceOf(content),
    size: undefined,
    rereadable: false,
    modified,
    hashes: { md5: 'x' },
  })
  t.match(spooled, { size: content.length, modified, hashes: { md5: 'x' }, rereadable: true })
  t.ok((await buffer(await spooled.read())).equals(content))
  t.ok((await buffer(await spooled.read({ offset: 2_999_990 }))).equals(content.subarray(2_999_990)))
  await spooled.dispose()
  t.same(await readdir(spool.folder), [])
})

void t.test('opening a spool sweeps what an earlier process left', async (t) => {
  const folder = t.testdir({ left: 'over', sub: { x: '' } })
  await Spool.open(folder)
  t.same(await readdir(folder), [])
})
