/**
 * A storage that ignores case and Unicode form: another spelling of a name neither bypasses a check nor loses a file.
 */
import t, { type Test } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import { asPath } from '../../src/base/path.js'
import { altered, contents, fill, newTree, sourceOf, text, type MountAsk, type Over } from '../tree/tree-fixture.js'

const p = asPath
const folding = (over: Over = {}): MountAsk => ({ driverOf: async () => altered(new MemoryDriver(0, false), over) })

/** A case-insensitive storage with a file, and the tree as an admin sees it. */
async function scene(t: Test, over: Over = {}) {
  const tree = await newTree(t, { '/': {}, '/disk': folding(over) })
  const fs = tree.as()
  await fs.mkdir(p('/disk/Folder'))
  await fs.write(p('/disk/Folder/File'), sourceOf('one'))
  return { tree, fs }
}

void t.test('another spelling of a path refers to the same file, whose name does not change', async (t) => {
  const { fs } = await scene(t)
  t.match(await fs.stat(p('/disk/FOLDER/file')), { name: 'File', size: 3 })
  t.equal(await text(fs.read(p('/disk/folder/FILE'))), 'one')
  await fs.write(p('/disk/FOLDER/FILE'), sourceOf('two'))
  await fs.write(p('/disk/folder/new'), sourceOf('new'))
  t.same(await contents(fs, p('/disk')), {
    '/disk/Folder': null,
    '/disk/Folder/File': 'two',
    '/disk/Folder/new': 'new',
  })
  await t.rejects(fs.write(p('/disk/folder/FILE'), sourceOf('x'), { createOnly: true }), { code: 'exists' })
  await t.rejects(fs.mkdir(p('/disk/FOLDER')), { code: 'exists' })
  await fs.remove(p('/disk/FOLDER/NEW'))
  t.same(await contents(fs, p('/disk')), { '/disk/Folder': null, '/disk/Folder/File': 'two' })
})

void t.test('of two new files in different spellings of one name, one is rejected', async (t) => {
  const { fs } = await scene(t)
  const writes = ['/disk/New', '/disk/NEW'].map((path) => fs.write(p(path), sourceOf(path), { createOnly: true }))
  const outcomes = (await Promise.allSettled(writes)).map(({ status }) => status)
  t.same(outcomes.sort(), ['fulfilled', 'rejected'])
  t.equal((await fs.list(p('/disk'))).total, 2)
})

void t.test('another spelling, of the path or of the rule, does not bypass a rule', async (t) => {
  const { tree } = await scene(t)
  await tree.rule('/disk/Folder', { password: 'open sesame', passwordSub: true })
  const user = tree.as({ may: ['write', 'remove', 'rename', 'move'] })
  for (const spelling of ['/disk/Folder', '/disk/FOLDER', '/disk/folder']) {
    await t.rejects(user.list(p(spelling)), { code: 'password_required' }, spelling)
    await t.rejects(user.read(p(`${spelling}/file`)), { code: 'password_required' }, spelling)
    await t.rejects(user.write(p(`${spelling}/new`), sourceOf('x')), { code: 'password_required' }, spelling)
    await t.rejects(user.remove(p(spelling)), { code: 'password_required' }, spelling)
  }
  t.equal(await text(user.read(p('/disk/FOLDER/FILE'), undefined, { password: 'open sesame' })), 'one')
})

void t.test('a rule applies in any spelling, also if its folder is created later', async (t) => {
  const { tree } = await scene(t)
  await tree.rule('/disk/SECRET', { readUsers: [99] })
  const fs = tree.as({ userId: 99 })
  const user = tree.as({ may: ['write', 'rename', 'move'] })
  await fs.mkdir(p('/disk/secret'))
  await fs.write(p('/disk/secret/file'), sourceOf('x'))
  t.same(
    (await user.list(p('/disk'))).entries.map(({ name }) => name),
    ['Folder'],
    'the folder is not listed',
  )
  for (const spelling of ['/disk/secret', '/disk/Secret', '/disk/SECRET']) {
    await t.rejects(user.list(p(spelling)), { code: 'hidden' }, spelling)
    await t.rejects(user.read(p(`${spelling}/FILE`)), { code: 'hidden' }, spelling)
  }
  await fs.move(p('/disk/secret'), p('/disk/elsewhere'), { overwrite: false })
  await t.rejects(user.list(p('/disk/Elsewhere')), { code: 'hidden' }, 'the rule moves with its folder')
})

void t.test('a hidden name is hidden in every spelling', async (t) => {
  const { tree, fs } = await scene(t)
  await fs.write(p('/disk/Folder/secret'), sourceOf('x'))
  await tree.rule('/disk/FOLDER', { hide: '^secret$' })
  const user = tree.as({ may: ['write'] })
  t.same(
    (await user.list(p('/disk/folder'))).entries.map(({ name }) => name),
    ['File'],
  )
  for (const name of ['secret', 'Secret', 'SECRET']) {
    await t.rejects(user.read(p(`/disk/Folder/${name}`)), { code: 'hidden' }, name)
    await t.rejects(user.write(p(`/disk/Folder/${name}`), sourceOf('y')), { code: 'hidden' }, name)
  }
  t.equal(await text(fs.read(p('/disk/Folder/SECRET'))), 'x')
})

void t.test('another spelling does not bypass a lock', async (t) => {
  const { tree, fs } = await scene(t)
  const request = { scope: 'exclusive', deep: false, owner: '', seconds: 60 } as const
  const { lock } = await fs.lock(p('/disk/FOLDER/file'), request)
  t.equal(lock.path, '/disk/Folder/File')
  const other = tree.as({ userId: 2, may: ['write', 'remove', 'rename', 'move'] })
  for (const spelling of ['/disk/folder/FILE', '/disk/Folder/File']) {
    await t.rejects(other.write(p(spelling), sourceOf('x')), { code: 'locked' }, spelling)
    await t.rejects(other.remove(p(spelling)), { code: 'locked' }, spelling)
    await t.rejects(other.move(p(spelling), p('/disk/x'), { overwrite: false }), { code: 'locked' }, spelling)
  }
  await t.rejects(
    other
      .write(p('/disk/x'), sourceOf('x'))
      .then(() => other.move(p('/disk/x'), p('/disk/FOLDER/FILE'), { overwrite: true })),
    { code: 'locked' },
  )
  await fs.write(p('/disk/folder/file'), sourceOf('mine'), { lockTokens: [lock.token] })
  await fs.unlock(p('/disk/FOLDER/FILE'), lock.token)
  await other.write(p('/disk/folder/FILE'), sourceOf('theirs'))
})

void t.test('a move to another spelling renames the file or folder and removes nothing', async (t) => {
  const { tree, fs } = await scene(t)
  await fs.setProperties(p('/disk/Folder/File'), [{ set: { namespace: 'n', name: 'a', value: '<a/>', language: '' } }])
  await tree.rule('/disk/Folder', { readme: 'hello' })
  await fs.move(p('/disk/Folder/File'), p('/disk/Folder/FILE'), { overwrite: false })
  await fs.move(p('/disk/folder'), p('/disk/FOLDER'), { overwrite: true })
  t.same(await contents(fs, p('/disk')), { '/disk/FOLDER': null, '/disk/FOLDER/FILE': 'one' })
  t.equal((await fs.properties(p('/disk/folder/file'))).length, 1, 'properties move, too')
  t.equal((await fs.list(p('/disk/Folder'))).folder.readme, 'hello')
  t.same(
    tree.dependencies.rules.list().map(({ path }) => path),
    ['/disk/FOLDER'],
  )
})

void t.test('a storage without move() rejects a move to another spelling and leaves the files unchanged', async (t) => {
  const { fs } = await scene(t, { move: undefined })
  await t.rejects(fs.move(p('/disk/Folder'), p('/disk/FOLDER'), { overwrite: true }), { code: 'unsupported' })
  t.same(await contents(fs, p('/disk')), { '/disk/Folder': null, '/disk/Folder/File': 'one' })
})

void t.test('a copy or a move onto another spelling of the same file changes nothing', async (t) => {
  const { fs } = await scene(t)
  await fs.copy(p('/disk/Folder'), p('/disk/FOLDER'), { overwrite: true })
  await fs.move(p('/disk/FOLDER/file'), p('/disk/folder/File'), { overwrite: true })
  t.same(await contents(fs, p('/disk')), { '/disk/Folder': null, '/disk/Folder/File': 'one' })
})

void t.test('of two names that are one name on the target, one is copied and the other reported', async (t) => {
  for (const kind of ['copy', 'move'] as const) {
    const { fs } = await scene(t)
    await fs.mkdir(p('/twins'))
    await fs.write(p('/twins/name'), sourceOf('small'))
    await fs.write(p('/twins/NAME'), sourceOf('large'))
    await t.rejects(fs[kind](p('/twins'), p('/disk/twins'), { overwrite: true }), { code: 'exists' }, kind)
    const left = Object.values(await contents(fs, p('/twins')))
    const arrived = Object.values(await contents(fs, p('/disk/twins')))
    t.equal(arrived.length, 1, kind)
    t.same([...new Set([...left, ...arrived])].sort(), ['large', 'small'], 'neither file is lost')
  }
})

void t.test('a copy that replaces a folder keeps members that differ from old ones in spelling only', async (t) => {
  const { fs } = await scene(t, { move: undefined })
  await fs.mkdir(p('/Folder'))
  await fs.write(p('/Folder/FILE'), sourceOf('two'))
  await fs.copy(p('/Folder'), p('/disk/folder'), { overwrite: true })
  t.same(Object.values(await contents(fs, p('/disk/Folder'))), ['two'])
})

void t.test('a change is visible under every spelling of the path at once', async (t) => {
  const { fs } = await scene(t, { folderRevision: undefined })
  t.equal((await fs.list(p('/disk/FOLDER'))).total, 1)
  await fs.write(p('/disk/folder/more'), sourceOf('x'))
  for (const spelling of ['Folder', 'FOLDER', 'folder']) t.equal((await fs.list(p(`/disk/${spelling}`))).total, 2)
  await fs.remove(p('/disk/FOLDER/MORE'))
  for (const spelling of ['Folder', 'FOLDER', 'folder']) t.equal((await fs.list(p(`/disk/${spelling}`))).total, 1)
})

void t.test('a base folder on such a storage works in every spelling', async (t) => {
  const { tree } = await scene(t)
  const user = tree.as({ base: p('/disk/FOLDER'), may: ['write', 'remove'] })
  t.equal((await user.stat(p('/'))).name, '')
  t.same(
    (await user.list(p('/'))).entries.map(({ name }) => name),
    ['File'],
  )
  const request = { scope: 'exclusive', deep: false, owner: '', seconds: 60 } as const
  const { lock } = await user.lock(p('/FILE'), request)
  t.equal(lock.path, '/File')
  const neighbour = tree.as({ userId: 2, base: p('/disk/folder'), may: ['write'] })
  await t.rejects(neighbour.write(p('/file'), sourceOf('x')), { code: 'locked' })
  await t.rejects(user.remove(p('/')), { code: 'denied' })
})

void t.test('a storage that is mounted below can be reached in every spelling of its mount path', async (t) => {
  const tree = await newTree(t, { '/disk': folding(), '/disk/Inner': {} })
  const fs = tree.as()
  await fs.write(p('/disk/inner/file'), sourceOf('x'))
  await fs.write(p('/disk/INNER/FILE'), sourceOf('y'))
  t.same(
    await contents(fs, p('/disk/Inner')),
    { '/disk/Inner/FILE': 'y', '/disk/Inner/file': 'x' },
    'its own names are case-sensitive',
  )
})

void t.test('on a case-sensitive storage, rules and files differ by spelling', async (t) => {
  const { tree, fs } = await scene(t)
  await fs.write(p('/file'), sourceOf('small'))
  await fs.write(p('/FILE'), sourceOf('large'))
  await tree.rule('/FILE', { readUsers: [99] })
  const user = tree.as()
  t.equal(await text(user.read(p('/file'))), 'small')
})

void t.test('requests of one session at the same time each keep the spelling that they have found', async (t) => {
  /** What happens while a symlink is resolved. */
  const meanwhile: (() => Promise<void>)[] = []
  const realPath: Driver['realPath'] = async (path, { last } = {}) => {
    const [request] = meanwhile
    if (path !== '/Link' || !request) return path
    await request()
    return last === true ? p('/Target') : path
  }
  const tree = await newTree(t, { '/': {}, '/disk': folding({ realPath }) })
  await fill(tree.as(), { '/disk/Link': 'behind the symlink', '/disk/Target': 'x', '/other': 'other' })
  await tree.rule('/elsewhere', { readme: 'symlinks are looked for' })
  const signed = tree.as({ role: 'guest', may: [], onlyPath: p('/disk/LINK') })
  let others = 0
  meanwhile.push(async () => {
    others++
    await t.rejects(signed.read(p('/other')), { code: 'denied' }, 'a request to a storage of one spelling')
  })
  t.equal(
    await text(signed.read(p('/disk/LINK'))),
    'behind the symlink',
    'the signed path is known in its own spelling',
  )
  t.ok(others > 0)
})

void t.test('requests of one session reach storages of both kinds below a base in another spelling', async (t) => {
  const tree = await newTree(t, { '/disk': folding(), '/disk/Team/Exact': {} })
  await fill(tree.as(), { '/disk/Team/File': 'one', '/disk/Team/Exact/File': 'two' })
  const user = tree.as({ base: p('/disk/TEAM') })
  const request = { scope: 'exclusive', deep: false, owner: '', seconds: 60 } as const
  for (let round = 0; round < 5; round++) {
    const [base, locked, exact, lockedThere] = await Promise.all([
      user.stat(p('/')),
      user.lock(p('/FILE'), request),
      text(user.read(p('/EXACT/File'))),
      user.lock(p('/exact/File'), request),
      t.rejects(user.remove(p('/Exact')), { code: 'denied', detail: 'mount_removed' }),
      t.rejects(user.remove(p('/')), { code: 'denied', detail: 'mount_removed' }),
    ])
    t.same([base.name, locked.lock.path, exact, lockedThere.lock.path], ['', '/File', 'two', '/Exact/File'])
    await user.unlock(p('/file'), locked.lock.token)
    await user.unlock(p('/Exact/File'), lockedThere.lock.token)
  }
})
