/** A driver that is based on other storages: its changes take the same locks and checks as all others. */
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { SubtreeDriver } from '../../src/tree/subtree-driver.js'
import { contents, newTree, openBody, sourceOf, text, type Test } from './tree-fixture.js'

const p = asPath

async function based(t: Test) {
  const tree = await newTree(t, { '/base': {}, '/other': {} })
  const subtree = new SubtreeDriver(tree.dependencies, p('/base'))
  await tree.mount('/over', { driverOf: async () => subtree })
  return { tree, fs: tree.as(), subtree }
}

void t.test('of two createOnly writes of a file through different paths, the later one fails', async (t) => {
  const { tree, fs } = await based(t)
  const { source, body } = openBody()
  const first = fs.write(p('/over/file'), source, { createOnly: true })
  body.push('first')
  await fs.write(p('/base/file'), sourceOf('second'), { createOnly: true })
  body.push(null)
  await t.rejects(first, { code: 'exists' })
  t.equal(await text(tree.as().read(p('/base/file'))), 'second')
})

void t.test('a folder is listed in pages of at most 1,000 entries, as a driver promises', async (t) => {
  const { fs, subtree } = await based(t)
  for (let index = 0; index < 1001; index++) await fs.mkdir(p(`/base/${index}`))
  const sizes: number[] = []
  for await (const page of subtree.pages(p('/'))) sizes.push(page.length)
  t.same(sizes, [1000, 1])
})

void t.test('a change through the driver waits for the path lock of the entry below', async (t) => {
  const { tree, subtree } = await based(t)
  await subtree.mkdir(p('/folder'))
  const release = await tree.dependencies.pathLocks.acquire([{ path: p('/base/folder'), tree: true }])
  const removing = subtree.removeTree(p('/folder'))
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal((await subtree.stat(p('/folder'))).kind, 'folder', 'it waits for the path lock')
  release()
  await removing
  await t.rejects(subtree.stat(p('/folder')), { code: 'not_found' })
})

void t.test("a user's lock blocks changes of the same file through the driver", async (t) => {
  const { fs, subtree } = await based(t)
  await fs.write(p('/base/file'), sourceOf('old'))
  const request = { scope: 'exclusive', deep: false, owner: '', seconds: 60 } as const
  await fs.lock(p('/base/file'), request)
  const changes: readonly (() => Promise<unknown>)[] = [
    () => subtree.write(p('/file'), sourceOf('new')),
    () => subtree.remove(p('/file')),
    () => subtree.removeTree(p('/file')),
    () => subtree.move(p('/file'), p('/moved')),
    () => subtree.setAttributes(p('/file'), { modified: new Date(0) }),
    () => subtree.copy(p('/file'), p('/file')),
  ]
  for (const change of changes) {
    await t.rejects(change(), { code: 'locked' })
  }
  t.same(await contents(fs, p('/base')), { '/base/file': 'old' })
})

void t.test('properties and folder rules follow a move, and properties are deleted with their file', async (t) => {
  const { tree, fs, subtree } = await based(t)
  await fs.mkdir(p('/base/folder'))
  await fs.write(p('/base/folder/file'), sourceOf('x'))
  const property = { namespace: 'urn:x', name: 'color', value: 'red', language: '' }
  await fs.setProperties(p('/base/folder/file'), [{ set: property }])
  await tree.rule('/base/folder', { hide: '^secret$' })
  await subtree.move(p('/folder'), p('/moved'))
  t.match(await fs.properties(p('/base/moved/file')), [{ value: 'red' }])
  t.same(
    tree.dependencies.rules.list().map(({ path }) => path),
    ['/base/moved'],
  )
  await subtree.removeTree(p('/moved'))
  t.same(await tree.store.properties.of(p('/base/moved/file')), [])
})

void t.test('moving or removing a folder that contains a mount point is denied', async (t) => {
  const { tree, subtree } = await based(t)
  await subtree.mkdir(p('/folder'))
  await tree.mount('/base/folder/mounted')
  await t.rejects(subtree.removeTree(p('/folder')), { code: 'denied' })
  await t.rejects(subtree.move(p('/folder'), p('/moved')), { code: 'denied' })
})

void t.test('mount points below are listed and readable, except a mount of the driver itself', async (t) => {
  const tree = await newTree(t, { '/base': {}, '/base/near': {}, '/far/deep/mounted': {} })
  await tree.as().write(p('/base/near/x'), sourceOf('near'))
  await tree.as().write(p('/far/deep/mounted/x'), sourceOf('far'))
  const shows = (path: string) => ({ driverOf: async () => new SubtreeDriver(tree.dependencies, p(path)) })
  const over = await tree.mount('/over', shows('/base'))
  t.same(await contents(tree.as(), p('/over')), { '/over/near': null, '/over/near/x': 'near' })
  await tree.supervisor.remove(over.id)
  await tree.mount('/over-far', shows('/far'))
  t.same(await contents(tree.as(), p('/over-far')), {
    '/over-far/deep': null,
    '/over-far/deep/mounted': null,
    '/over-far/deep/mounted/x': 'far',
  })
  await t.rejects(tree.as().stat(p('/over-far/none')), { code: 'not_found' })
  await tree.mount('/base/self', { driverOf: async (env) => env.tree(p('/base')) })
  t.same(await contents(tree.as(), p('/base/self')), { '/base/self/near': null, '/base/self/near/x': 'near' })
  await t.rejects(tree.as().stat(p('/base/self/self')), { code: 'not_found' })
})

void t.test('the driver uses the same one of several load-balanced storages for all calls', async (t) => {
  const tree = await newTree(t, { '/base.balance1': {}, '/base.balance2': {} })
  const subtree = new SubtreeDriver(tree.dependencies, p('/base'))
  await subtree.write(p('/x'), sourceOf('abc'))
  for (let round = 0; round < 3; round++) {
    t.equal((await subtree.stat(p('/x'))).size, 3)
    t.equal(await text(subtree.read(p('/x'))), 'abc')
    await subtree.mkdir(p(`/folder-${round}`))
    await subtree.move(p('/x'), p(`/folder-${round}/x`))
    await subtree.copy(p(`/folder-${round}/x`), p('/x'))
  }
})

void t.test('storages that are based on each other in a circle are unavailable', async (t) => {
  const tree = await newTree(t)
  await tree.mount('/one', { driverOf: async () => new SubtreeDriver(tree.dependencies, p('/two')) })
  await tree.mount('/two', { driverOf: async () => new SubtreeDriver(tree.dependencies, p('/one')) })
  const fs = tree.as()
  await t.rejects(fs.write(p('/one/file'), sourceOf('x')), { code: 'unavailable' })
  await t.rejects(fs.mkdir(p('/one/folder')), { code: 'unavailable' })
  await t.rejects(fs.list(p('/one')), { code: 'unavailable' })
})
