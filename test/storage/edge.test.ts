/** Streams and handles behind an edge: their bytes, ends and errors, and what they leave behind. */
import { getEventListeners, once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { GatewayError, toGatewayError } from '../../src/base/errors.js'
import { SpeedLimit, unlimited } from '../../src/storage/bandwidth.js'
import { passedFile, PassedStream } from '../../src/storage/edge.js'

const limit = new SpeedLimit(() => 1_000_000)
const failed = (error: unknown) => toGatewayError(error).at('read', '/x')

void t.test('the bytes pass unchanged, in chunks of any size, with and without a limit', async (t) => {
  const chunks = [Buffer.alloc(0), Buffer.alloc(200_000, 'a'), Buffer.alloc(0), Buffer.from('b'), Buffer.alloc(0)]
  for (const edge of [{}, { limit }]) {
    const passed = new PassedStream(Readable.from(chunks), edge)
    t.ok((await buffer(passed)).equals(Buffer.concat(chunks)))
    t.equal((await buffer(new PassedStream(Readable.from([]), edge))).length, 0)
  }
})

void t.test('a stream starts when it is read, and takes no more than was read', async (t) => {
  let taken = 0
  const from = new Readable({ highWaterMark: 0, read: () => from.push(Buffer.alloc(1000, taken++)) })
  const passed = new PassedStream(from)
  await turn()
  t.equal(taken, 0)
  await once(passed, 'readable')
  for (let turns = 0; turns < 10; turns++) await turn()
  t.ok(taken <= 2, `${taken} chunks`)
  passed.destroy()
  t.equal(from.destroyed, true)
})

void t.test('an error and an abort are converted, and no listener is left', async (t) => {
  const { signal } = new AbortController()
  const from = new PassThrough()
  const broken = new PassedStream(from, { failed, signal })
  from.destroy(new GatewayError('unavailable'))
  await t.rejects(buffer(broken), { code: 'unavailable', op: 'read', path: '/x' })
  await buffer(new PassedStream(Readable.from([]), { signal }))
  new PassedStream(new PassThrough(), { signal }).destroy()
  await turn()
  t.same(getEventListeners(signal, 'abort'), [])
  for (const edge of [{}, { limit: new SpeedLimit(() => 1) }]) {
    const session = new AbortController()
    const stopped = new PassedStream(Readable.from([Buffer.alloc(1000)]), { ...edge, failed, signal: session.signal })
    const bytes = buffer(stopped.on('data', () => session.abort()))
    setTimeout(() => session.abort(), 20)
    await t.rejects(bytes, { code: 'aborted', op: 'read', path: '/x' })
  }
})

void t.test('a handle has the methods of its file only, and its end is told', async (t) => {
  const entry = { name: 'x', kind: 'file', size: 3, modified: new Date(0) } as const
  const told: string[] = []
  const edge = { closed: () => told.push('closed'), ended: () => told.push('ended'), failed }
  const file = { entry, read: async () => 3, close: async () => undefined }
  const reading = passedFile(file, edge)
  t.same(Object.keys(reading).sort(), ['close', 'entry', 'read'])
  await reading.close()
  t.same(told.splice(0), ['closed', 'ended'])
  const commit = () => Promise.reject(new GatewayError('no_space'))
  const writing = passedFile({ ...file, write: async () => undefined, commit }, edge)
  await t.rejects(async () => writing.commit?.(), { code: 'no_space', op: 'read' })
  t.same(told, ['ended'], 'a commit can be repeated until the handle is closed')
})

void t.test('a call that its signal aborts has the reason of the signal as its error', async (t) => {
  const entry = { name: 'x', kind: 'file', size: 3, modified: new Date(0) } as const
  const aborted = () => Promise.reject(new GatewayError('aborted'))
  const rejects = (error: GatewayError) => () => Promise.reject(error)
  for (const [reason, read, code] of [
    [new GatewayError('unavailable'), aborted, 'unavailable'],
    [undefined, aborted, 'aborted'],
    [new GatewayError('unavailable'), rejects(new GatewayError('denied')), 'denied'],
  ] as const) {
    const limits = { reading: unlimited, writing: unlimited, signals: [undefined, AbortSignal.abort(reason)] }
    const handle = passedFile({ entry, read, close: async () => undefined }, { limits, failed })
    await t.rejects(handle.read(Buffer.alloc(1), 0), { code, op: 'read' })
  }
})
