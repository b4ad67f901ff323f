/** WebDAV locks: which conflict, which changes they block, their expiry, and their persistence. */
import { randomUUID } from 'node:crypto'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import type { Lock, LockRequest } from '../../src/database/tables/locks.js'
import { Locks, maxLockSeconds, type LockedPath } from '../../src/locks/webdav-locks.js'
import { principal } from '../accounts/principals.js'
import { processorTime } from '../processor-time.js'
import { LocksInMemory } from '../tree/locks-in-memory.js'

const ada = principal()
const bob = principal({ userId: 2, username: 'bob' })
const request = (fields: Partial<LockRequest> = {}): LockRequest => ({
  scope: 'exclusive',
  deep: false,
  owner: '',
  seconds: 60,
  ...fields,
})
const shared: Partial<LockRequest> = { scope: 'shared' }
const deep: Partial<LockRequest> = { deep: true }

async function fresh(now = Date.now) {
  const store = new LocksInMemory()
  const locks = await Locks.load(store, { now, ofOthers: () => undefined })
  const lock = (path: string, fields: Partial<LockRequest> = {}, who = ada) =>
    locks.grant(asPath(path), request(fields), who)
  /** Token of the lock that blocks the change; undefined if none does. */
  const stops = (
    touch: Omit<LockedPath, 'path'> & { readonly path: string },
    tokens: readonly string[] = [],
    who = ada,
  ) => locks.blocking({ ...touch, path: asPath(touch.path) }, who, tokens)?.token
  return { store, locks, lock, stops }
}

void t.test('an exclusive lock conflicts with every lock of its path, shared locks do not conflict', async (t) => {
  const { lock, locks } = await fresh()
  const first = await lock('/a', { owner: '<href>ada</href>' })
  t.match(first, { token: /^urn:uuid:[0-9a-f-]{36}$/, username: 'ada', userId: 1, owner: '<href>ada</href>' })
  await t.rejects(lock('/a'), { code: 'locked', reason: 'locked by ada' })
  await t.rejects(lock('/a', shared, bob), { code: 'locked', lock: { path: '/a' } })
  await lock('/b', shared)
  await lock('/b', shared, bob)
  await t.rejects(lock('/b'), { code: 'locked' })
  t.equal(locks.list().length, 3)
})

void t.test('a deep lock conflicts with locks below it unless both are shared, in either order', async (t) => {
  const { lock } = await fresh()
  await lock('/a/b/c')
  await t.rejects(lock('/a', deep), { code: 'locked' })
  await lock('/a')
  await lock('/d', deep)
  await t.rejects(lock('/d/e/f', shared), { code: 'locked' })
  await lock('/da')
  await lock('/s', { ...shared, ...deep })
  await lock('/s/x', shared)
  await t.rejects(lock('/s/y'), { code: 'locked' })
})

void t.test('the paths and owners of the locks of one user are limited in total', async (t) => {
  const { lock, locks } = await fresh()
  const owner = 'o'.repeat(4000)
  for (let index = 0; index < 520; index++) await lock(`/${index}`, { owner })
  await t.rejects(lock('/next', { owner: 'o'.repeat(20_000) }), { code: 'too_large' })
  await lock('/next', {}, ada)
  await lock('/other', { owner: 'o'.repeat(20_000) }, bob)
  for (const { token, path } of locks.list().slice(0, 5)) await locks.release(path, token, ada)
  await lock('/last', { owner: 'o'.repeat(20_000) })
})

void t.test('whoever is revoked while a lock is granted does not get it', async (t) => {
  const { locks, lock, store } = await fresh()
  const revocation = new AbortController()
  const revoked = principal({ signal: revocation.signal })
  const grant = store.grant.bind(store)
  store.grant = (...call) => {
    revocation.abort()
    return grant(...call)
  }
  await t.rejects(lock('/a', {}, revoked), { code: 'aborted' })
  t.same([locks.list(), store.rows.size], [[], 0])
})

void t.test('a lock blocks a change unless its own user presents its token', async (t) => {
  const { lock, stops } = await fresh()
  const { token } = await lock('/a')
  t.equal(stops({ path: '/a' }), token)
  t.equal(stops({ path: '/a' }, [token]), undefined)
  t.equal(stops({ path: '/a' }, ['urn:uuid:other', token]), undefined)
  t.equal(stops({ path: '/a' }, [token], bob), token)
  t.equal(stops({ path: '/b' }), undefined)
  t.equal(stops({ path: '/ab' }), undefined)
})

void t.test('a lock blocks a change of the gateway itself, even with its token', async (t) => {
  const { lock, locks } = await fresh()
  const { token } = await lock('/a')
  t.equal(locks.blocking({ path: asPath('/a') }, undefined, [token])?.token, token)
})

void t.test('the token of one shared lock suffices for a change by its user', async (t) => {
  const { lock, stops } = await fresh()
  const one = await lock('/a', shared)
  const other = await lock('/a', shared, bob)
  t.equal(stops({ path: '/a' }, [one.token]), undefined)
  t.equal(stops({ path: '/a' }, [other.token], bob), undefined)
  t.equal(stops({ path: '/a' }, [other.token]), one.token)
})

void t.test('the lock of a folder blocks the creation and removal of its direct members', async (t) => {
  const { lock, stops } = await fresh()
  const { token } = await lock('/a')
  t.equal(stops({ path: '/a/x' }), undefined, 'a shallow lock does not block changes within its members')
  t.equal(stops({ path: '/a/x', membership: true }), token)
  t.equal(stops({ path: '/a/x', membership: true }, [token]), undefined)
  t.equal(stops({ path: '/a/x/y', membership: true }), undefined)
  const root = await fresh()
  const top = await root.lock('/')
  t.equal(root.stops({ path: '/a', membership: true }), top.token)
})

void t.test('a deep lock blocks changes anywhere below it', async (t) => {
  const { lock, stops } = await fresh()
  const { token } = await lock('/a', deep)
  t.equal(stops({ path: '/a/b/c' }), token)
  t.equal(stops({ path: '/a/b/c', membership: true }, [token]), undefined)
})

void t.test('a change of a tree is blocked by every lock in it whose token is missing', async (t) => {
  const { lock, stops } = await fresh()
  const one = await lock('/a/b')
  const two = await lock('/a/c/d')
  t.equal(stops({ path: '/a' }), undefined)
  t.ok(stops({ path: '/a', tree: true }))
  t.equal(stops({ path: '/a', tree: true }, [one.token]), two.token)
  t.equal(stops({ path: '/a', tree: true }, [one.token, two.token]), undefined)
  t.equal(stops({ path: '/ab', tree: true }), undefined)
  t.equal(stops({ path: '/', tree: true }, [one.token]), two.token)
})

void t.test('an expired lock no longer blocks, and its row is deleted when the next lock is granted', async (t) => {
  const { lock, locks, stops, store } = await fresh()
  const { token } = await lock('/a', { seconds: 1 })
  t.equal(stops({ path: '/a' }), token)
  await sleep(1050)
  t.equal(stops({ path: '/a' }), undefined)
  t.equal(stops({ path: '/', tree: true }), undefined)
  t.same(locks.list(), [])
  await t.rejects(locks.refresh(asPath('/a'), token, 60, ada), { code: 'precondition_failed' })
  const next = await lock('/a', {}, bob)
  t.same([...store.rows.keys()], [next.token], 'the row of the expired lock is deleted')
})

void t.test('a lock does not expire during an operation that presents its token', async (t) => {
  const { lock, locks, stops } = await fresh()
  const { token } = await lock('/a', { seconds: 1 })
  const others = await lock('/b', { seconds: 1 })
  const letGo = locks.extendDuring(asPath('/a'), [token, others.token], ada)
  const strange = locks.extendDuring(asPath('/b'), [others.token], bob)
  await sleep(1500)
  t.equal(stops({ path: '/a' }), token, 'the lock is still held')
  t.equal(stops({ path: '/b' }), undefined, 'a lock of another path, and one presented by another user, expires')
  letGo()
  strange()
  await sleep(1100)
  t.equal(stops({ path: '/a' }), undefined, 'the lock expires after the operation')
})

void t.test('a lock that is about to expire is extended at once, in at most three writes', async (t) => {
  let time = Date.now()
  const { lock, locks, stops, store } = await fresh(() => time)
  const { token } = await lock('/a', { seconds: 1 })
  time += 900
  let refreshes = 0
  const refresh = store.refresh.bind(store)
  store.refresh = async (...args) => {
    refreshes++
    return refresh(...args)
  }
  const stop = locks.extendDuring(asPath('/a'), [token], ada)
  while (refreshes === 0) await turn()
  await turn()
  time += 600
  t.equal(stops({ path: '/a' }), token)
  stop()
  t.ok(refreshes >= 1 && refreshes <= 3, `${refreshes} writes`)
})

void t.test('the duration of a lock is limited to between a second and a week', async (t) => {
  const { lock } = await fresh()
  const left = (granted: Lock) => (granted.expires.getTime() - Date.now()) / 1000
  t.ok(left(await lock('/a', { seconds: 1e12 })) <= maxLockSeconds)
  t.ok(left(await lock('/b', { seconds: Number.POSITIVE_INFINITY })) <= maxLockSeconds)
  t.ok(left(await lock('/c', { seconds: -5 })) > 0)
})

void t.test('only the user of a lock refreshes or releases it, and only by a path that it covers', async (t) => {
  const { lock, locks, stops } = await fresh()
  const { token, expires } = await lock('/a', deep)
  await t.rejects(locks.refresh(asPath('/b'), token, 60, ada), { code: 'precondition_failed' })
  await t.rejects(locks.refresh(asPath('/a'), token, 60, bob), { code: 'denied' })
  await t.rejects(locks.release(asPath('/a'), token, bob), { code: 'denied' })
  await t.rejects(locks.release(asPath('/a'), 'urn:uuid:none', ada), { code: 'precondition_failed' })
  const refreshed = await locks.refresh(asPath('/a/b'), token, 600, ada)
  t.ok(refreshed.expires > expires)
  t.equal(refreshed.token, token)
  await locks.release(asPath('/a/b'), token, ada)
  t.equal(stops({ path: '/a' }), undefined)
})

void t.test('dropWithin() deletes the locks below a path, and that of the path itself if asked to', async (t) => {
  const { lock, locks, store } = await fresh()
  const own = await lock('/a')
  await lock('/a/b')
  await lock('/a/b/c', shared)
  const other = await lock('/ab')
  await locks.dropWithin(asPath('/a'), false)
  t.same(
    locks.list().map(({ token }) => token),
    [own.token, other.token],
  )
  await locks.dropWithin(asPath('/a'), true)
  t.same([...store.rows.keys()], [other.token])
})

void t.test('locks survive a restart, and reload() applies changes of another process', async (t) => {
  const { lock, store, locks } = await fresh()
  const { token } = await lock('/a')
  const again = await Locks.load(store)
  t.equal(again.blocking({ path: asPath('/a') }, ada, [])?.token, token)
  await again.break(token)
  await locks.reload()
  t.same(locks.list(), [])
})

void t.test('reload() keeps locks granted meanwhile and does not restore locks released meanwhile', async (t) => {
  const { lock, locks, store } = await fresh()
  const old = await lock('/old')
  const all = store.all.bind(store)
  let read: () => void = () => undefined
  store.all = async () => {
    const rows = await all()
    await new Promise<void>((resolve) => (read = resolve))
    store.all = all
    return rows
  }
  const reloading = locks.reload()
  await new Promise(setImmediate)
  const { token } = await lock('/a')
  await locks.break(old.token)
  read()
  await reloading
  t.same(
    locks.list().map((each) => each.token),
    [token],
  )
})

void t.test('the cost of checking a change does not depend on the number of locks of other paths', async (t) => {
  const { lock, stops } = await fresh()
  const change = () =>
    processorTime(() => {
      for (let i = 0; i < 10_000; i++) stops({ path: '/a/b/c', membership: true })
    }, 5)
  await lock('/many', {}, ada)
  const few = await change()
  for (let i = 0; i < 2000; i++) await lock(`/many/${i}`, {}, i % 2 === 0 ? ada : bob)
  const many = await change()
  t.ok(many < 5 * few, `${few.toFixed(1)} ms with one lock, ${many.toFixed(1)} ms with 2001`)
})

void t.test('the cost of checking a change does not depend on the number of tokens that are presented', async (t) => {
  const { lock, stops } = await fresh()
  for (let i = 0; i < 2000; i++) await lock('/a', shared)
  const tokens = Array.from({ length: 200 }, () => `urn:uuid:${randomUUID()}`)
  const check = (presented: readonly string[]) =>
    processorTime(() => {
      for (let i = 0; i < 20; i++) stops({ path: '/a' }, presented)
    }, 5)
  const few = await check(tokens.slice(0, 1))
  const many = await check(tokens)
  t.ok(many < 5 * few, `${few.toFixed(1)} ms with one token, ${many.toFixed(1)} ms with 200`)
})
