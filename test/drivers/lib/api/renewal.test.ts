/** Renewals: one at a time, stored before they are used, and never lost by a failure to store them. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { Renewal } from '../../../../drivers/lib/api/renewal.js'
import { BoundState } from '../../../../drivers/lib/api/bound-state.js'
import { GatewayError } from '../../../../src/contract/errors.js'
import { refuses } from '../../../conformance/subject.js'
import { memoryState } from './vendor.js'

interface Pair {
  readonly access: string
  readonly refresh: string
}

/** A vendor that accepts each refresh token once. */
function rotation() {
  let count = 0
  const valid = { refresh: 'typed' }
  const request = async (current: Pair | undefined): Promise<Pair> => {
    count++
    await wait(10)
    if ((current?.refresh ?? 'typed') !== valid.refresh) throw new GatewayError('denied')
    valid.refresh = `refresh-${count}`
    return { access: `access-${count}`, refresh: valid.refresh }
  }
  return { request, count: () => count, valid }
}

async function opened(typed = 'typed', stateOf = memoryState()) {
  const vendor = rotation()
  const stored = await BoundState.open<Pair>(stateOf.state, 'tokens', typed)
  const renewal = new Renewal<Pair>({
    initial: stored.value,
    request: vendor.request,
    store: (pair) => stored.set(pair),
  })
  return { ...stateOf, vendor, renewal, stored }
}

await t.test('ten calls with an expired token cause one renewal', async (t) => {
  const { renewal, vendor, values } = await opened()
  const first = await renewal.get()
  t.equal(vendor.count(), 1)
  const renewed = await Promise.all(Array.from({ length: 10 }, () => renewal.replace(first)))
  t.equal(vendor.count(), 2)
  t.same(new Set(renewed.map(({ access }) => access)), new Set(['access-2']))
  t.equal((await renewal.replace(first)).access, 'access-2', 'a late call with the old token gets the new one')
  t.equal(vendor.count(), 2)
  t.match([...values.values()].join(), /refresh-2/)
})

await t.test('a new pair is stored before anyone gets it, and is the one that is used after a restart', async (t) => {
  const memory = memoryState()
  const { renewal } = await opened('typed', memory)
  const slow = memory.state.set.bind(memory.state)
  let isStored = false
  Object.assign(memory.state, {
    set: async (key: string, value: string | undefined) => {
      await wait(30)
      await slow(key, value)
      isStored = true
    },
  })
  const pair = await renewal.get()
  t.ok(isStored)
  t.same((await opened('typed', memory)).stored.value, pair)
})

await t.test('a stored token is used only with the secret it was made of', async (t) => {
  const memory = memoryState()
  await (await opened('typed', memory)).renewal.get()
  t.equal((await opened('another', memory)).stored.value, undefined, 'the admin has typed another one')
  t.equal((await opened('typed', memory)).stored.value?.refresh, 'refresh-1')
  for (const key of memory.values.keys()) memory.values.set(key, '{"half')
  t.equal((await opened('typed', memory)).stored.value, undefined, 'damaged')
})

await t.test('a pair that cannot be stored is not used, and is stored by the next call', async (t) => {
  const { renewal, vendor, failures, values } = await opened()
  failures.push(new Error('disk full'))
  await t.rejects(renewal.get(), { message: 'disk full' })
  t.equal(renewal.current, undefined)
  t.equal((await renewal.get()).access, 'access-1', 'the server was not asked again: its old token is void')
  t.equal(vendor.count(), 1)
  t.match([...values.values()].join(), /refresh-1/)
})

await t.test('an aborted call does not abort the renewal', async (t) => {
  const { renewal, vendor } = await opened()
  const controller = new AbortController()
  const aborted = refuses(t, () => renewal.get(controller.signal), 'aborted', 'aborted')
  controller.abort()
  await aborted
  await renewal.settled()
  t.equal(renewal.current?.access, 'access-1')
  t.equal(vendor.count(), 1)
})

await t.test('refused credentials are not sent again and again', async (t) => {
  const { renewal, vendor } = await opened()
  vendor.valid.refresh = 'another'
  for (let index = 0; index < 5; index++) await refuses(t, () => renewal.get(), 'denied', 'refused')
  t.equal(vendor.count(), 1)
})

await t.test('a failed renewal is tried again by the next call', async (t) => {
  let count = 0
  const request = async () => {
    if (++count === 1) throw new GatewayError('unavailable')
    return 'secret'
  }
  const renewal = new Renewal<string>({ initial: undefined, request, store: async () => undefined })
  await refuses(t, () => renewal.get(), 'unavailable', 'first')
  t.equal(await renewal.get(), 'secret')
})
