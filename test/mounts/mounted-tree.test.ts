/** Symlinks in the whole tree. Entries and listings are tested through `VirtualFs`. */
import t from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import { asPath, type Path } from '../../src/base/path.js'
import { MountedTree } from '../../src/mounts/mounted-tree.js'
import { createLog } from '../../src/process/log.js'
import { altered, newTree, type MountAsk, type Over } from '../tree/tree-fixture.js'

const p = asPath

/** A storage whose `/link` is a symlink to this path. */
function linking(target: string, over: Over = {}): MountAsk {
  const realPath = async (path: Path) => (path === '/link' ? p(target) : path)
  return { driverOf: async () => altered(new MemoryDriver(0), { realPath, ...over }) }
}

const look = async (path: Path) => ({
  path: path === '/link' ? p('/file') : path,
  entry: { name: 'file', kind: 'file', size: 1, modified: new Date(0) } as const,
})

async function treeOf(t: Parameters<typeof newTree>[0], mounted: Readonly<Record<string, MountAsk>>) {
  const tree = await newTree(t, mounted)
  return new MountedTree(tree.mounts, createLog('silent'))
}

void t.test('realPath() resolves symlinks by the storage of the path', async (t) => {
  const tree = await treeOf(t, { '/a': linking('/folder/file'), '/b': {} })
  t.equal(await tree.realPath(p('/a/link'), { last: true }), '/a/folder/file')
  t.equal(await tree.realPath(p('/a/x')), '/a/x')
  t.equal(await tree.realPath(p('/b/link')), '/b/link')
  t.equal(await tree.realPath(p('/nowhere/link')), '/nowhere/link', 'a path of no storage has no symlinks')
})

void t.test('realPath() rejects a symlink that leads into another storage', async (t) => {
  const tree = await treeOf(t, { '/a': linking('/inner/file'), '/a/inner': {} })
  await t.rejects(tree.realPath(p('/a/link')), { code: 'denied', reason: 'a symlink leads into another storage' })
})

void t.test('realPath() requires storages that share a mount point to resolve a symlink alike', async (t) => {
  const same = await treeOf(t, { '/a.balance1': linking('/x'), '/a.balance2': linking('/x') })
  t.equal(await same.realPath(p('/a/link')), '/a/x')
  const different = await treeOf(t, { '/a.balance1': linking('/x'), '/a.balance2': linking('/y') })
  await t.rejects(different.realPath(p('/a/link')), { code: 'denied', reason: /do not agree/ })
})

void t.test('look() returns the real path and its entry, unless mount points are involved', async (t) => {
  const tree = await treeOf(t, { '/a': linking('/file', { look }), '/a/deep/inner': {}, '/b': {} })
  t.match(await tree.look(p('/a/link')), { path: '/a/file', entry: { size: 1 } })
  for (const path of ['/', '/a', '/a/deep', '/a/deep/inner', '/nowhere'])
    t.equal(await tree.look(p(path)), undefined, path)
  t.same(await tree.look(p('/b/x')), { path: '/b/x', entry: undefined }, 'by two calls of the driver')
  const leading = await treeOf(t, { '/a': linking('/file', { look }), '/a/file': {} })
  t.equal(await leading.look(p('/a/link')), undefined, 'a storage is mounted where the symlink leads')
  const shared = await treeOf(t, {
    '/a.balance1': linking('/file', { look }),
    '/a.balance2': linking('/file', { look }),
  })
  t.equal(await shared.look(p('/a/link')), undefined, 'another storage shares the mount point')
})
