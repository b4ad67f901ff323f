/** Shares of a limited total: what one may take, what is left for others, and the order of those who wait. */
import t from 'tap'
import { FairShare, type Holder } from '../../src/base/fair-share.js'

/** How many this one can take. */
function takeAll(share: FairShare, holder: Holder): number {
  let count = 0
  for (;;) {
    try {
      share.take(holder)
      count++
    } catch {
      return count
    }
  }
}

void t.test('one user alone takes half, each further one half of what is left, down to the last', async (t) => {
  const share = new FairShare(16)
  t.same(
    ['a', 'b', 'c', 'd', 'e', 'f'].map((user) => takeAll(share, user)),
    [8, 4, 2, 1, 1, 0],
  )
  t.equal(share.held, 16)
  t.equal(takeAll(new FairShare(1), 'a'), 1)
})

void t.test('users who release and take at the same pace get equal parts, and as much is left', async (t) => {
  const share = new FairShare(400)
  const held = new Map(['a', 'b', 'c'].map((user) => [user, [] as (() => void)[]]))
  for (let round = 0; round < 2000; round++) {
    for (const [user, releases] of held) {
      if (round % 4 === 0) releases.shift()?.()
      try {
        releases.push(share.take(user))
      } catch {
        // It has its share.
      }
    }
  }
  for (const user of held.keys()) t.ok(Math.abs(share.heldBy(user) - 100) <= 2, `${user}: ${share.heldBy(user)}`)
})

void t.test('`times` and `most` change the share, and the gateway itself has all', async (t) => {
  for (const [total, share] of [
    [1, 1],
    [2, 1],
    [3, 2],
    [4, 3],
    [5, 3],
    [16, 12],
  ] as const)
    t.equal(takeAll(new FairShare(total, { times: 3 }), 1), share, `${total}`)
  t.equal(takeAll(new FairShare(16, { most: 4 }), 1), 4)
  t.equal(takeAll(new FairShare(16), undefined), 16)
  let total = 2
  const changing = new FairShare(() => total)
  t.equal(takeAll(changing, 1), 1)
  total = 8
  t.equal(takeAll(changing, 1), 3)
})

void t.test('amounts count, and a release has an effect once', async (t) => {
  const share = new FairShare(100)
  const release = share.take(1, 50)
  t.throws(() => share.take(1), { code: 'busy', retryAfter: 1 })
  t.throws(() => share.take(2, 51), { code: 'busy' })
  const other = share.take(2, 50)
  t.equal(share.held, 100)
  release()
  release()
  t.equal(share.heldBy(1), 0)
  t.equal(share.held, 50)
  other()
  t.equal(share.held, 0)
  const own = new FairShare(0, { code: 'throttled', reason: 'no', retryAfter: 9 })
  t.throws(() => own.take(1), { code: 'throttled', reason: 'no', retryAfter: 9 })
})

void t.test('those who wait are served in turns, one of each user', async (t) => {
  const share = new FairShare(1)
  const order: string[] = []
  const first = await share.wait('a')
  const work = (name: string) => async () => void order.push(name)
  const many = ['a', 'a', 'a', 'a', 'b', 'b', 'c'].map((user, index) => share.run(user, work(`${user}${index}`)))
  t.same(order, [])
  first()
  await Promise.all(many)
  t.same(order, ['a0', 'b4', 'c6', 'a1', 'b5', 'a2', 'a3'])
  t.equal(share.held, 0)
})

void t.test('who has its share waits, and does not delay others', async (t) => {
  const share = new FairShare(2)
  const held = await share.wait('a')
  let isServed = false
  const waiting = share.run('a', async () => void (isServed = true))
  ;(await share.wait('b'))()
  t.notOk(isServed)
  held()
  await waiting
  t.ok(isServed)
})

void t.test('a wait ends on abort and holds nothing, and a larger total admits those who wait', async (t) => {
  let total = 1
  const share = new FairShare(() => total)
  const release = await share.wait(1)
  const controller = new AbortController()
  const waiting = share.wait(2, controller.signal)
  controller.abort()
  await t.rejects(waiting, { code: 'aborted' })
  await t.rejects(share.wait(2, controller.signal), { code: 'aborted' })
  const next = share.wait(3)
  total = 2
  share.admit()
  ;(await next)()
  release()
  t.equal(share.held, 0)
  await t.rejects(
    share.run(1, async () => Promise.reject(new Error('failed'))),
    { message: 'failed' },
  )
  t.equal(share.held, 0)
})
