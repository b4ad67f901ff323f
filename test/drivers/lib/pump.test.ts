/** Bodies as they pass: every chunk as it came, at the pace of whoever takes them, and each end told for what it is. */
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { pump, type Sink } from '../../../drivers/lib/pump.js'
import type { Source } from '../../../src/contract/call-options.js'
import { GatewayError } from '../../../src/contract/errors.js'
import { chunks, endless, given, refuses, source } from '../../conformance/subject.js'

/** Keeps what it takes; takes one chunk at a time. */
class Taken implements Sink {
  readonly chunks: Buffer[] = []
  #isBusy = false

  write(chunk: Buffer): Promise<void> {
    if (this.#isBusy) throw new Error('more came before there was room')
    this.chunks.push(chunk)
    this.#isBusy = true
    return turn().then(() => void (this.#isBusy = false))
  }
}

const of = (body: Readable, size?: number): Source => ({ size, rereadable: false, read: async () => body })

await t.test('chunks come one by one as they are, however many wait', async (t) => {
  const taken = new Taken()
  const body = new Readable({ read: () => undefined })
  for (const text of ['one', 'and two', 'three']) body.push(text)
  body.push(null)
  t.equal(await pump(of(body), taken, undefined), 15)
  t.same(taken.chunks.map(String), ['one', 'and two', 'three'])
  t.equal(await pump(of(Readable.from(['a text', 'ä'])), new Taken(), undefined), 8, 'texts are bytes')
  t.equal(await pump(source(''), new Taken(), undefined), 0)
})

await t.test('chunks that a body gives away are freed when they are used, and no others ever', async (t) => {
  const kibibytes = 64 * 1024
  const unused: (() => void)[] = []
  const intake: Sink = {
    write: (_chunk, used) => {
      unused.push(used)
      return undefined
    },
  }
  const { source: body, chunks: mine } = given(3, kibibytes)
  await pump(body, intake, undefined)
  t.same(
    mine.map(({ length }) => length),
    [kibibytes, kibibytes, kibibytes],
  )
  unused[1]?.()
  t.same(
    mine.map(({ length }) => length),
    [kibibytes, 0, kibibytes],
  )
  const kept = Buffer.allocUnsafeSlow(kibibytes)
  await pump(chunks(2, kept), intake, undefined)
  for (const used of unused) used()
  t.equal(kept.length, kibibytes, 'somebody else looks at it')
})

await t.test('a body that is not as long as announced is invalid, and no byte too many is taken', async (t) => {
  const taken = new Taken()
  await refuses(t, () => pump({ ...chunks(3, Buffer.alloc(10)), size: 25 }, taken, undefined), 'invalid', 'longer')
  t.equal(taken.chunks.length, 2)
  await refuses(t, () => pump(source('four', 5), new Taken(), undefined), 'invalid', 'shorter')
})

await t.test('a body that fails, or ends before its end, says so', async (t) => {
  const failed = new Readable({ read: () => undefined })
  const flowing = pump(of(failed), new Taken(), undefined)
  failed.destroy(new GatewayError('timeout'))
  await refuses(t, () => flowing, 'timeout', 'its own error')
  const { source: cut, body } = endless()
  const ended = pump(cut, new Taken(), undefined)
  body.destroy()
  await refuses(t, () => ended, 'aborted', 'without one')
  const gone = new Readable({ read: () => undefined })
  gone.destroy()
  await refuses(t, () => pump(of(gone), new Taken(), undefined), 'aborted', 'before anybody read it')
})

await t.test('whoever takes no more ends the body, also one that stands still', async (t) => {
  const full = new GatewayError('no_space')
  const refusals: readonly (() => Sink)[] = [
    () => ({ write: () => Promise.reject(full) }),
    () => ({
      write: () => {
        throw full
      },
    }),
    () => ({ write: () => undefined, failed: turn().then(() => Promise.reject(full)) }),
  ]
  for (const refusal of refusals) {
    const { source: standing, body } = endless()
    await refuses(t, () => pump(standing, refusal(), undefined), 'no_space', 'the body')
    t.ok(body.destroyed)
  }
})

await t.test('a signal ends it', async (t) => {
  const { source: standing, body, begun } = endless()
  const controller = new AbortController()
  const flowing = pump(standing, new Taken(), controller.signal)
  flowing.catch(() => undefined)
  await begun
  controller.abort()
  await t.rejects(flowing, { name: 'AbortError' })
  t.ok(body.destroyed)
})
