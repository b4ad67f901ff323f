/**
 * Pipelined reads and writes: complete or an error, with a bounded number of requests, none of them pending at the end.
 */
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import {
  createReadStream,
  readPieces,
  writeAll,
  writeBuffers,
  type PipelinedFile,
} from '../../../../drivers/lib/streams/pipelined-io.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { chunks, endless, given, refuses, source } from '../../../driver-conformance/subject.js'

/** A file in memory with pieces of ten bytes and three concurrent requests. */
class Subject implements PipelinedFile {
  readonly pieceSize = 10
  readonly maxInFlight = 3
  now = 0
  most = 0
  /** The position whose write fails. */
  refused: number | undefined

  constructor(public content: Buffer) {}

  async read(position: number, length: number): Promise<Buffer> {
    await this.#turn()
    return Buffer.from(this.content.subarray(position, position + length))
  }

  async write(position: number, piece: readonly Buffer[]): Promise<void> {
    await this.#turn()
    const bytes = Buffer.concat(piece)
    if (position === this.refused) throw new GatewayError('no_space')
    const size = Math.max(this.content.length, position + bytes.length)
    this.content = Buffer.concat([this.content, Buffer.alloc(size - this.content.length)])
    bytes.copy(this.content, position)
  }

  async #turn(): Promise<void> {
    this.most = Math.max(this.most, ++this.now)
    await new Promise((resolve) => setImmediate(resolve))
    this.now--
  }
}

const text = Buffer.from(Array.from({ length: 95 }, (_, index) => 33 + (index % 90)))
const onEnd = async () => undefined
const options = { size: text.length, signal: undefined, onEnd }

await t.test('createReadStream() returns the bytes of every range', async (t) => {
  const file = new Subject(text)
  for (const [offset, length] of [[0], [0, 95], [0, 10], [7, 30], [90], [94, 1], [95], [200, 5], [3, 0]] as const) {
    const found = await buffer(createReadStream(file, { offset, length }, options))
    t.ok(found.equals(text.subarray(offset, length === undefined ? undefined : offset + length)), `${offset} ${length}`)
  }
  t.equal(file.most, 3)
})

await t.test(
  'readPieces() fills a buffer up to the end of the file, and settles when no request is pending',
  async (t) => {
    const file = new Subject(text)
    const into = Buffer.alloc(200)
    const fill = async (piece: Buffer, start: number) => (await file.read(start, piece.length)).copy(piece)
    for (const length of [0, 1, 10, 94, 95, 96, 105, 200]) {
      t.equal(await readPieces(into.subarray(0, length), 10, fill), Math.min(length, 95))
      t.ok(into.subarray(0, 95).equals(Buffer.concat([text.subarray(0, length), into.subarray(length, 95)])))
      into.fill(0)
    }
    const failing = readPieces(into, 10, (piece, start) =>
      start === 0 ? Promise.reject(new GatewayError('unavailable')) : fill(piece, start),
    )
    await refuses(t, () => failing, 'unavailable', 'the first piece')
    t.equal(file.now, 0)
  },
)

await t.test('createReadStream() fails on a file that has become shorter', async (t) => {
  for (const size of [0, 1, 45, 80, 90, 94]) {
    const file = new Subject(text.subarray(0, size))
    await refuses(t, () => buffer(createReadStream(file, { offset: 0 }, options)), 'unavailable', `${size} of 95 bytes`)
  }
})

await t.test('createReadStream() closes its file when the stream is aborted', async (t) => {
  const controller = new AbortController()
  let ends = 0
  const counted = async () => {
    ends++
  }
  const stream = createReadStream(
    new Subject(text),
    { offset: 0 },
    { ...options, signal: controller.signal, onEnd: counted },
  )
  const ended = buffer(stream)
  controller.abort()
  await refuses(t, () => ended, 'aborted', 'the stream')
  t.ok(ends > 0)
})

await t.test('writeAll() and writeBuffers() write chunks of any size unchanged', async (t) => {
  for (const size of [1, 7, 10, 33, 500]) {
    const body = chunks(9, Buffer.alloc(size, 'abcdefg'))
    for (const announced of [body.size, undefined]) {
      const file = new Subject(Buffer.alloc(0))
      await writeAll({ ...body, size: announced }, file, undefined)
      t.ok(file.content.equals(Buffer.alloc(9 * size, Buffer.alloc(size, 'abcdefg'))), `${size} bytes`)
      t.ok(file.most <= 3)
    }
  }
  const file = new Subject(Buffer.from(text))
  await writeBuffers(file, [Buffer.from('one'), Buffer.from('and two, and three')], 5)
  const expected = Buffer.concat([text.subarray(0, 5), Buffer.from('oneand two, and three'), text.subarray(26)])
  t.ok(file.content.equals(expected))
})

await t.test('writeAll() frees the memory of transferred chunks at once', async (t) => {
  const [count, size] = [2000, 64 * 1024]
  const { source: body, chunks: mine } = given(count, size)
  const pieces = new Set<Buffer>()
  let [right, most] = [0, 0]
  const before = process.memoryUsage().arrayBuffers
  const file: PipelinedFile = {
    pieceSize: size,
    maxInFlight: 3,
    read: () => Promise.reject(new GatewayError('unsupported')),
    write: async (position, [piece]) => {
      const expected = (position / size + 1) % 256
      if (piece?.[0] === expected && piece.at(-1) === expected) right += piece.length
      if (piece) pieces.add(piece)
      most = Math.max(most, process.memoryUsage().arrayBuffers - before)
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
  await writeAll(body, file, undefined)
  t.equal(right, count * size)
  t.ok(
    mine.every(({ length }) => length === 0),
    'all chunks are freed',
  )
  t.same(
    [...pieces].filter(({ length }) => length > 0),
    [],
    'the buffers that gathered them are freed',
  )
  t.ok(pieces.size <= 5)
  t.ok(most < 16 * size, `${most} bytes of ${count * size}`)
})

await t.test(
  'writeAll() and writeBuffers() reject after a failed write, a wrong length or an abort, with no request pending',
  async (t) => {
    for (const refused of [0, 20, 90]) {
      const file = new Subject(Buffer.alloc(0))
      file.refused = refused
      await refuses(t, () => writeAll(source(text), file, undefined), 'no_space', `at ${refused}`)
      t.equal(file.now, 0)
      await refuses(t, () => writeBuffers(file, [text], 0), 'no_space', `of a handle, at ${refused}`)
      t.equal(file.now, 0)
    }
    for (const size of [94, 96]) {
      const file = new Subject(Buffer.alloc(0))
      await refuses(t, () => writeAll({ ...source(text), size }, file, undefined), 'invalid', `${size} bytes`)
    }
    const { source: body, begun } = endless()
    const controller = new AbortController()
    const file = new Subject(Buffer.alloc(0))
    const writing = writeAll(body, file, controller.signal)
    writing.catch(() => undefined)
    await begun
    controller.abort()
    await t.rejects(writing)
    t.equal(file.now, 0)
  },
)

await t.test('writeAll() rejects after a failed write even if the body stalls', async (t) => {
  const { source: body } = endless()
  const file = new Subject(Buffer.alloc(0))
  file.refused = 99_990
  await refuses(t, () => writeAll(body, file, undefined), 'no_space', 'the last piece received so far')
})
