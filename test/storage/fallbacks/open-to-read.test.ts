/** Reads at any position from a backend that only streams: which ranges are requested, and when streams are ended. */
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import type { ByteRange } from '../../../src/contract/call-options.js'
import { GatewayError } from '../../../src/base/errors.js'
import { asPath } from '../../../src/base/path.js'
import { StreamReader } from '../../../src/storage/fallbacks/open-to-read.js'
import { bare, newStorage, sourceOf, type Over } from '../../tree/tree-fixture.js'
import { entryOf, readAt } from '../open-file.js'

const x = asPath('/x')
const root = asPath('/')

/** A reader of `content` in pieces, with the ranges that it requested. */
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

void t.test('StreamReader: a single read requests only its own bytes, and leaves no stream open', async (t) => {
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

void t.test(
  'StreamReader: sequential reads need few streams, and request a bounded multiple of the bytes read',
  async (t) => {
    const content = randomBytes(32 * 1024 * 1024)
    const { reader, asked } = readerOf(content, 64 * 1024)
    const size = 32 * 1024
    for (let position = 0; position < content.length; position += size) {
      const read = await readAt(reader, position, size)
      if (!read.equals(content.subarray(position, position + size))) t.fail(`wrong bytes at ${position}`)
      const [, end = 0] = asked.at(-1) ?? []
      if (end > 5 * (position + size)) t.fail(`requested up to ${end} when ${position + size} were read`)
    }
    t.ok(asked.length <= 7, `${asked.length} streams for 1,024 reads`)
    t.ok(
      asked.every(([from], index) => from === (asked[index - 1]?.[1] ?? 0)),
      'each byte is requested once',
    )
    await reader.close()
  },
)

void t.test(
  'StreamReader: a read a little ahead skips within the stream; one far ahead or back requests its own bytes',
  async (t) => {
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
  },
)

void t.test('StreamReader: a read across the end of a stream continues with the next one', async (t) => {
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

void t.test('StreamReader: if the backend has no ranges, one stream reads to the end of the file', async (t) => {
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

void t.test('StreamReader: a file that has grown is read as far as requested', async (t) => {
  const content = randomBytes(1500)
  const asked: unknown[] = []
  const reader = new StreamReader(entryOf(1000), async (range) => {
    asked.push(range)
    return Readable.from([content.subarray(range.offset)], { objectMode: false })
  })
  t.ok((await readAt(reader, 0, 2000)).equals(content))
  t.equal((await readAt(reader, 1500, 10)).length, 0)
  t.same(asked, [{ offset: 0, length: 2000 }])
  await reader.close()
})

void t.test('StreamReader: a stream that ends too early is an error, not the end of the file', async (t) => {
  const content = randomBytes(1000)
  let sent = 500
  const reader = new StreamReader(entryOf(1000), async ({ offset, length = 0 }) =>
    Readable.from([content.subarray(offset, Math.min(sent, offset + length))], { objectMode: false }),
  )
  for (const [position, length] of [
    [0, 2000],
    [400, 200],
    [600, 10],
  ] as const) {
    await t.rejects(readAt(reader, position, length), { code: 'unavailable', reason: /only a part/ })
  }
  t.ok((await readAt(reader, 0, 500)).equals(content.subarray(0, 500)))
  sent = 1000
  t.ok((await readAt(reader, 500, 2000)).equals(content.subarray(500)))
  await reader.close()
})

void t.test('StreamReader: an idle stream is ended after a while, and reading continues at its position', async (t) => {
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

void t.test(
  'StreamReader: pipelined reads are answered in order, and completely except at the end of the file',
  async (t) => {
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
  },
)

void t.test('StreamReader: after a stream failed, the next read opens another one', async (t) => {
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

void t.test('StreamReader: a stream that opens after close() is destroyed', async (t) => {
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

void t.test('StreamReader.close() destroys the stream', async (t) => {
  const { reader, streams } = readerOf(randomBytes(10_000))
  await readAt(reader, 0, 10)
  await readAt(reader, 10, 10)
  t.notOk(streams.at(-1)?.destroyed)
  await reader.close()
  t.ok(streams.every((stream) => stream.destroyed))
})

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
