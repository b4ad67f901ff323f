/**
 * Bundles of small files that a driver copies in one call: files that it leaves are copied one by one, and failures are
 * reported.
 */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { FileBundle } from '../../src/contract/capabilities.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath as p, childOf } from '../../src/base/path.js'
import { principal } from '../accounts/principals.js'
import { openLocal } from '../drivers/env.js'
import { altered, contents, newTree, sourceOf, type Test, type Tree } from '../tree/tree-fixture.js'

const lockAsk = { scope: 'exclusive', deep: false, owner: '', seconds: 60 } as const
const keep = { overwrite: false } as const
const count = 100
const names = Array.from({ length: count }, (_, index) => `file-${index}`)

interface Counted {
  bundles: number
  written: number
}

/**
 * A tree of one storage, with small files in `/tree`. Its driver copies bundles, except the files for which `leaves`
 * returns true; the copies of those for which `spoils` returns true are incomplete.
 */
async function newBundlingTree(
  t: Test,
  leaves: (name: string) => boolean,
  spoils: (name: string) => boolean = () => false,
): Promise<{ tree: Tree; done: Counted }> {
  const done = { bundles: 0, written: 0 }
  const inner = new MemoryDriver(0)
  const copyFiles = async ({ from, to, files, beforePublish }: FileBundle): Promise<readonly (Entry | undefined)[]> => {
    done.bundles += 1
    const wanted = await beforePublish(files.map(({ name }) => name).filter((name) => !leaves(name)))
    const copies = files.map(async ({ name }) => {
      if (!wanted.has(name)) return undefined
      if (spoils(name)) await inner.write(childOf(to, name), sourceOf('x'))
      else await inner.copy(childOf(from, name), childOf(to, name))
      return inner.stat(childOf(to, name))
    })
    return Promise.all(copies)
  }
  const driver = altered(inner, {
    copyFiles,
    copy: undefined,
    write: (...args) => {
      done.written += 1
      return inner.write(...args)
    },
  })
  const tree = await newTree(t, { '/': { driverOf: async () => driver } })
  for (const name of names) await tree.as().write(p(`/tree/${name}`), sourceOf(name), { parents: true })
  done.written = 0
  return { tree, done }
}

function expected(folder: string): Record<string, string | null> {
  return { [folder]: null, ...Object.fromEntries(names.map((name) => [`${folder}/${name}`, name])) }
}

async function found({ as }: Tree, folder: string): Promise<Record<string, string | null>> {
  return { [folder]: null, ...(await contents(as(), p(folder))) }
}

void t.test('small files are copied in bundles, and files that the driver leaves are copied one by one', async (t) => {
  const { tree, done } = await newBundlingTree(t, (name) => name.endsWith('3'))
  await tree.as().copy(p('/tree'), p('/copy'), keep)
  t.same(await found(tree, '/copy'), expected('/copy'))
  t.same(done, { bundles: 2, written: 10 })
  await tree.as().move(p('/copy'), p('/tree/in'), { ...keep, merge: true })
  t.equal(done.bundles, 2, 'a merge makes no bundles')
  t.same(await found(tree, '/tree/in'), expected('/tree/in'))
})

void t.test('a locked target path is reported, and the other files are copied', async (t) => {
  const { tree } = await newBundlingTree(t, () => false)
  await tree.dependencies.locks.grant(p('/copy/file-7'), lockAsk, principal({ userId: 2 }))
  const failed = { code: 'locked', failures: [{ from: '/tree/file-7', path: '/copy/file-7' }] }
  await t.rejects(tree.as().copy(p('/tree'), p('/copy'), keep), failed)
  const { '/copy/file-7': _locked, ...others } = expected('/copy')
  t.same(await found(tree, '/copy'), others)
})

void t.test('all files are copied one by one if the bundle fails', async (t) => {
  for (const code of ['unsupported', 'internal'] as const) {
    const { tree, done } = await newBundlingTree(t, () => {
      throw new GatewayError(code)
    })
    await tree.as().copy(p('/tree'), p('/copy'), keep)
    t.same(await found(tree, '/copy'), expected('/copy'))
    t.same(done, { bundles: 2, written: count })
  }
})

void t.test('an incomplete copy in a bundle is replaced', async (t) => {
  const { tree, done } = await newBundlingTree(
    t,
    () => false,
    (name) => name === 'file-7',
  )
  await tree.as().copy(p('/tree'), p('/copy'), keep)
  t.same(await found(tree, '/copy'), expected('/copy'))
  t.equal(done.written, 1)
})

void t.test('an abort during a bundle ends the copy and releases its path locks', async (t) => {
  const controller = new AbortController()
  const { tree } = await newBundlingTree(t, () => {
    controller.abort()
    return false
  })
  const copy = tree.as().copy(p('/tree'), p('/copy'), { ...keep, signal: controller.signal })
  await t.rejects(copy, { code: 'aborted' })
  const release = await tree.dependencies.pathLocks.acquire([{ path: p('/copy'), tree: true }], undefined, {
    timeout: 100,
  })
  release()
})

void t.test('a copy does not write through a symlink that replaces its target folder meanwhile', async (t) => {
  for (const files of [3, 40]) {
    const host = mkdtempSync(join(tmpdir(), 'tidegate-bundle-'))
    t.teardown(() => rmSync(host, { recursive: true, force: true }))
    for (const folder of ['from/tree/folder', 'to/closed']) mkdirSync(join(host, folder), { recursive: true })
    for (const name of names.slice(0, files)) writeFileSync(join(host, 'from/tree/folder', name), name)
    const tree = await newTree(t, { '/': { driverOf: () => openLocal(host) } })
    await tree.rule('/to/closed', { writeUsers: [1], writeUsersSub: true })
    const swap = tree.dependencies.events.on((event) => {
      if (event.kind !== 'folder made' || event.path !== '/to/tree/folder') return
      renameSync(join(host, 'to/tree/folder'), join(host, 'to/tree/away'))
      symlinkSync('../closed', join(host, 'to/tree/folder'))
    })
    t.teardown(swap)
    await t.rejects(tree.as({ userId: 2 }).copy(p('/from/tree'), p('/to/tree'), keep), { code: 'busy' })
    t.same(readdirSync(join(host, 'to/closed')), [])
  }
})

void t.test('a copy over a symlink to a write-protected file is denied', async (t) => {
  const host = mkdtempSync(join(tmpdir(), 'tidegate-bundle-'))
  t.teardown(() => rmSync(host, { recursive: true, force: true }))
  for (const folder of ['from/tree', 'to/tree', 'to/closed']) mkdirSync(join(host, folder), { recursive: true })
  writeFileSync(join(host, 'from/tree/file'), 'new')
  writeFileSync(join(host, 'to/closed/secret'), 'old')
  symlinkSync('../closed/secret', join(host, 'to/tree/file'))
  const tree = await newTree(t, { '/': { driverOf: () => openLocal(host) } })
  await tree.rule('/to/closed', { writeUsers: [1], writeUsersSub: true })
  const copy = tree.as({ userId: 2 }).copy(p('/from/tree'), p('/to/tree'), { overwrite: true })
  await t.rejects(copy, { code: 'denied' })
  t.equal(readFileSync(join(host, 'to/closed/secret'), 'utf8'), 'old')
})
