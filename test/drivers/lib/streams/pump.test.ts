/** pump() passes chunks unchanged at the pace of the sink, and reports how a body ended. */
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { pump, type Sink } from '../../../../drivers/lib/streams/pump.js'
import type { Source } from '../../../../src/contract/call-options.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { chunks, endless, given, refuses, source } from '../../../driver-conformance/subject.js'

/** Stores chunks. Throws if a chunk arrives while the previous one is being written. */
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

await t.test('pump() passes chunks one by one and unchanged', async (t) => {
  const taken = new Taken()
  const body = new Readable({ read: () => undefined })
  for (const text of ['one', 'and two', 'three']) body.push(text)
  body.push(null)
  t.equal(await pump(of(body), taken, undefined), 15)
  t.same(taken.chunks.map(String), ['one', 'and two', 'three'])
  t.equal(await pump(of(Readable.from(['a text', 'ä'])), new Taken(), undefined), 8, 'strings are counted in bytes')
  t.equal(await pump(source(''), new Taken(), undefined), 0)
})

await t.test('pump() frees a transferred chunk once it is used, and no other chunk', async (t) => {
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
  t.equal(kept.length, kibibytes, 'the caller still owns it')
})

await t.test('pump() rejects a body of the wrong length, and passes no surplus bytes', async (t) => {
  const taken = new Taken()
  await refuses(t, () => pump({ ...chunks(3, Buffer.alloc(10)), size: 25 }, taken, undefined), 'invalid', 'longer')
  t.equal(taken.chunks.length, 2)
  await refuses(t, () => pump(source('four', 5), new Taken(), undefined), 'invalid', 'shorter')
})

await t.test('pump() rejects if a body fails or ends prematurely', async (t) => {
  const failed = new Readable({ read: () => undefined })
  const flowing = pump(of(failed), new Taken(), undefined)
  failed.destroy(new GatewayError('timeout'))
  await refuses(t, () => flowing, 'timeout', 'the error of the body')
  const { source: cut, body } = endless()
  const ended = pump(cut, new Taken(), undefined)
  body.destroy()
  await refuses(t, () => ended, 'aborted', 'a body that ends without an error')
  const gone = new Readable({ read: () => undefined })
  gone.destroy()
  await refuses(t, () => pump(of(gone), new Taken(), undefined), 'aborted', 'a body that ended before it was read')
})

await t.test('pump() destroys the body, even a stalled one, if the sink fails', async (t) => {
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

await t.test('pump() rejects and destroys the body on abort', async (t) => {
  const { source: standing, body, begun } = endless()
  const controller = new AbortController()
  const flowing = pump(standing, new Taken(), controller.signal)
  flowing.catch(() => undefined)
  await begun
  controller.abort()
  await t.rejects(flowing, { name: 'AbortError' })
  t.ok(body.destroyed)
})
