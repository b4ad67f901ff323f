/** Streams that a backend cuts: what is requested anew, when, and what ends that. */
import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import type { ByteRange } from '../../../src/contract/call-options.js'
import type { Driver } from '../../../src/contract/driver.js'
import { GatewayError } from '../../../src/base/errors.js'
import { asPath } from '../../../src/base/path.js'
import { flaky, type Fault } from '../../drivers/flaky.js'
import { shortenWaits } from '../../short-waits.js'
import { newStorage, sourceOf } from '../../tree/tree-fixture.js'

shortenWaits(100)

const x = asPath('/x')

/** A storage with a file, whose reads have these faults, one after the other; `asked`: where they begin. */
async function start(t: Test, content: Buffer, faults: readonly (Fault | undefined)[], ranges = true) {
  const memory = new MemoryDriver(0)
  const asked: number[] = []
  const read: Driver['read'] = async (path, range, options) => {
    const fault = faults[asked.length]
    asked.push(range?.offset ?? 0)
    return flaky(memory, fault ? [{ method: 'read', fault }] : []).driver.read(path, range, options)
  }
  const over = {
    read,
    stat: (path: typeof x) => memory.stat(path),
    write: (...call: Parameters<MemoryDriver['write']>) => memory.write(...call),
    open: undefined,
  }
  const { storage } = await newStorage(t, over, {}, { ranges })
  const entry = await storage.write(x, sourceOf(content))
  const get = async (range?: ByteRange) => buffer(await storage.read(x, range, { entry }))
  return { storage, memory, entry, asked, get }
}

const cut = (after: number, error?: Error): Fault => ({ kind: 'cut', after, ...(error && { error }) })
const always = Array.from({ length: 1000 })

void t.test('a stream that is cut goes on where it was cut', async (t) => {
  const content = randomBytes(1_000_000)
  const cuts = [cut(0), cut(300_000), cut(1), cut(65_536)]
  const { get, asked, storage, entry } = await start(t, content, cuts)
  t.ok(content.equals(await get()))
  t.same(asked, [0, 0, 300_000, 300_001, 365_537])
  const range = { offset: 10, length: 500_000 }
  const ranged = await start(t, content, cuts)
  t.ok(content.subarray(10, 500_010).equals(await ranged.get(range)))
  t.same(ranged.asked, [10, 10, 300_010, 300_011, 365_547])
  const unranged = await start(t, content, cuts, false)
  t.ok(content.subarray(10, 500_010).equals(await unranged.get(range)), 'from a backend without ranges')
  asked.length = 0
  t.ok(content.equals(await buffer(await storage.source(x, entry).read())), 'as a source')
  asked.length = 0
  const file = await storage.open(x, 'read')
  const into = Buffer.alloc(content.length)
  t.equal(await file.read(into, 0), content.length, 'through a handle')
  t.ok(content.equals(into))
  await file.close()
})

void t.test('requests that bring nothing end, and so do those that bring a few bytes each', async (t) => {
  const content = randomBytes(1_000_000)
  const nothing = await start(t, content, [cut(100), ...always.map(() => cut(0))])
  await t.rejects(nothing.get(), { code: 'unavailable' })
  t.equal(nothing.asked.length, 5)
  const little = await start(
    t,
    content,
    always.map(() => cut(10)),
  )
  await t.rejects(little.get(), { code: 'unavailable' })
  t.ok(little.asked.length < 30, `${little.asked.length} requests`)
  const much = await start(
    t,
    randomBytes(10_000_000),
    always.map(() => cut(300_000)),
  )
  t.equal((await much.get()).length, 10_000_000)
})

void t.test('a stream does not go on with another file, and not after another error', async (t) => {
  const content = randomBytes(100_000)
  const changed = await start(t, content, [cut(10_000)])
  const stream = await changed.storage.read(x, undefined, { entry: changed.entry })
  await changed.memory.write(x, sourceOf(randomBytes(100_000)), { modified: new Date(1) })
  await t.rejects(buffer(stream), { code: 'busy' })
  for (const error of [
    new GatewayError('denied'),
    new GatewayError('unavailable', { detail: 'wrong_key' }),
    new GatewayError('unavailable', { retryAfter: 3600 }),
    new GatewayError('aborted'),
  ]) {
    const failed = await start(t, content, [cut(10_000, error)])
    await t.rejects(failed.get(), { code: error.code })
    t.equal(failed.asked.length, 1)
  }
  const unknown = await start(t, content, [cut(10_000)])
  await t.rejects(buffer(await unknown.storage.read(x)), { code: 'unavailable' }, 'of which nothing is known')
})

void t.test('the rest is requested when it is read, and not after the reader has gone', async (t) => {
  const content = randomBytes(1_000_000)
  const { storage, entry, asked } = await start(t, content, [cut(100_000)])
  const stream = await storage.read(x, undefined, { entry })
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  await chunks.next()
  for (let turns = 0; turns < 50; turns++) await turn()
  t.same(asked, [0])
  stream.destroy()
  for (let turns = 0; turns < 50; turns++) await turn()
  t.same(asked, [0])
})
