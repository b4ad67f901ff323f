import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { PatientUsage } from '../../src/patient-usage.js'

const full = { total: 3, used: 2, free: 1 }

void t.test('an answer in time is told to all who asked, by one call', async (t) => {
  let calls = 0
  const usage = new PatientUsage(async () => {
    calls++
    await pause(10)
    return full
  })
  t.same(await Promise.all([usage.soon(), usage.soon()]), [full, full])
  t.equal(calls, 1)
  t.same(await usage.soon(), full)
  t.equal(calls, 2)
})

void t.test('a backend that does not tell is left out', async (t) => {
  const usage = new PatientUsage(() => Promise.reject(new Error('no')))
  t.equal(await usage.soon(), undefined)
  t.equal(await usage.soon(), undefined)
})

void t.test('one that does not answer keeps nobody waiting twice', async (t) => {
  let answer: (usage: typeof full) => void = () => undefined
  let calls = 0
  const usage = new PatientUsage(() => {
    calls++
    return new Promise((resolve) => (answer = resolve))
  })
  t.equal(await usage.soon(), undefined)
  t.equal(await Promise.race([usage.soon(), pause(1, 'waits')]), undefined)
  t.equal(calls, 1)
  answer(full)
  await pause(1)
  const again = usage.soon()
  answer(full)
  t.same(await again, full, 'once it answers it is asked again')
})
