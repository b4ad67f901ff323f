/** The gate spaces calls out, and closes for all of them while the server wants none. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { otherCalls, RateGate, type CallRates } from '../../../../drivers/lib/json-api/rate-gate.js'
import type { GatewayError } from '../../../../src/base/errors.js'
import type { DriverState } from '../../../../src/contract/driver-env.js'
import { refuses } from '../../../driver-conformance/subject.js'
import { memoryState, mostInOneSecond } from '../cloud/vendor.js'

const server = 'test server'
let accounts = 0

interface Opening {
  readonly scope?: string
  readonly perSecond?: number | CallRates
  readonly state?: DriverState
}

/** A gate that is closed at the end of the test; of an account of its own unless `scope` says otherwise. */
async function open(
  t: Test,
  { scope = `account ${accounts++}`, state = memoryState().state, ...options }: Opening = {},
) {
  const gate = await RateGate.open({ server, scope, state, ...options })
  t.teardown(() => gate.close())
  return gate
}

await t.test('calls beyond the limit wait for their turn, in order', async (t) => {
  const gate = await open(t, { perSecond: 10 })
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

await t.test('a high limit is nearly used', async (t) => {
  const gate = await open(t, { perSecond: 50 })
  const start = performance.now()
  const processorTime = process.cpuUsage()
  for (let index = 0; index < 51; index++) await gate.pass()
  const taken = performance.now() - start
  t.ok(taken >= 1000, `${taken} ms`)
  // Timers fire by whole milliseconds, and a busy machine delays them.
  t.ok(taken < 2 * 1000 || process.cpuUsage(processorTime).user / 1000 < taken / 2, `${taken} ms`)
})

await t.test('an aborted call leaves its turn to the next one', async (t) => {
  const gate = await open(t, { perSecond: 1 })
  // All in one turn: on a busy machine, the time of the next call might come in between.
  const first = gate.pass()
  const controller = new AbortController()
  const aborted = Promise.all(
    Array.from({ length: 20 }, () => refuses(t, () => gate.pass(controller.signal), 'aborted', 'waiting')),
  )
  const last = gate.pass()
  controller.abort()
  await Promise.all([first, aborted])
  const start = performance.now()
  await last
  t.ok(performance.now() - start < 10_000, 'it did not wait for the turns of the others')
  await refuses(t, () => gate.pass(AbortSignal.abort()), 'aborted', 'aborted before')
})

await t.test('without a limit, calls pass at once', async (t) => {
  const gate = await open(t, { perSecond: 0 })
  const start = performance.now()
  for (let index = 0; index < 1000; index++) await gate.pass()
  t.ok(performance.now() - start < 20_000)
})

await t.test('a short pause delays all calls, a longer one rejects them with the remaining seconds', async (t) => {
  const gate = await open(t)
  const start = performance.now()
  await gate.pause(0.3)
  await Promise.all([gate.pass(), gate.pass(), gate.pass()])
  t.ok(performance.now() - start >= 290, 'they waited')
  await gate.pause(20)
  const waiting = refuses(t, () => gate.pass(), 'unavailable', 'a call that waits while the pause grows')
  await wait(10)
  await gate.pause(120)
  await waiting
  const refusal: unknown = await gate.pass().catch((error: unknown) => error)
  t.match(refusal, { code: 'unavailable' })
  const { retryAfter = 0 } = refusal as GatewayError
  t.ok(retryAfter > 60 && retryAfter <= 120, `${retryAfter} seconds`)
  await gate.pause(1)
  await t.rejects(gate.pass(), { code: 'unavailable' }, 'a shorter pause does not end a longer one')
})

await t.test('a call waits for a gate that opens within 25 seconds', async (t) => {
  const gate = await open(t)
  await gate.pause(24)
  const given = new AbortController()
  const waiting = refuses(t, () => gate.pass(given.signal), 'aborted', 'a call that waits')
  await wait(20)
  given.abort()
  await waiting
})

await t.test('a pause holds for a storage that is opened again, but not for ever', async (t) => {
  const { state, values } = memoryState()
  const scope = 'opened again'
  /** As another process: the gate of this one is closed. */
  const passed = async (of = scope) => {
    const gate = await open(t, { scope: of, state })
    await gate.pass().finally(() => gate.close())
  }
  const first = await open(t, { scope, state })
  await first.pause(300)
  first.close()
  await refuses(t, () => passed(), 'unavailable', 'opened again')
  await passed('another account')
  const [stored = ''] = values.values()
  for (const [key] of values) values.set(key, stored.replace(/\d{13}/, String(Date.now() + 1e12)))
  await passed()
  for (const [key] of values) values.set(key, 'nonsense')
  await passed()
})

await t.test('a storage that is opened again knows when the last call was', async (t) => {
  const scope = 'restarted'
  const times: number[] = []
  for (let index = 0; index < 3; index++) {
    const gate = await open(t, { scope, perSecond: 4 })
    await gate.pass()
    times.push(performance.now())
    gate.close()
  }
  const [first = 0, second = 0, third = 0] = times
  t.ok(second - first >= 250 && third - second >= 250, times.join())
})

await t.test('storages of one account share its limit and its pauses, others do not', async (t) => {
  const scope = 'shared'
  const [one, two] = [memoryState(), memoryState()]
  const gates = [
    await open(t, { scope, perSecond: 10, state: one.state }),
    await open(t, { scope, perSecond: 10, state: two.state }),
  ]
  const other = await open(t, { perSecond: 10 })
  const times: number[] = []
  await Promise.all(
    Array.from({ length: 14 }, async (_, index) => {
      await gates[index % 2]?.pass()
      times.push(performance.now())
    }),
  )
  t.ok(mostInOneSecond(times) <= 10, `${mostInOneSecond(times)} in one second`)
  await gates[0]?.pause(300)
  await refuses(t, async () => gates[1]?.pass(), 'unavailable', 'the other storage of the account')
  await other.pass()
  for (const { values } of [one, two]) t.match([...values.values()].join(), /"value":\d{13}/, 'both have stored it')
  gates[0]?.close()
  await refuses(t, async () => gates[1]?.pass(), 'unavailable', 'the pause stays')
})

await t.test('closing one storage ends its own calls only', async (t) => {
  const scope = 'closing'
  const [one, two] = [await open(t, { scope, perSecond: 2 }), await open(t, { scope, perSecond: 2 })]
  // All in one turn, as above.
  const first = one.pass()
  const ended = refuses(t, () => one.pass(), 'aborted', 'a call of the closed storage')
  const goesOn = two.pass()
  one.close()
  await Promise.all([first, ended, goesOn])
})

await t.test('classes of calls have limits of their own', async (t) => {
  const gate = await open(t, { perSecond: { list: 4, link: 1, [otherCalls]: 0 } })
  const start = performance.now()
  const after = async (kind?: string) => {
    await gate.pass(undefined, kind)
    return performance.now() - start
  }
  const [, link = 0, , list = 0, , unknown = 0] = await Promise.all([
    ...[after('link'), after('link')],
    ...[after('list'), after('list')],
    ...[after(), after('unknown')],
  ])
  t.ok(link >= 1000, `${link}`)
  t.ok(list >= 250 && list < link, `${list}`)
  t.ok(unknown < list, `${unknown}`)
  await gate.pause(60)
  for (const kind of ['link', 'list', undefined])
    await refuses(t, () => gate.pass(undefined, kind), 'unavailable', kind ?? '')
})

await t.test('close() ends the calls that wait', async (t) => {
  const gate = await open(t, { perSecond: 0.1 })
  await gate.pass()
  const waiting = refuses(t, () => gate.pass(), 'aborted', 'waiting')
  gate.close()
  await waiting
})
