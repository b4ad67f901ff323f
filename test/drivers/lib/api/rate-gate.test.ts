/** The gate spaces calls out, and closes for all of them while the server wants none. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { RateGate } from '../../../../drivers/lib/api/rate-gate.js'
import { refuses } from '../../../conformance/subject.js'
import { memoryState, mostInOneSecond } from './vendor.js'

const server = 'test server'
const scope = 'an account'

await t.test('calls beyond the limit wait for their turn, in order', async (t) => {
  const gate = await RateGate.open({ server, scope, perSecond: 10, state: memoryState().state })
  const times: number[] = []
  const order: number[] = []
  await Promise.all(
    Array.from({ length: 14 }, async (_, index) => {
      await gate.pass()
      times.push(performance.now())
      order.push(index)
    }),
  )
  t.ok(mostInOneSecond(times) <= 10, `${mostInOneSecond(times)} in one second`)
  t.same(
    order,
    order.toSorted((one, other) => one - other),
  )
})

await t.test('an aborted call leaves its turn to the next one', async (t) => {
  const gate = await RateGate.open({ server, scope, perSecond: 5, state: memoryState().state })
  await gate.pass()
  const controller = new AbortController()
  const aborted = Promise.all(
    Array.from({ length: 20 }, () => refuses(t, () => gate.pass(controller.signal), 'aborted', 'waiting')),
  )
  const last = gate.pass()
  controller.abort()
  await aborted
  const start = performance.now()
  await last
  t.ok(performance.now() - start < 4000, 'it did not wait for the turns of the others')
  await refuses(t, () => gate.pass(AbortSignal.abort()), 'aborted', 'aborted before')
})

await t.test('without a limit, calls pass at once', async (t) => {
  const gate = await RateGate.open({ server, scope, perSecond: 0, state: memoryState().state })
  const start = performance.now()
  for (let index = 0; index < 1000; index++) await gate.pass()
  t.ok(performance.now() - start < 20_000)
})

await t.test('a short pause delays all calls, a longer one rejects them with the remaining seconds', async (t) => {
  const gate = await RateGate.open({ server, scope, state: memoryState().state })
  await gate.pause(0.3)
  const start = performance.now()
  await Promise.all([gate.pass(), gate.pass(), gate.pass()])
  t.ok(performance.now() - start >= 290, 'they waited')
  await gate.pause(2)
  const waiting = refuses(t, () => gate.pass(), 'unavailable', 'a call that waits while the pause grows')
  await wait(10)
  await gate.pause(120)
  await waiting
  await t.rejects(gate.pass(), { code: 'unavailable', retryAfter: 120 })
  await gate.pause(1)
  await t.rejects(gate.pass(), { code: 'unavailable' }, 'a shorter pause does not end a longer one')
})

await t.test('a pause holds for a storage that is opened again, but not for ever', async (t) => {
  const { state, values } = memoryState()
  await (await RateGate.open({ server, scope, state })).pause(300)
  await refuses(t, async () => (await RateGate.open({ server, scope, state })).pass(), 'unavailable', 'opened again')
  await (await RateGate.open({ server, scope: 'another account', state })).pass()
  const [stored = ''] = values.values()
  for (const [key] of values) values.set(key, stored.replace(/\d{13}/, String(Date.now() + 1e12)))
  await (await RateGate.open({ server, scope, state })).pass()
  for (const [key] of values) values.set(key, 'nonsense')
  await (await RateGate.open({ server, scope, state })).pass()
})

await t.test('close() ends the calls that wait', async (t) => {
  const gate = await RateGate.open({ server, scope, perSecond: 0.1, state: memoryState().state })
  await gate.pass()
  const waiting = refuses(t, () => gate.pass(), 'aborted', 'waiting')
  gate.close()
  await waiting
})
