import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { UsageProbe } from '../../src/storage/usage-probe.js'

const full = { total: 3, used: 2, free: 1 }

void t.test('an answer in time is told to all who asked, by one call', async (t) => {
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

void t.test('a backend that does not tell is left out', async (t) => {
  const usage = new UsageProbe(() => Promise.reject(new Error('no')))
  t.equal(await usage.usageWithTimeout(), undefined)
  t.equal(await usage.usageWithTimeout(), undefined)
})

void t.test('one that does not answer keeps nobody waiting twice', async (t) => {
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
  t.same(await again, full, 'once it answers it is asked again')
})
