/**
 * What a server hands out for a while: requested once for all, again when it is old or refused, and kept on failures.
 */
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { Lease, PartLinks } from '../../../../drivers/lib/cloud/lease.js'
import { rangeOf } from '../../../../drivers/lib/cloud/source-range.js'
import { GatewayError, isGatewayError } from '../../../../src/base/errors.js'
import { byteSource } from '../../../../src/contract/sources.js'
import { refuses } from '../../../driver-conformance/subject.js'

const isExpired = (error: unknown) => isGatewayError(error, 'denied')

function server() {
  const state = { count: 0, valid: 1 }
  const request = async () => {
    await wait(5)
    return ++state.count
  }
  const use = async (value: number) => {
    if (value < state.valid) throw new GatewayError('denied')
    return value
  }
  return { state, request, use }
}

await t.test('one request serves all uses, and one more when the server does not accept it', async (t) => {
  const { state, request, use } = server()
  const lease = new Lease({ request, lifetime: 60_000, isExpired })
  t.same(new Set(await Promise.all(Array.from({ length: 5 }, () => lease.use(use)))), new Set([1]))
  state.valid = 2
  t.same(new Set(await Promise.all(Array.from({ length: 5 }, () => lease.use(use)))), new Set([2]))
  t.equal(state.count, 2)
  state.valid = 100
  await refuses(t, () => lease.use(use), 'denied', 'a new one is refused too')
  t.equal(state.count, 3)
})

await t.test('an old value is replaced before it is used, and other errors are passed on', async (t) => {
  const { state, request, use } = server()
  const lease = new Lease({ request, lifetime: 60_000, isExpired })
  await lease.use(use)
  const now = performance.now.bind(performance)
  t.capture(performance, 'now', () => now() + 60_000)
  t.equal(await lease.use(use), 2)
  let calls = 0
  const failing = async () => {
    calls++
    throw new GatewayError('unavailable')
  }
  await refuses(t, () => lease.use(failing), 'unavailable', 'another error')
  t.equal(calls, 1)
  t.equal(state.count, 2)
})

await t.test('a failed request is not remembered, and an aborted use does not abort it', async (t) => {
  let count = 0
  const request = async () => {
    await wait(5)
    if (++count === 1) throw new GatewayError('unavailable')
    return count
  }
  const lease = new Lease({ request, lifetime: 60_000, isExpired })
  const use = async (value: number) => value
  await refuses(t, () => lease.use(use), 'unavailable', 'the first')
  const controller = new AbortController()
  const aborted = refuses(t, () => lease.use(use, controller.signal), 'aborted', 'aborted')
  controller.abort()
  await aborted
  t.equal(await lease.use(use), 2)
})

await t.test('links of parts come in batches, and only the batch that has expired is requested again', async (t) => {
  const asked: (readonly number[])[] = []
  const expired = new Set<string>()
  const links = new PartLinks<string>({
    request: async (parts) => {
      asked.push(parts)
      return new Map(parts.filter((part) => part !== 9).map((part) => [part, `${part}#${asked.length}`]))
    },
    batch: 4,
    count: 9,
    lifetime: 60_000,
    isExpired,
  })
  const use = (part: number) =>
    links.use(part, async (link) => {
      if (expired.has(link)) throw new GatewayError('denied')
      return link
    })
  t.same(await Promise.all([1, 4, 5].map(use)), ['1#1', '4#1', '5#2'])
  expired.add('2#1')
  t.same([await use(2), await use(3), await use(6)], ['2#3', '3#3', '6#2'])
  t.same(asked, [
    [1, 2, 3, 4],
    [5, 6, 7, 8],
    [1, 2, 3, 4],
  ])
  await refuses(t, () => use(9), 'unavailable', 'a part without a link')
})

await t.test('links that came with the upload are used first, if all of a batch did', async (t) => {
  const asked: (readonly number[])[] = []
  const initial = new Map([1, 2, 3].map((part) => [part, `${part}#0`]))
  const links = new PartLinks<string>({
    request: async (parts) => {
      asked.push(parts)
      return new Map(parts.map((part) => [part, `${part}#${asked.length}`]))
    },
    initial,
    batch: 2,
    count: 4,
    lifetime: 60_000,
    isExpired,
  })
  const used = await Promise.all([1, 2, 3, 4].map((part) => links.use(part, async (link) => link)))
  t.same(used, ['1#0', '2#0', '3#1', '4#1'])
  t.same(asked, [[3, 4]])
})

await t.test('rangeOf() returns exactly the bytes of a range, or an error if the source has changed', async (t) => {
  const source = byteSource(Buffer.from('0123456789'))
  const range = async (offset: number, length: number) => (await rangeOf(source, offset, length, undefined)).toString()
  t.same(await Promise.all([range(2, 3), range(8, 8), range(10, 1), range(0, 0)]), ['234', '89', '', ''])
  const shrunk = { ...source, size: 20 }
  await t.rejects(rangeOf(shrunk, 8, 8, undefined), { code: 'unavailable', detail: 'source_changed' })
  await t.rejects(rangeOf({ ...source, size: 1e9 }, 0, 1e9, undefined), { code: 'unsupported' })
})
