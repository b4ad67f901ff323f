/** The contract of symlinks and hard links: which calls follow a symlink, and which act on the symlink itself. */
import type { Entry } from '../../src/contract/entry.js'
import {
  at,
  listed,
  makeFolder,
  missesParent,
  namesIn,
  put,
  refuses,
  textAt,
  without,
  type Run,
  type WritableDriver,
} from './subject.js'

export async function symlinkTests(run: Run): Promise<void> {
  const lacks = without('symlink', 'readSymlink')
  const link = async (driver: WritableDriver, path: string, target: string) => driver.symlink?.(at(path), target)

  await run(
    'a symlink is shown as its target, and keeps the text of the link',
    async (t, subject) => {
      const { driver } = subject
      await driver.mkdir(at('/folder'))
      await put(driver, '/folder/file', 'hello')
      await link(driver, '/relative', 'folder/file')
      await link(driver, '/absolute', '/folder/file')
      await link(driver, '/folder/up', '../folder')
      for (const path of ['/relative', '/absolute']) {
        t.match(await driver.stat(at(path)), { kind: 'file', isSymlink: true, size: 5, name: path.slice(1) })
        t.match(await driver.stat(at(path), { ofSymlink: true }), { kind: 'symlink', name: path.slice(1) })
        t.equal(await textAt(driver, path), 'hello')
      }
      t.equal(await driver.readSymlink?.(at('/relative')), 'folder/file')
      t.equal(await driver.readSymlink?.(at('/absolute')), '/folder/file')
      t.match(await driver.stat(at('/folder/up')), { kind: 'folder', isSymlink: true })
      t.equal(await textAt(driver, '/folder/up/up/file'), 'hello', 'through symlinks in the middle')
      for (const entry of await listed(driver, '/')) t.same(entry, await driver.stat(at(`/${entry.name}`)), entry.name)
      await refuses(t, async () => driver.readSymlink?.(at('/folder/file')), 'invalid', 'readSymlink of a file')
      await refuses(t, () => link(driver, '/relative', 'x'), 'exists', 'a name that is taken')
      await missesParent(t, subject, () => link(driver, '/no/link', 'x'))
    },
    lacks,
  )

  await run(
    'realPath() resolves the symlinks of a path',
    async (t, { driver }) => {
      await driver.mkdir(at('/folder'))
      await driver.mkdir(at('/folder/deep'))
      await put(driver, '/folder/deep/file', 'hello')
      await link(driver, '/way', 'folder/deep')
      await link(driver, '/folder/up', '..')
      await link(driver, '/last', '/way/file')
      await link(driver, '/nowhere', 'missing')
      const rows: readonly (readonly [path: string, way: string, last: string])[] = [
        ['/', '/', '/'],
        ['/folder/deep/file', '/folder/deep/file', '/folder/deep/file'],
        ['/way', '/way', '/folder/deep'],
        ['/way/file', '/folder/deep/file', '/folder/deep/file'],
        ['/way/new', '/folder/deep/new', '/folder/deep/new'],
        ['/way/new/newer', '/folder/deep/new/newer', '/folder/deep/new/newer'],
        ['/folder/up/folder/up/last', '/last', '/folder/deep/file'],
        ['/nowhere', '/nowhere', '/missing'],
        ['/nowhere/x', '/missing/x', '/missing/x'],
        ['/missing/x', '/missing/x', '/missing/x'],
      ]
      for (const [path, way, last] of rows) {
        t.equal(await driver.realPath?.(at(path)), way, path)
        t.equal(await driver.realPath?.(at(path), { last: true }), last, `${path}, resolved to the end`)
        if (!driver.look) continue
        const entry = await driver.stat(at(last)).catch(() => undefined)
        t.same(await driver.look(at(path)), { path: last, entry }, `${path}, with its entry`)
      }
    },
    without('symlink', 'realPath'),
  )

  await run(
    'a write to a symlink changes its target; remove() and move() affect the symlink itself',
    async (t, { driver }) => {
      await driver.mkdir(at('/folder'))
      await put(driver, '/folder/file', 'hello')
      await link(driver, '/link', 'folder/file')
      await link(driver, '/tree', 'folder')
      t.same(await put(driver, '/link', 'changed'), await driver.stat(at('/link')))
      t.equal(await textAt(driver, '/folder/file'), 'changed')
      t.match(await driver.stat(at('/link'), { ofSymlink: true }), { kind: 'symlink' })
      await driver.move?.(at('/link'), at('/moved'))
      t.equal(await driver.readSymlink?.(at('/moved')), 'folder/file')
      await driver.remove(at('/moved'))
      await driver.removeTree?.(at('/tree'))
      t.equal(await textAt(driver, '/folder/file'), 'changed', 'the target remains')
      t.ok((await namesIn(driver, '/')).includes('folder'))
    },
    lacks,
  )

  await run(
    'setSymlinkTime() changes the time of a symlink only',
    async (t, { driver, traits }) => {
      const modified = new Date('2011-11-11T11:11:11.111Z')
      const set = async (path: string) => driver.setSymlinkTime?.(at(path), modified)
      const isSet = ({ modified: time }: Entry) => Math.abs(time.getTime() - modified.getTime()) < traits.timeStep
      await driver.mkdir(at('/folder'))
      await put(driver, '/folder/file', 'hello')
      await link(driver, '/folder/link', 'file')
      await link(driver, '/nowhere', 'missing')
      await link(driver, '/way', 'folder')
      const before = await driver.stat(at('/folder/file'))
      for (const path of ['/way/link', '/nowhere', '/way']) {
        await set(path)
        t.ok(isSet(await driver.stat(at(path), { ofSymlink: true })), path)
      }
      t.same(await driver.stat(at('/folder/file')), before, 'the target is unchanged')
      t.notOk(isSet(await driver.stat(at('/folder'))))
      await refuses(t, () => set('/folder/file'), 'invalid', 'a file')
      await refuses(t, () => set('/folder'), 'invalid', 'a folder')
      await refuses(t, () => set('/none'), 'not_found', 'a missing path')
    },
    without('symlink', 'setSymlinkTime'),
  )

  await run(
    'removeTree() removes symlinks but not their targets',
    async (t, { driver }) => {
      await driver.mkdir(at('/kept'))
      await put(driver, '/kept/file', 'x')
      await driver.mkdir(at('/tree'))
      await link(driver, '/tree/kept', '../kept')
      await driver.removeTree?.(at('/tree'))
      t.same(await namesIn(driver, '/kept'), ['file'])
    },
    (driver) => lacks(driver) ?? without('removeTree')(driver),
  )

  await run(
    'dangling symlinks are reported as symlinks and cannot be read',
    async (t, { driver }) => {
      await link(driver, '/nowhere', 'missing')
      await link(driver, '/loop', 'loop')
      for (const path of ['/nowhere', '/loop'].map(at)) {
        t.equal((await driver.stat(path)).kind, 'symlink')
        await refuses(t, () => driver.read(path), 'not_found', `read ${path}`)
        await refuses(
          t,
          async () => driver.setAttributes?.(path, { mode: 0o600 }),
          'not_found',
          `set attributes of ${path}`,
        )
        await refuses(t, () => put(driver, path, 'x'), 'denied', `write ${path}`)
        await refuses(t, () => driver.mkdir(path), 'exists', `mkdir ${path}`)
        await driver.remove(path)
      }
      for (const target of ['../outside', '/../outside', '../../etc/passwd']) {
        await refuses(t, () => link(driver, '/out', target), ['denied', 'invalid'], `a link to ${target}`)
      }
      t.same(await listed(driver, '/'), [])
    },
    lacks,
  )

  await run(
    'a hard link is the same file under two names',
    async (t, subject) => {
      const { driver } = subject
      await put(driver, '/one', 'hello')
      await makeFolder(subject, '/folder')
      const hardLink = async (from: string, to: string) => driver.hardLink?.(at(from), at(to))
      await hardLink('/one', '/two')
      t.equal(await textAt(driver, '/two'), 'hello')
      await refuses(t, () => hardLink('/one', '/two'), 'exists', 'a name that is taken')
      await refuses(t, () => hardLink('/none', '/three'), 'not_found', 'a missing file')
      await refuses(t, () => hardLink('/folder', '/three'), 'is_folder', 'a folder')
      await driver.move?.(at('/one'), at('/two'))
      t.same(await namesIn(driver, '/'), ['folder', 'two'], 'a move onto its other name leaves one name')
      t.equal(await textAt(driver, '/two'), 'hello')
    },
    without('hardLink', 'move'),
  )
}
