/** Attempts to leave the root by paths and symlinks, with every method of Local. */
import { mkdirSync, readFileSync, readdirSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { isGatewayError } from '../../../src/base/errors.js'
import {
  at,
  bytesAt,
  listed,
  namesIn,
  put,
  refuses,
  source,
  textAt,
  type WritableDriver,
} from '../../driver-conformance/subject.js'
import { openLocal } from '../env.js'

interface Scene {
  readonly root: string
  readonly outside: string
  readonly driver: WritableDriver & Required<Awaited<ReturnType<typeof openLocal>>>
}

/** A root with a folder beside it that must not be reached. */
async function scene(t: Test): Promise<Scene> {
  const base = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-escape-'))
  const root = join(base, 'root')
  const outside = join(base, 'outside')
  for (const folder of [root, outside, join(outside, 'folder'), join(root, 'inside')]) mkdirSync(folder)
  writeFileSync(join(outside, 'secret'), 'secret')
  writeFileSync(join(outside, 'folder', 'secret'), 'secret')
  writeFileSync(join(root, 'inside', 'file'), 'inside')
  const driver = (await openLocal(root)) as Scene['driver']
  t.teardown(async () => {
    await driver.close()
    await rm(base, { recursive: true })
  })
  return { root, outside, driver }
}

function assertUntouched(t: Test, outside: string): void {
  t.same(readdirSync(outside).sort(), ['folder', 'secret'], 'nothing was created or removed outside')
  t.same(readdirSync(join(outside, 'folder')), ['secret'])
  t.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'secret')
  t.equal(readFileSync(join(outside, 'folder', 'secret'), 'utf8'), 'secret')
  t.not(statSync(join(outside, 'secret')).mode & 0o777, 0o777)
}

await t.test('Local lists a symlink that leads outside as a symlink, and no method follows it', async (t) => {
  const { root, outside, driver } = await scene(t)
  const links: Record<string, string> = {
    'to-file': join(outside, 'secret'),
    'to-folder': outside,
    'relative-file': '../outside/secret',
    'relative-folder': '../outside',
    'through-inside': 'inside/../../outside',
    chained: 'to-folder/folder',
    'chained-file': 'relative-folder/secret',
    root: '/',
    up: '..',
    proc: '/proc/self/root',
    dangling: join(outside, 'new-file'),
  }
  for (const [name, target] of Object.entries(links)) symlinkSync(target, join(root, name))
  writeFileSync(join(root, 'own'), 'own')
  for (const entry of await listed(driver, '/')) {
    if (entry.name in links) t.match(entry, { kind: 'symlink' }, `${entry.name} is listed as a symlink`)
    t.same(entry, await driver.stat(at(`/${entry.name}`)))
  }
  for (const name of Object.keys(links)) {
    const link = at(`/${name}`)
    const denied = (call: () => Promise<unknown>, what: string) => refuses(t, call, 'denied', `${what} ${name}`)
    await denied(() => driver.read(link), 'read')
    await denied(() => driver.open(link, 'read'), 'open')
    await denied(() => driver.open(link, 'update'), 'open to update')
    await denied(() => driver.open(link, 'replace'), 'open to replace')
    await denied(() => driver.pages(link)[Symbol.asyncIterator]().next(), 'list')
    await denied(() => put(driver, name === '' ? '/' : `/${name}`, 'x'), 'overwrite')
    await denied(() => driver.setAttributes(link, { mode: 0o777, modified: new Date(0) }), 'setAttributes')
    await denied(() => driver.copy(link, at('/copied')), 'copy from')
    await denied(() => driver.copy(at('/own'), link), 'copy to')
    await denied(() => driver.hardLink(link, at('/hard')), 'hardLink')
    await denied(() => driver.folderRevision(link), 'folderRevision')
    await denied(() => driver.readSymlink(link), 'readSymlink')
    await denied(() => driver.look(link), 'look')
    for (const below of ['secret', 'folder', 'new'].map((each) => at(`/${name}/${each}`))) {
      await denied(() => driver.stat(below), 'stat below')
      await denied(() => driver.look(below), 'look below')
      await denied(() => driver.read(below), 'read below')
      await denied(() => put(driver, below, 'x'), 'create below')
      await denied(() => driver.mkdir(below), 'mkdir below')
      await denied(() => driver.remove(below), 'remove below')
      await denied(() => driver.removeTree(below), 'removeTree below')
      await denied(() => driver.move(at('/own'), below), 'move to below')
      await denied(() => driver.move(below, at('/stolen')), 'move from below')
      await denied(() => driver.copy(at('/own'), below), 'copy to below')
      await denied(() => driver.copy(below, at('/stolen')), 'copy from below')
      await denied(() => driver.symlink(below, 'x'), 'symlink below')
      await denied(() => driver.hardLink(at('/own'), below), 'hardLink to below')
      await denied(() => driver.setAttributes(below, { mode: 0o777 }), 'setAttributes below')
      await denied(() => driver.setSymlinkTime(below, new Date(0)), 'setSymlinkTime below')
    }
    await refuses(t, () => driver.mkdir(link), 'exists', `mkdir over ${name}`)
  }
  assertUntouched(t, outside)
  await driver.move(at('/to-folder'), at('/moved'))
  await driver.remove(at('/moved'))
  for (const name of Object.keys(links)) if (name !== 'to-folder') await driver.removeTree(at(`/${name}`))
  t.same(await namesIn(driver, '/'), ['inside', 'own'], 'the symlinks themselves can be moved and removed')
  assertUntouched(t, outside)
})

await t.test('Local follows a symlink whose target leaves the root by name and returns into it', async (t) => {
  const { root, driver } = await scene(t)
  symlinkSync('../root/inside/file', join(root, 'back'))
  symlinkSync(join(root, 'inside'), join(root, 'absolute'))
  t.equal(await textAt(driver, '/back'), 'inside')
  t.equal(await textAt(driver, '/absolute/file'), 'inside')
  t.match(await driver.stat(at('/absolute')), { kind: 'folder', isSymlink: true })
  t.equal(await driver.readSymlink(at('/absolute')), '/inside', 'its target does not reveal the path on the host')
})

await t.test('Local rejects paths with .. and the names of the staging folder', async (t) => {
  const { outside, driver } = await scene(t)
  await put(driver, '/own', 'own')
  for (const path of ['/../outside/secret', '/inside/../../outside/secret', '/..', '/inside/..'].map(at)) {
    await driver.stat(path).then(
      () => t.fail(`${path} was found`),
      (error: unknown) => t.ok(isGatewayError(error, 'denied', 'not_found', 'invalid'), path),
    )
    await t.rejects(driver.read(path))
    await t.rejects(put(driver, path, 'x'))
  }
  for (const name of ['.tidegate-staging', '.tidegate-staging/x', '.TideGate-Staging', '.tidegate-staging-0123']) {
    const path = at(`/${name}`)
    await refuses(t, () => driver.stat(path), 'not_found', `stat ${name}`)
    await refuses(t, () => driver.read(path), 'not_found', `read ${name}`)
    await refuses(t, () => driver.pages(path)[Symbol.asyncIterator]().next(), 'not_found', `list ${name}`)
    await refuses(t, () => driver.remove(path), 'not_found', `remove ${name}`)
    await refuses(t, () => driver.removeTree(path), 'not_found', `removeTree ${name}`)
    await refuses(t, () => put(driver, path, 'x'), 'denied', `write ${name}`)
    await refuses(t, () => driver.mkdir(path), 'denied', `mkdir ${name}`)
    await refuses(t, () => driver.move(at('/own'), path), 'denied', `move to ${name}`)
  }
  t.same(await namesIn(driver, '/'), ['inside', 'own'])
  assertUntouched(t, outside)
})

await t.test('errors of Local do not reveal paths of the host', async (t) => {
  const { root, driver } = await scene(t)
  symlinkSync('/etc', join(root, 'link'))
  for (const call of [
    () => driver.read(at('/none')),
    () => driver.read(at('/link')),
    () => put(driver, '/no/file', 'x'),
    () => put(driver, `/${'x'.repeat(300)}`, 'x'),
  ]) {
    await call().catch((error: unknown) => {
      t.ok(isGatewayError(error))
      t.notMatch((error as Error).message, /outside\/|root\/|\/proc|\/etc|tmp/)
    })
  }
})

/** Swaps a folder of the root for a symlink that leads outside and back, as fast as it can, in a thread of its own. */
const swapper = `
const { renameSync } = require('node:fs')
const { workerData } = require('node:worker_threads')
const { folder, link, parked, stop } = workerData
const flag = new Int32Array(stop)
while (Atomics.load(flag, 0) === 0) {
  renameSync(folder, parked); renameSync(link, folder)
  renameSync(folder, link); renameSync(parked, folder)
}
`

await t.test('Local never leaves the root while a folder is swapped for a symlink', async (t) => {
  const { root, outside, driver } = await scene(t)
  const victim = join(root, 'victim')
  mkdirSync(victim)
  writeFileSync(join(victim, 'secret'), 'inside')
  symlinkSync(join(outside, 'folder'), join(root, 'bait'))
  const stop = new SharedArrayBuffer(4)
  const workerData = { folder: victim, link: join(root, 'bait'), parked: join(root, 'parked'), stop }
  const worker = new Worker(swapper, { eval: true, workerData })
  const stopped = new Promise((resolve) => worker.once('exit', resolve))
  let reached = 0
  let leaked = 0
  const quietly = async (call: () => Promise<unknown>) => {
    try {
      await call()
      reached++
    } catch (error) {
      if (!isGatewayError(error) || error.code === 'internal') throw error
    }
  }
  for (const end = Date.now() + 2000, round = { at: 0 }; Date.now() < end || reached <= 100; round.at++) {
    const name = at(`/victim/new-${round.at}`)
    await quietly(async () => {
      if ((await textAt(driver, '/victim/secret')) !== 'inside') leaked++
    })
    await quietly(async () => {
      const handle = await driver.open(at('/victim/secret'), 'update')
      await handle.write?.([Buffer.from('inside')], 0)
      await handle.close()
    })
    await quietly(() => driver.write(name, source('x')))
    await quietly(() => driver.mkdir(at(`/victim/folder-${round.at}`)))
    await quietly(() => driver.setAttributes(at('/victim/secret'), { mode: 0o640 }))
    await quietly(() => driver.copy(at('/victim/secret'), at('/stolen')))
    await quietly(async () => {
      const found = await bytesAt(driver, '/stolen')
      if (found.toString() !== 'inside') leaked++
    })
    await quietly(() => driver.move(name, at('/victim/moved')))
    await quietly(() => driver.remove(at('/victim/moved')))
    await quietly(async () => {
      for (const entry of await listed(driver, '/victim')) if (entry.isSymlink === true) leaked++
    })
    await quietly(() => driver.removeTree(at(`/victim/folder-${round.at}`)))
  }
  Atomics.store(new Int32Array(stop), 0, 1)
  await stopped
  t.equal(leaked, 0, 'no content from outside was read')
  assertUntouched(t, outside)
})

await t.test('removeTree() does not follow a symlink that is swapped in while it runs', async (t) => {
  const { root, outside, driver } = await scene(t)
  for (let round = 0; round < 30; round++) {
    const tree = join(root, 'tree')
    mkdirSync(join(tree, 'sub'), { recursive: true })
    for (let index = 0; index < 20; index++) writeFileSync(join(tree, 'sub', `file-${index}`), '')
    const removing = driver.removeTree(at('/tree'))
    if (round % 2 === 0) await Promise.resolve()
    try {
      renameSync(join(tree, 'sub'), join(root, `parked-${round}`))
      symlinkSync(outside, join(tree, 'sub'))
    } catch {
      // removeTree() was faster.
    }
    await removing.catch((error: unknown) => t.ok(isGatewayError(error)))
    await rm(tree, { recursive: true, force: true })
  }
  assertUntouched(t, outside)
})

void t.test('look() and realPath() treat a reserved path as one that does not exist', async (t) => {
  const folder = t.testdir({})
  const driver = (await openLocal(folder)) as Scene['driver']
  mkdirSync(join(folder, '.tidegate-staging/run'), { recursive: true })
  writeFileSync(join(folder, '.tidegate-staging/run/staged'), 'content')
  const path = at('/.tidegate-staging/run/staged')
  t.same(await driver.look(path), { path, entry: undefined })
  t.equal(await driver.realPath(path, { last: true }), path)
  await driver.close()
})
