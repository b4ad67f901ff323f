/** Path locks of two nodes exclude each other as those of one process do. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { asPath, foldCase, isWithin } from '../../src/base/path.js'
import { SharedPathLocks } from '../../src/cluster/shared-path-locks.js'
import type { PathClaim, PathLocks } from '../../src/locks/path-locks.js'
import { openStore } from '../../src/database/store.js'
import { lacks } from '../programs.js'
import { startPostgres } from '../servers/postgres.js'
import { thisServer } from '../database/engines.js'

const skip = lacks('postgres', 'initdb')

const name = (path: string): PathClaim => ({ path: asPath(path), tree: false })
const tree = (path: string): PathClaim => ({ path: asPath(path), tree: true })

async function locksOf(t: Test, location: string): Promise<PathLocks> {
  const store = await openStore(location)
  const { shared } = store
  if (!shared) throw new Error('not shared')
  t.teardown(() => store.close())
  return new SharedPathLocks(shared, { take: () => [], putBack: () => undefined }, new Map())
}

async function twoNodes(t: Test): Promise<readonly [PathLocks, PathLocks]> {
  const location = await (await thisServer()).createDatabase()
  return [await locksOf(t, location), await locksOf(t, location)]
}

function overlaps(one: PathClaim, other: PathClaim): boolean {
  const [first, second] = [foldCase(one.path), foldCase(other.path)]
  return first === second || (one.tree && isWithin(first, second)) || (other.tree && isWithin(second, first))
}

void t.test('claims that overlap are never held at once, others are', { skip }, async (t) => {
  const nodes = await twoNodes(t)
  const held = new Set<readonly PathClaim[]>()
  let most = 0
  const paths = ['/a', '/A', '/a/b', '/a/b/c', '/a/d', '/b', '/b/c', '/c', '/']
  const random = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)] as T
  const worker = async (locks: PathLocks) => {
    for (let round = 0; round < 25; round++) {
      const claims = Array.from({ length: 1 + Math.floor(Math.random() * 3) }, () =>
        (Math.random() < 0.3 ? tree : name)(random(paths)),
      )
      const release = await locks.acquire(claims)
      for (const others of held) {
        const clash = claims.some((one) => others.some((other) => overlaps(one, other)))
        if (clash) t.fail(`${JSON.stringify(claims)} beside ${JSON.stringify(others)}`)
      }
      held.add(claims)
      most = Math.max(most, held.size)
      await wait(Math.random() * 3)
      held.delete(claims)
      release()
    }
  }
  await Promise.all(nodes.flatMap((locks) => Array.from({ length: 6 }, () => worker(locks))))
  t.ok(most > 1, 'some were held together')
})

void t.test('a tree excludes what is deeper than the locks of one change', { skip }, async (t) => {
  const [one, two] = await twoNodes(t)
  const deep = '/x'.repeat(500)
  const release = await one.acquire([tree('/x/x')])
  let isGranted = false
  const waiting = two.acquire([name(deep)]).then((release) => {
    isGranted = true
    return release
  })
  await wait(300)
  t.notOk(isGranted)
  release()
  ;(await waiting)()
  const first = await one.acquire([name(deep)])
  ;(await two.acquire([name('/x/x/y')]))()
  first()
})

void t.test('a lock that another node holds for long is busy', { skip }, async (t) => {
  const [one, two] = await twoNodes(t)
  const release = await one.acquire([name('/a')])
  await t.rejects(two.acquire([name('/a')]), { code: 'busy' })
  release()
  ;(await two.acquire([name('/a')]))()
})

void t.test('a request that aborts does not wait for the lock of another node', { skip }, async (t) => {
  const [one, two] = await twoNodes(t)
  const release = await one.acquire([name('/a')])
  const controller = new AbortController()
  const aborted = two.acquire([name('/a')], controller.signal)
  await wait(100)
  controller.abort()
  await t.rejects(aborted, { code: 'aborted' })
  let isGranted = false
  const next = two.acquire([name('/a')]).then((release) => {
    isGranted = true
    return release
  })
  await wait(100)
  t.notOk(isGranted, 'the next change of that node waits')
  release()
  ;(await next)()
  ;(await one.acquire([name('/a')]))()
})

void t.test('a restart of the database releases all locks, and the next ones are granted', { skip }, async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const location = await server.createDatabase()
  const [one, two] = [await locksOf(t, location), await locksOf(t, location)]
  const release = await one.acquire([name('/a')])
  await server.kill()
  await t.rejects(two.acquire([name('/b')]), { code: 'unavailable' })
  const waiting = two.acquire([name('/a')])
  await wait(100)
  await server.restart()
  ;(await waiting)()
  release()
  ;(await one.acquire([name('/a')]))()
})
