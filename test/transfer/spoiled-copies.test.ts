/** A copy that is not as its source is not there afterwards. */
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Entry } from '../../src/contract/entry.js'
import { asPath as p } from '../../src/base/path.js'
import { altered, contents, newTree, sourceOf, type Over, type Test, type Tree } from '../tree/tree-fixture.js'

const keep = { overwrite: false } as const
const replace = { overwrite: true } as const
const [from, to] = [p('/from/file'), p('/to/file')]
const incomplete = { code: 'internal', reason: 'the copy has 1 bytes, the source 7' }

interface Spoiling {
  readonly tree: Tree
  /** Whether the storage `/to` stores one byte of each file. */
  readonly set: { spoils: boolean }
}

/** A file below `/from`, and a storage `/to` that spoils what it writes. */
async function newSpoilingTree(t: Test, target = new MemoryDriver(0), source = new MemoryDriver(0)): Promise<Spoiling> {
  const set = { spoils: false }
  const write: Over['write'] = (path, sent, options) => target.write(path, set.spoils ? sourceOf('x') : sent, options)
  const tree = await newTree(t, {
    '/from': { driverOf: async () => source },
    '/to': { driverOf: async () => altered(target, { write }) },
  })
  await tree.as().write(from, sourceOf('content'))
  return { tree, set }
}

void t.test('a new file', async (t) => {
  const { tree, set } = await newSpoilingTree(t)
  for (const action of ['copy', 'move'] as const) {
    set.spoils = true
    await t.rejects(tree.as()[action](from, to, keep), incomplete)
    t.same(await contents(tree.as(), p('/to')), {})
    t.same(await contents(tree.as(), p('/from')), { '/from/file': 'content' })
    set.spoils = false
    await tree.as().copy(from, to, keep)
    t.same(await contents(tree.as(), p('/to')), { '/to/file': 'content' })
    await tree.as().remove(to)
  }
})

void t.test('a file with another digest', async (t) => {
  const withDigest = (driver: MemoryDriver, md5: string): MemoryDriver => {
    const add = (entry: Entry) => ({ ...entry, hashes: { md5 } })
    const [stat, write] = [driver.stat.bind(driver), driver.write.bind(driver)]
    return Object.assign(driver, {
      stat: async (...args: Parameters<typeof stat>) => add(await stat(...args)),
      write: async (...args: Parameters<typeof write>) => add(await write(...args)),
    })
  }
  const [one, other] = ['a', 'b'].map((md5) => withDigest(new MemoryDriver(0), md5))
  const { tree } = await newSpoilingTree(t, one, other)
  await t.rejects(tree.as().copy(from, to, keep), { code: 'internal', reason: 'the copy has another md5' })
  t.same(await contents(tree.as(), p('/to')), {})
})

void t.test('a file that has replaced another one, or a folder, which is back', async (t) => {
  const { tree, set } = await newSpoilingTree(t)
  await tree.as().write(to, sourceOf('old'))
  set.spoils = true
  await t.rejects(tree.as().copy(from, to, replace), incomplete)
  t.same(await contents(tree.as(), p('/to')), {})
  set.spoils = false
  await tree.as().write(p('/to/file/member'), sourceOf('old'), { parents: true })
  set.spoils = true
  await t.rejects(tree.as().copy(from, to, replace), incomplete)
  t.same(await contents(tree.as(), p('/to')), { '/to/file': null, '/to/file/member': 'old' })
})

void t.test('but what may be the source itself, under another name, is left', async (t) => {
  const both = new MemoryDriver(0)
  const { tree, set } = await newSpoilingTree(t, both, both)
  set.spoils = true
  const reason = `${incomplete.reason}, and was not removed`
  await t.rejects(tree.as().copy(from, to, replace), { code: 'internal', reason })
  t.same(await contents(tree.as(), p('/from')), { '/from/file': 'x' })
})

void t.test('but what another program has written meanwhile is left', async (t) => {
  const target = new MemoryDriver(0)
  const write: Over['write'] = async (path, _sent, options) => {
    const copy = await target.write(path, sourceOf('x'), options)
    await target.write(path, sourceOf('of another program'))
    return copy
  }
  const tree = await newTree(t, {
    '/from': { driverOf: async () => new MemoryDriver(0) },
    '/to': { driverOf: async () => altered(target, { write }) },
  })
  await tree.as().write(from, sourceOf('content'))
  const reason = `${incomplete.reason}, and was not removed`
  await t.rejects(tree.as().copy(from, to, keep), { code: 'internal', reason })
  t.same(await contents(tree.as(), p('/to')), { '/to/file': 'of another program' })
})
