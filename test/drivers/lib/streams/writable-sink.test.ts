/** WritableSink: the buffered bytes are limited, and a failure of the stream differs from a failure of the body. */
import { Writable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { pump } from '../../../../drivers/lib/streams/pump.js'
import { WritableSink } from '../../../../drivers/lib/streams/writable-sink.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { chunks, endless, given, refuses } from '../../../driver-conformance/subject.js'

await t.test('WritableSink writes all bytes in order to a slow stream, with few of them buffered', async (t) => {
  const kilobytes = 64
  const found: Buffer[] = []
  let most = 0
  const into: Writable = new Writable({
    write(chunk: Buffer, _encoding, done) {
      most = Math.max(most, into.writableLength)
      found.push(chunk)
      setImmediate(done)
    },
  })
  const outlet = new WritableSink(into)
  const chunk = Buffer.from(Array.from({ length: kilobytes * 1024 }, (_, index) => index % 251))
  t.equal(await pump(chunks(40, chunk), outlet, undefined), 40 * chunk.length)
  await outlet.finish()
  t.ok(Buffer.concat(found).equals(Buffer.concat(Array<Buffer>(40).fill(chunk))))
  t.ok(most <= (512 + kilobytes) * 1024, `${most} bytes`)
  t.ok(most > kilobytes * 1024, 'the body does not wait for every chunk')
  t.equal(outlet.isBroken, false)
})

await t.test('WritableSink frees a transferred chunk only after the stream has written it', async (t) => {
  const size = 64 * 1024
  let take: (error?: Error) => void = () => undefined
  const into = new Writable({ write: (_chunk, _encoding, done) => (take = done) })
  const outlet = new WritableSink(into)
  const { source, chunks: mine } = given(3, size)
  const lengths = () => mine.map(({ length }) => length)
  await pump(source, outlet, undefined)
  t.same(lengths(), [size, size, size])
  take()
  await turn()
  t.same(lengths(), [0, size, size])
  const broken = t.rejects(outlet.failed, { message: 'gone' })
  take(new Error('gone'))
  await broken
  await turn()
  t.same(lengths(), [0, size, size], 'chunks of a failed write may still be in use')
})

await t.test('WritableSink: a stream that fails ends the body, even a stalled one', async (t) => {
  for (const [failure, code] of [
    [new GatewayError('no_space'), 'no_space'],
    [undefined, 'ERR_STREAM_PREMATURE_CLOSE'],
  ] as const) {
    const { source, body, begun } = endless()
    const into = new Writable({ write: (_chunk, _encoding, done) => done() })
    const outlet = new WritableSink(into)
    const flowing = pump(source, outlet, undefined)
    flowing.catch(() => undefined)
    await begun
    into.destroy(failure)
    await t.rejects(flowing, { code })
    t.ok(outlet.isBroken)
    t.ok(body.destroyed)
  }
  const gone = new Writable({ write: () => undefined }).destroy()
  await t.rejects(pump(endless().source, new WritableSink(gone), undefined), { code: 'ERR_STREAM_PREMATURE_CLOSE' })
})

await t.test('WritableSink.finish() rejects if the stream is destroyed before it has written everything', async (t) => {
  const into = new Writable({ write: () => undefined })
  const outlet = new WritableSink(into)
  await pump(chunks(1, Buffer.from('the last')), outlet, undefined)
  const finished = outlet.finish()
  finished.catch(() => undefined)
  into.destroy()
  await t.rejects(finished, { code: 'ERR_STREAM_PREMATURE_CLOSE' })
})

await t.test('WritableSink: a failing body leaves the stream open', async (t) => {
  const { source, body, begun } = endless()
  const outlet = new WritableSink(new Writable({ write: (_chunk, _encoding, done) => done() }))
  const flowing = pump(source, outlet, undefined)
  flowing.catch(() => undefined)
  await begun
  body.destroy(new GatewayError('timeout'))
  await refuses(t, () => flowing, 'timeout', 'the body')
  t.equal(outlet.isBroken, false)
})
