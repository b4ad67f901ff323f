import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { asPath } from '../../src/contract/path.js'
import type { Lock, LockRequest } from '../../src/store/rows.js'
import { Locks, maxLockSeconds, type LockedPath } from '../../src/tree/locks.js'
import { principal } from '../accounts/principals.js'
import { processorTime } from '../processor-time.js'
import { LocksInMemory } from './locks-in-memory.js'

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

async function fresh() {
  const store = new LocksInMemory()
  const locks = await Locks.load(store)
  const lock = (path: string, fields: Partial<LockRequest> = {}, who = ada) =>
    locks.grant(asPath(path), request(fields), who)
  /** Whether the change would be stopped, and by which lock. */
  const stops = (
    touch: Omit<LockedPath, 'path'> & { readonly path: string },
    tokens: readonly string[] = [],
    who = ada,
  ) => locks.blocking({ ...touch, path: asPath(touch.path) }, who, tokens)?.token
  return { store, locks, lock, stops }
}

void t.test('an exclusive lock refuses every other, shared locks go together', async (t) => {
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

void t.test('a deep lock goes together with nothing exclusive below it, whichever came first', async (t) => {
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

void t.test('a lock stops whoever does not present its token, its owner too, and strangers who do', async (t) => {
  const { lock, stops } = await fresh()
  const { token } = await lock('/a')
  t.equal(stops({ path: '/a' }), token)
  t.equal(stops({ path: '/a' }, [token]), undefined)
  t.equal(stops({ path: '/a' }, ['urn:uuid:other', token]), undefined)
  t.equal(stops({ path: '/a' }, [token], bob), token)
  t.equal(stops({ path: '/b' }), undefined)
  t.equal(stops({ path: '/ab' }), undefined)
})

void t.test('the program itself presents nothing', async (t) => {
  const { lock, locks } = await fresh()
  const { token } = await lock('/a')
  t.equal(locks.blocking({ path: asPath('/a') }, undefined, [token])?.token, token)
})

void t.test('any token of shared locks opens the way', async (t) => {
  const { lock, stops } = await fresh()
  const one = await lock('/a', shared)
  const other = await lock('/a', shared, bob)
  t.equal(stops({ path: '/a' }, [one.token]), undefined)
  t.equal(stops({ path: '/a' }, [other.token], bob), undefined)
  t.equal(stops({ path: '/a' }, [other.token]), one.token)
})

void t.test('a name that comes or goes is a change of its folder', async (t) => {
  const { lock, stops } = await fresh()
  const { token } = await lock('/a')
  t.equal(stops({ path: '/a/x' }), undefined, 'a shallow lock leaves its members alone')
  t.equal(stops({ path: '/a/x', membership: true }), token)
  t.equal(stops({ path: '/a/x', membership: true }, [token]), undefined)
  t.equal(stops({ path: '/a/x/y', membership: true }), undefined)
  const root = await fresh()
  const top = await root.lock('/')
  t.equal(root.stops({ path: '/a', membership: true }), top.token)
})

void t.test('a deep lock stops changes anywhere below it', async (t) => {
  const { lock, stops } = await fresh()
  const { token } = await lock('/a', deep)
  t.equal(stops({ path: '/a/b/c' }), token)
  t.equal(stops({ path: '/a/b/c', membership: true }, [token]), undefined)
})

void t.test('a change of a tree is stopped by each lock in it whose token is missing', async (t) => {
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

void t.test('a lock ends when its time is over, and is forgotten', async (t) => {
  const { lock, locks, stops, store } = await fresh()
  const { token } = await lock('/a', { seconds: 1 })
  t.equal(stops({ path: '/a' }), token)
  await sleep(1050)
  t.equal(stops({ path: '/a' }), undefined)
  t.equal(stops({ path: '/', tree: true }), undefined)
  t.same(locks.list(), [])
  await t.rejects(locks.refresh(asPath('/a'), token, 60, ada), { code: 'precondition_failed' })
  const next = await lock('/a', {}, bob)
  t.same([...store.rows.keys()], [next.token], 'the store forgot it, too')
})

void t.test('a lock does not run out while its holder is at work under it', async (t) => {
  const { lock, locks, stops } = await fresh()
  const { token } = await lock('/a', { seconds: 1 })
  const others = await lock('/b', { seconds: 1 })
  const letGo = locks.extendDuring(asPath('/a'), [token, others.token], ada)
  const strange = locks.extendDuring(asPath('/b'), [others.token], bob)
  await sleep(1500)
  t.equal(stops({ path: '/a' }), token, 'it stands')
  t.equal(stops({ path: '/b' }), undefined, 'one elsewhere, and one that somebody else presents, does not')
  letGo()
  strange()
  await sleep(1100)
  t.equal(stops({ path: '/a' }), undefined, 'it ends when the work has ended')
})

void t.test('a lock that is about to expire is extended at once, and not again and again', async (t) => {
  const { lock, locks, stops, store } = await fresh()
  const { token } = await lock('/a', { seconds: 1 })
  await sleep(900)
  let refreshes = 0
  const refresh = store.refresh.bind(store)
  store.refresh = async (...args) => {
    refreshes++
    return refresh(...args)
  }
  const stop = locks.extendDuring(asPath('/a'), [token], ada)
  await sleep(600)
  t.equal(stops({ path: '/a' }), token)
  stop()
  t.ok(refreshes >= 1 && refreshes <= 3, `${refreshes} writes`)
})

void t.test('no lock is asked for longer than a week, nor shorter than a second', async (t) => {
  const { lock } = await fresh()
  const left = (granted: Lock) => (granted.expires.getTime() - Date.now()) / 1000
  t.ok(left(await lock('/a', { seconds: 1e12 })) <= maxLockSeconds)
  t.ok(left(await lock('/b', { seconds: Number.POSITIVE_INFINITY })) <= maxLockSeconds)
  t.ok(left(await lock('/c', { seconds: -5 })) > 0)
})

void t.test('only its owner refreshes or releases a lock, and only where it covers', async (t) => {
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

void t.test('what is gone is no longer locked', async (t) => {
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

void t.test('locks survive a restart, and another process sees them', async (t) => {
  const { lock, store, locks } = await fresh()
  const { token } = await lock('/a')
  const again = await Locks.load(store)
  t.equal(again.blocking({ path: asPath('/a') }, ada, [])?.token, token)
  await again.break(token)
  await locks.reload()
  t.same(locks.list(), [])
})

void t.test('a lock granted while the store is read is not lost, one released does not come back', async (t) => {
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

void t.test('thousands of locks elsewhere cost a change nothing', async (t) => {
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
