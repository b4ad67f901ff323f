/** BackgroundDeleter removes orphans that listings find, with bounded work. */
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { BackgroundDeleter } from '../../../../drivers/lib/staged-files/background-deleter.js'
import { GatewayError } from '../../../../src/base/errors.js'

await t.test('BackgroundDeleter removes orphans one after another, each once, with a bounded queue', async (t) => {
  const removed: string[] = []
  let now = 0
  let most = 0
  const sweep = new BackgroundDeleter(async (leftover) => {
    most = Math.max(most, ++now)
    await turn()
    now--
    removed.push(leftover)
  })
  for (let index = 0; index < 5000; index++) sweep.enqueue(`part-${index % 2500}`)
  while (now > 0) await turn()
  t.equal(most, 1)
  t.equal(removed.length, 1000)
  t.equal(new Set(removed).size, 1000)
})

await t.test('BackgroundDeleter drops its queue when the server is unavailable', async (t) => {
  let tries = 0
  const sweep = new BackgroundDeleter(async () => {
    tries++
    throw new GatewayError('unavailable')
  })
  for (const leftover of ['one', 'two', 'three']) sweep.enqueue(leftover)
  await turn()
  t.equal(tries, 1)
  sweep.enqueue('one')
  t.equal(tries, 2, 'an orphan that is found again is tried again')
})

await t.test(
  'BackgroundDeleter skips an orphan that cannot be removed, and retries it when it is found again',
  async (t) => {
    const tried: string[] = []
    const sweep = new BackgroundDeleter(async (leftover) => {
      tried.push(leftover)
      if (leftover === 'bad') throw new GatewayError('denied')
    })
    for (const leftover of ['bad', 'good']) sweep.enqueue(leftover)
    await turn()
    t.same(tried, ['bad', 'good'])
    sweep.enqueue('bad')
    await turn()
    t.same(tried, ['bad', 'good', 'bad'])
  },
)
