/** Work that is raced against an abort, a result that arrives after it, and joined signals. */
import { getEventListeners } from 'node:events'
import t from 'tap'
import { joinSignals, untilAborted } from '../../src/base/cancellation.js'
import { GatewayError } from '../../src/base/errors.js'

/** Work that the test settles. */
function work() {
  let end: (result: string) => void = () => undefined
  let fail: (reason: Error) => void = () => undefined
  const done = new Promise<string>((resolve, reject) => {
    end = resolve
    fail = reject
  })
  return { done, end, fail }
}

void t.test('untilAborted() settles like the work, and removes its listener from the signal', async (t) => {
  const { signal } = new AbortController()
  t.equal(await untilAborted(Promise.resolve('done'), signal), 'done')
  await t.rejects(untilAborted(Promise.reject(new GatewayError('busy')), signal), { code: 'busy' })
  t.equal(await untilAborted(Promise.resolve('done'), undefined), 'done')
  t.equal(getEventListeners(signal, 'abort').length, 0)
})

void t.test('untilAborted() rejects on abort, and passes a late result to undo', async (t) => {
  const controller = new AbortController()
  const { done, end } = work()
  const late: string[] = []
  const call = untilAborted(done, controller.signal, { undo: (result) => late.push(result) })
  controller.abort()
  await t.rejects(call, { code: 'aborted' })
  t.same(late, [])
  end('late')
  await done
  await Promise.resolve()
  t.same(late, ['late'])
  await t.rejects(untilAborted(work().done, controller.signal), { code: 'aborted' }, 'a signal that is already aborted')
  t.equal(getEventListeners(controller.signal, 'abort').length, 0)
})

void t.test(
  'untilAborted() with a timeout waits for the work after an abort; its error becomes the cause',
  async (t) => {
    const controller = new AbortController()
    const { done, fail } = work()
    const call = untilAborted(done, controller.signal, { timeout: 60_000 })
    controller.abort()
    fail(new Error('taken back'))
    await t.rejects(call, { code: 'aborted', cause: { message: 'taken back' } })
    const slow = untilAborted(work().done, controller.signal, { timeout: 10 })
    await t.rejects(slow, { code: 'aborted' }, 'the timeout ends the wait')
  },
)

void t.test('joined signals abort together with the same reason, until they are released', async (t) => {
  const one = new AbortController()
  const other = new AbortController()
  const joined = joinSignals(one.signal, undefined, other.signal)
  t.notOk(joined.signal.aborted)
  other.abort('why')
  t.equal(joined.signal.reason, 'why')
  joined.release()
  t.equal(getEventListeners(one.signal, 'abort').length, 0)
  t.ok(joinSignals(one.signal, AbortSignal.abort()).signal.aborted)
  const free = joinSignals(one.signal)
  free.release()
  one.abort()
  t.notOk(free.signal.aborted)
})

void t.test('a joined signal is not joined again with what it follows', async (t) => {
  const [one, other] = [new AbortController(), new AbortController()]
  const joined = joinSignals(one.signal, other.signal)
  const again = joinSignals(joined.signal, other.signal)
  t.equal(again.signal, joined.signal)
  again.release()
  other.abort('why')
  t.equal(joined.signal.reason, 'why', 'it still follows both')
  joined.release()
  const late = joinSignals(joined.signal, one.signal)
  t.not(late.signal, joined.signal, 'what was released follows nothing')
})
