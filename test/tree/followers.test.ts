/** What processes that share a database know of each other's moves item by item. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { asPath as p } from '../../src/base/path.js'
import { openStore } from '../../src/database/store.js'
import { createLog } from '../../src/process/log.js'
import { Followers } from '../../src/tree/followers.js'
import { Rules } from '../../src/tree/folder-rules.js'
import { ruleRow } from '../database/store-rows.js'

const { signal } = new AbortController()
const moveId = Symbol('move')

/** A process with a node's id and the folder rules of the database. */
async function processOf(t: Test, file: string, id: string) {
  const store = await openStore(file, { node: id })
  t.teardown(() => store.close())
  await store.nodes.join({ id, name: id, version: 'v0', addresses: '{}' })
  const rules = await Rules.load(store)
  const { moves } = store
  const log = createLog('silent')
  const followers = new Followers([rules], { moves, ofOthers: (read) => read(), log })
  /** The paths below which the rule applies, of these. */
  const closed = async (...paths: readonly string[]) => {
    await followers.reload()
    return paths.filter((path) => rules.nearest(p(path)) !== undefined)
  }
  return { store, rules, followers, closed }
}

async function twoProcesses(t: Test) {
  const file = join(t.testdir(), 'tidegate.db')
  const moving = await processOf(t, file, 'moveId')
  await moving.rules.create(ruleRow({ path: p('/from/secret'), password: 'x' }))
  return { moving, other: await processOf(t, file, 'other') }
}

void t.test('the rules of a folder apply at both paths in every process until they are stored', async (t) => {
  const { moving, other } = await twoProcesses(t)
  const end = await moving.followers.duringMoveByItems(p('/from'), p('/to'), moveId, signal)
  for (const each of [moving, other])
    t.same(await each.closed('/from/secret', '/to/secret', '/to'), ['/from/secret', '/to/secret'])
  await moving.followers.move(p('/from'), p('/to'))
  for (const each of [moving, other]) t.same(await each.closed('/from/secret', '/to/secret'), ['/to/secret'])
  await end(false)
  for (const each of [moving, other]) t.same(await each.closed('/from/secret', '/to/secret'), ['/to/secret'])
  t.same(await other.store.moves.ofOthers(), [])
})

void t.test('the rules of a move that has failed apply at the old path', async (t) => {
  const { moving, other } = await twoProcesses(t)
  const end = await moving.followers.duringMoveByItems(p('/from'), p('/to'), moveId, signal)
  await end(false)
  t.same(await other.closed('/from/secret', '/to/secret'), ['/from/secret'])
})

void t.test('where the rules could not be stored at the new path they apply there too', async (t) => {
  const { moving, other } = await twoProcesses(t)
  const end = await moving.followers.duringMoveByItems(p('/from'), p('/to'), moveId, signal)
  await end(true)
  for (const each of [moving, other])
    t.same(await each.closed('/from/secret', '/to/secret'), ['/from/secret', '/to/secret'])
})

void t.test('the moves of a node end with it', async (t) => {
  const { moving, other } = await twoProcesses(t)
  await moving.followers.duringMoveByItems(p('/from'), p('/to'), moveId, signal)
  await other.store.nodes.claim('other')
  t.same(await other.closed('/from/secret', '/to/secret'), ['/from/secret', '/to/secret'], 'it is alive')
  await other.store.nodes.end('moveId')
  await other.store.nodes.claim('other')
  t.same(await other.closed('/from/secret', '/to/secret'), ['/from/secret'])
})

void t.test('a move of what has no rules is not stored', async (t) => {
  const { moving, other } = await twoProcesses(t)
  const end = await moving.followers.duringMoveByItems(p('/from/open'), p('/to'), moveId, signal)
  t.same(await other.store.moves.ofOthers(), [])
  await end(false)
})

void t.test('a move that is aborted while the others learn of it is none', async (t) => {
  const { moving, other } = await twoProcesses(t)
  const aborting = new AbortController()
  const begun = moving.followers.duringMoveByItems(p('/from'), p('/to'), moveId, aborting.signal)
  aborting.abort()
  await t.rejects(begun, { code: 'aborted' })
  for (const each of [moving, other]) t.same(await each.closed('/from/secret', '/to/secret'), ['/from/secret'])
})

void t.test('a slow reload does not bring back a move that has ended', async (t) => {
  const { moving, other } = await twoProcesses(t)
  const end = await moving.followers.duringMoveByItems(p('/from'), p('/to'), moveId, signal)
  const { moves } = other.store
  const paused: (() => void)[] = []
  const followers = new Followers([other.rules], {
    moves: {
      ...{ begin: (move) => moves.begin(move), end: (id) => moves.end(id) },
      ofOthers: async () => {
        const read = await moves.ofOthers()
        await new Promise<void>((resolve) => paused.push(resolve))
        return read
      },
    },
    ofOthers: (read) => read(),
    log: createLog('silent'),
  })
  const hasPaused = async (count: number) => {
    while (paused.length < count) await new Promise((resolve) => setImmediate(resolve))
  }
  const slow = followers.reload()
  await hasPaused(1)
  await end(false)
  const quick = followers.reload()
  await hasPaused(2)
  paused[1]?.()
  await quick
  paused[0]?.()
  await slow
  t.equal(other.rules.nearest(p('/to/secret')), undefined)
})
