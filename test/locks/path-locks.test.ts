/** Path locks: which exclude each other, their order, timeouts and aborts, and what nodes read again under them. */
import { getEventListeners } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { SharedPathLocks } from '../../src/cluster/shared-path-locks.js'
import { PathLocksInProcess, type PathClaim, type PathLocks } from '../../src/locks/path-locks.js'
import type { ClaimOptions } from '../../src/database/engine.js'

const name = (path: string): PathClaim => ({ path: asPath(path), tree: false })
const tree = (path: string): PathClaim => ({ path: asPath(path), tree: true })

/** Acquires locks, and writes a label to `log` when they are granted. */
function taker(reservations: PathLocks, log: string[]) {
  return async (label: string, ...claims: PathClaim[]) => {
    const release = await reservations.acquire(claims)
    log.push(label)
    return release
  }
}

void t.test('the second lock of a path waits until the first is released', async (t) => {
  const log: string[] = []
  const take = taker(new PathLocksInProcess(), log)
  const first = await take('first', name('/a'))
  const second = take('second', name('/a'))
  await turn()
  t.same(log, ['first'])
  first()
  first()
  ;(await second)()
  t.same(log, ['first', 'second'])
  ;(await take('third', name('/a')))()
})

void t.test('locks of other paths, and of members of a locked name, are granted', async (t) => {
  const log: string[] = []
  const take = taker(new PathLocksInProcess(), log)
  await take('a', name('/a'))
  await take('b', name('/b'))
  await take('ab', name('/ab'))
  await take('member', name('/a/x'))
  t.same(log, ['a', 'b', 'ab', 'member'])
})

void t.test('a tree lock excludes all paths in it, and waits for their locks', async (t) => {
  const log: string[] = []
  const take = taker(new PathLocksInProcess(), log)
  const holding = await take('tree', tree('/a'))
  const below = take('below', name('/a/b/c'))
  const itself = take('itself', name('/a'))
  ;(await take('beside', name('/ab')))()
  const above = take('above', tree('/'))
  await turn()
  t.same(log, ['tree', 'beside'])
  holding()
  const [one, other] = [await below, await itself]
  await turn()
  t.notOk(log.includes('above'))
  one()
  other()
  ;(await above)()
})

void t.test('a waiting lock is not overtaken by later ones that conflict with it', async (t) => {
  const log: string[] = []
  const take = taker(new PathLocksInProcess(), log)
  const reader = await take('holder', name('/a/x'))
  const whole = take('whole', tree('/a'))
  const late = take('late', name('/a/y'))
  await turn()
  t.same(log, ['holder'], 'the late lock waits although it does not conflict with the holder')
  const elsewhere = await take('elsewhere', name('/b'))
  elsewhere()
  reader()
  ;(await whole)()
  ;(await late)()
  t.same(log, ['holder', 'elsewhere', 'whole', 'late'])
})

void t.test('all claims of one call are granted together', async (t) => {
  const log: string[] = []
  const take = taker(new PathLocksInProcess(), log)
  const b = await take('b', name('/b'))
  const both = take('a and b', name('/a'), name('/b'))
  const a = take('a', name('/a'))
  await turn()
  t.same(log, ['b'])
  b()
  const release = await both
  await turn()
  t.same(log, ['b', 'a and b'])
  release()
  ;(await a)()
})

void t.test('a lock that times out rejects with busy, and the ones behind it proceed', async (t) => {
  const reservations = new PathLocksInProcess()
  const holding = await reservations.acquire([name('/a/x')])
  const waiting = reservations.acquire([tree('/a')], undefined, { timeout: 20 })
  const behind = reservations.acquire([name('/a/y')])
  await t.rejects(waiting, { code: 'busy', retryAfter: 1 })
  ;(await behind)()
  holding()
  ;(await reservations.acquire([tree('/')]))()
})

void t.test('an abort ends the wait for a lock, and the ones behind it proceed', async (t) => {
  const reservations = new PathLocksInProcess()
  const controller = new AbortController()
  const holding = await reservations.acquire([name('/a/x')])
  const waiting = reservations.acquire([tree('/a')], controller.signal)
  const behind = reservations.acquire([name('/a/y')])
  controller.abort()
  await t.rejects(waiting, { code: 'aborted' })
  ;(await behind)()
  holding()
  await t.rejects(reservations.acquire([name('/free')], controller.signal), { code: 'aborted' })
  ;(await reservations.acquire([tree('/')]))()
})

void t.test('locks leave no listener on a long-lived signal', async (t) => {
  const reservations = new PathLocksInProcess()
  const { signal } = new AbortController()
  const holding = await reservations.acquire([name('/a')], signal)
  const waiting = reservations.acquire([name('/a')], signal)
  const late = reservations.acquire([name('/a')], signal, { timeout: 5 })
  await t.rejects(late, { code: 'busy' })
  holding()
  ;(await waiting)()
  t.equal(getEventListeners(signal, 'abort').length, 0)
})

const claims = [{ path: asPath('/a'), tree: false }]
const notices = { take: () => [], putBack: () => undefined }

/**
 * Locks over a database that has counted `changes` of WebDAV locks, of which this process has made and stored `own`.
 */
function locksOver(database: { changes: number; own: number | undefined }) {
  let reloads = 0
  let beforeReading: () => unknown = () => undefined
  const shared = {
    spansMachines: true,
    acquire: async (_claims: unknown, _options?: ClaimOptions) => {
      const counts = new Map([['locks', database.changes] as const])
      beforeReading()
      return { counts, release: async () => true }
    },
  }
  const mirror = {
    reload: async () => {
      reloads++
    },
    ownChanges: () => database.own,
  }
  const locks = new SharedPathLocks(shared, notices, new Map([['locks', mirror] as const]))
  return {
    locks,
    /** Resolves to whether the mirror was read again. `meanwhile`: is called when the database has answered. */
    isRead: async (meanwhile: () => unknown = () => undefined) => {
      const before = reloads
      beforeReading = () => meanwhile()
      ;(await locks.acquire(claims))()
      await turn()
      return reloads > before
    },
  }
}

void t.test('a mirror is read again only if another process has changed its rows', async (t) => {
  const database: { changes: number; own: number | undefined } = { changes: 7, own: 2 }
  const { isRead } = locksOver(database)
  t.equal(await isRead(), true, 'at first')
  t.equal(await isRead(), false)
  Object.assign(database, { changes: 8, own: 3 })
  t.equal(await isRead(), false, 'after an own change')
  database.changes = 9
  t.equal(await isRead(), true, 'after a change by another one')
  t.equal(await isRead(), false)
})

void t.test('an own change that is stored meanwhile hides no change by another process', async (t) => {
  const database: { changes: number; own: number | undefined } = { changes: 7, own: 2 }
  const { isRead } = locksOver(database)
  await isRead()
  // Another one changes a row. The database answers, and only then stores the change of this process.
  database.changes = 8
  t.equal(await isRead(() => Object.assign(database, { changes: 9, own: 3 })), true)
  // The change of this process is counted, but its end is not known here yet.
  Object.assign(database, { changes: 10, own: undefined })
  t.equal(await isRead(), true)
  // It ends, and another one changes a row.
  Object.assign(database, { changes: 11, own: 4 })
  t.equal(await isRead(), true)
  t.equal(await isRead(), false)
})

void t.test('all who hold locks hear that they are lost', async (t) => {
  const { locks } = locksOver({ changes: 0, own: 0 })
  const lost: string[] = []
  const hold = (name: string) =>
    locks.acquire([{ path: asPath(`/${name}`), tree: false }], undefined, { onLost: () => lost.push(name) })
  const [release] = [await hold('one'), await hold('two')]
  release()
  locks.loseAll()
  t.same(lost, ['two'])
})
