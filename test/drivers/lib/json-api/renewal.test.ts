/** Renewals: one at a time, stored before they are used, and never lost by a failure to store them. */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { Renewal } from '../../../../drivers/lib/json-api/renewal.js'
import { BoundState } from '../../../../drivers/lib/json-api/bound-state.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { refuses } from '../../../driver-conformance/subject.js'
import { memoryState } from '../cloud/vendor.js'

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

/** Renewals of one storage on several nodes. */
function nodes(request: (current: Pair | undefined) => Promise<Pair>) {
  const { state } = memoryState()
  return async () => {
    const stored = await BoundState.open<{ secret: Pair; issued: number }>(state, 'tokens', 'typed')
    return new Renewal<Pair>({
      initial: undefined,
      request,
      store: (secret, issued) => stored.set({ secret, issued }),
      stored: () => stored.reload(),
      exclusively: (work) => state.exclusively('tokens', work),
    })
  }
}

await t.test('of several nodes one renews, and the others take over what it has stored', async (t) => {
  const vendor = rotation()
  const open = nodes(vendor.request)
  const [one, two] = [await open(), await open()]
  const [first, same] = await Promise.all([one.get(), two.get()])
  t.equal(vendor.count(), 1)
  t.same(first, same)
  t.same([one.isTaken, two.isTaken], [false, true])

  // The clock of the first node is an hour ahead.
  const { now } = Date
  Date.now = () => now() + 3_600_000
  const second = await one.replace(first)
  Date.now = now
  t.same(await two.replace(same), second)
  t.equal(vendor.count(), 2)
  const third = await two.replace(two.current ?? second)
  t.notOk(two.isTaken)
  t.same(await one.replace(second), third)
  t.equal(vendor.count(), 3, 'it is the newest, whatever the clocks say')
})

await t.test('a secret that another node has replaced meanwhile is no refusal', async (t) => {
  let isFirst = true
  const open = nodes(async () => {
    if (!isFirst) return { access: 'a', refresh: 'r' }
    isFirst = false
    // As if the lock of this node were lost.
    await other.takeOver(() => ({ access: 'new', refresh: 'new' }))
    throw new GatewayError('denied')
  })
  const [one, other] = [await open(), await open()]
  await refuses(t, () => one.get(), 'denied', 'this call')
  t.equal((await one.get()).access, 'new')
})

/** Storages that an admin has mounted, with states of their own, and the vendor that all of them use. */
function storages(request: (current: Pair | undefined) => Promise<Pair>) {
  return async (memory = memoryState(), typed = `${accounts}`) => {
    const renewal = await Renewal.open<Pair>({ state: memory.state, key: 'tokens', typed, request })
    return { ...memory, renewal }
  }
}

let accounts = 0

await t.test('storages for which the same was typed share one renewal', async (t) => {
  accounts++
  const vendor = rotation()
  const open = storages(vendor.request)
  const [one, two] = [await open(), await open()]
  const pairs = await Promise.all([one.renewal.get(), two.renewal.get(), one.renewal.get()])
  t.equal(vendor.count(), 1)
  t.equal(new Set(pairs).size, 1)
  const second = await two.renewal.replace(pairs[0])
  t.equal(await one.renewal.replace(pairs[0]), second)
  t.equal(vendor.count(), 2)
  for (const { values } of [one, two]) t.match([...values.values()].join(), /refresh-2/, 'both have stored it')
  const late = await open()
  t.equal(await late.renewal.get(), second)
  t.match([...late.values.values()].join(), /refresh-2/, 'a storage that is mounted later has stored it too')
  const other = await open(memoryState(), 'another')
  await refuses(t, () => other.renewal.get(), 'denied', 'another account')
  for (const { renewal } of [one, two, late, other]) renewal.close()
})

await t.test('the newest secret counts that any of the storages has stored', async (t) => {
  accounts++
  const vendor = rotation()
  const open = storages(vendor.request)
  const [old, current] = [await open(), await open()]
  await old.renewal.get()
  old.renewal.close()
  await wait(5)
  await current.renewal.replace(await current.renewal.get())
  current.renewal.close()
  // The one with the void token is opened first.
  const first = await open(old)
  const second = await open(current)
  t.equal(first.renewal.current?.refresh, 'refresh-2')
  await first.renewal.replace(await second.renewal.get())
  t.equal(vendor.count(), 3)
  for (const { renewal } of [first, second]) renewal.close()
})

await t.test('a refusal is remembered by a storage that is opened again, until something else is typed', async (t) => {
  accounts++
  let count = 0
  const open = storages(async () => {
    count++
    throw new GatewayError('denied', { reason: 'the password is wrong' })
  })
  const memory = memoryState()
  for (let index = 0; index < 3; index++) {
    const { renewal } = await open(memory)
    await t.rejects(renewal.get(), { code: 'denied', message: 'the password is wrong' })
    renewal.close()
  }
  t.equal(count, 1, 'the server was asked once')
  const { renewal } = await open(memory, 'another')
  await refuses(t, () => renewal.get(), 'denied', 'another password')
  t.equal(count, 2)
  renewal.close()
  const far = JSON.stringify(Date.now() + 1e12)
  for (const [key, value] of memory.values) memory.values.set(key, value.replace(/\d{13}/, far))
  const late = await open(memory, 'another')
  await refuses(t, () => late.renewal.get(), 'denied', 'after the clock was wrong')
  t.equal(count, 3, 'it is not remembered for ever')
  late.renewal.close()
})

await t.test('a storage that is closed while it renews leaves that to the others', async (t) => {
  accounts++
  let isFirst = true
  const open = storages(async () => {
    await wait(20)
    if (!isFirst) return { access: 'a', refresh: 'r' }
    isFirst = false
    throw new GatewayError('aborted')
  })
  const [one, two] = [await open(), await open()]
  const ended = refuses(t, () => one.renewal.get(), 'aborted', 'the closed storage')
  const goesOn = two.renewal.get()
  one.renewal.close()
  await ended
  t.equal((await goesOn).access, 'a')
  two.renewal.close()
})
