/** The usage of a backend: one request for concurrent callers; none is known if it fails or takes too long. */
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { UsageProbe } from '../../../src/storage/fallbacks/usage-probe.js'

const full = { total: 3, used: 2, free: 1 }

void t.test('UsageProbe answers concurrent callers with one call of the backend', async (t) => {
  let calls = 0
  const usage = new UsageProbe(async () => {
    calls++
    await pause(10)
    return full
  })
  t.same(await Promise.all([usage.usageWithTimeout(), usage.usageWithTimeout()]), [full, full])
  t.equal(calls, 1)
  t.same(await usage.usageWithTimeout(), full)
  t.equal(calls, 2)
})

void t.test('UsageProbe returns undefined if the backend fails', async (t) => {
  const usage = new UsageProbe(() => Promise.reject(new Error('no')))
  t.equal(await usage.usageWithTimeout(), undefined)
  t.equal(await usage.usageWithTimeout(), undefined)
})

void t.test('UsageProbe waits only once for a backend that does not answer', async (t) => {
  let answer: (usage: typeof full) => void = () => undefined
  let calls = 0
  const usage = new UsageProbe(() => {
    calls++
    return new Promise((resolve) => (answer = resolve))
  })
  t.equal(await usage.usageWithTimeout(), undefined)
  t.equal(await Promise.race([usage.usageWithTimeout(), pause(1, 'waits')]), undefined)
  t.equal(calls, 1)
  answer(full)
  await pause(1)
  const again = usage.usageWithTimeout()
  answer(full)
  t.same(await again, full, 'it is asked again after it has answered')
})
