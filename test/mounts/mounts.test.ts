/** The table of mounts alone: no storage is started here. */
import t from 'tap'
import { GatewayError, isWithoutStorage } from '../../src/base/errors.js'
import { asPath, type Path } from '../../src/base/path.js'
import { Mounts, storedStateOf, visiblePath, type Mount } from '../../src/mounts/mounts.js'
import type { Storage } from '../../src/storage/storage.js'
import type { StorageRow } from '../../src/database/tables/storages.js'
import { storageRow } from '../database/store-rows.js'

const p = asPath

interface State extends Partial<StorageRow> {
  /** Running, unless the row is disabled or another state is given. */
  readonly state?: 'running' | 'starting' | 'failed'
  readonly caseSensitive?: boolean
  readonly shows?: readonly Path[]
}

/** A table of these mount paths. */
function table(states: Readonly<Record<string, State>>): Mounts {
  const mounts = new Mounts()
  mounts.replace(Object.entries(states).map(([path, state], index) => mountOf(path, index + 1, state)))
  return mounts
}

function mountOf(
  path: string,
  id: number,
  { state = 'running', caseSensitive = true, shows = [], ...fields }: State,
): Mount {
  const row = { ...storageRow({ mountPath: p(path), ...fields }), id }
  const mountPoint = visiblePath(row.mountPath)
  const storage = { row, mountPoint, traits: { caseSensitive } } as unknown as Storage
  return {
    row,
    mountPoint,
    shows: shows.map((shown) => ({ path: shown, shownAt: (member) => [member] })),
    storage: state === 'running' && !row.disabled ? storage : undefined,
    starting: state === 'starting' ? Promise.resolve() : undefined,
    reason: 'the backend is offline',
  }
}

void t.test('a path belongs to the nearest mount point at or above it', async (t) => {
  const mounts = table({ '/': {}, '/a': {}, '/a/b/c': {} })
  const rows: readonly (readonly [path: string, mountPoint: string, inner: string])[] = [
    ['/', '/', '/'],
    ['/x', '/', '/x'],
    ['/a', '/a', '/'],
    ['/a/b', '/a', '/b'],
    ['/a/b/c', '/a/b/c', '/'],
    ['/a/b/c/d', '/a/b/c', '/d'],
    ['/a/b/cd', '/a', '/b/cd'],
    ['/ab', '/', '/ab'],
  ]
  for (const [path, mountPoint, inner] of rows) {
    const location = mounts.find(p(path))
    t.equal(location.storage.mountPoint, mountPoint, path)
    t.equal(location.inner, inner, path)
    t.equal(mounts.mountPointOf(p(path)), mountPoint, path)
    t.equal(mounts.rowOf(p(path))?.mountPath, mountPoint, path)
  }
})

void t.test('a path without a mount point is an error, with a hint if nothing is mounted at all', async (t) => {
  t.throws(() => table({}).find(p('/')), { code: 'not_found', detail: 'nothing_mounted' })
  t.throws(() => table({ '/off': { disabled: true } }).find(p('/off')), {
    code: 'not_found',
    detail: 'nothing_mounted',
  })
  const mounts = table({ '/a': {} })
  t.throws(() => mounts.find(p('/b')), { code: 'not_found', detail: 'no_storage' })
  t.equal(mounts.mountPointOf(p('/b')), undefined)
  t.equal(mounts.rowOf(p('/b')), undefined)
  const withPath = new GatewayError('not_found', { detail: 'no_storage', path: '/home/ada/x' }).at('list', '/x')
  t.ok(isWithoutStorage(withPath))
  t.notMatch(withPath.message, 'home')
})

void t.test('a storage that does not run is mounted, and its error says why', async (t) => {
  const mounts = table({ '/late': { state: 'starting' }, '/broken': { state: 'failed' } })
  t.throws(() => mounts.find(p('/late/x')), { code: 'unavailable', detail: 'storage_starting' })
  t.throws(() => mounts.find(p('/broken/x')), {
    code: 'unavailable',
    detail: 'storage_failed',
    reason: 'the backend is offline',
  })
  for (const point of ['/late', '/broken']) {
    t.ok(mounts.isMountPoint(p(point)))
    t.same(mounts.storagesAt(p(point)), [])
    t.equal(mounts.rowOf(p(`${point}/x`))?.mountPath, point)
  }
  t.equal(mounts.storageOf(1), undefined)
})

void t.test('a path waits only for the first start of its own storage', async (t) => {
  const mounts = table({
    '/': {},
    '/late': { state: 'starting' },
    '/broken': { state: 'failed' },
    '/half.balance1': { state: 'starting' },
    '/half.balance2': {},
    '/both.balance1': { state: 'failed' },
    '/both.balance2': { state: 'starting' },
  })
  for (const path of ['/late', '/late/x', '/both/x']) t.ok(mounts.startOf(p(path)), path)
  for (const path of ['/', '/x', '/broken/x', '/half/x']) t.equal(mounts.startOf(p(path)), undefined, path)
})

void t.test('the states of mounts do not depend on what an earlier run stored', async (t) => {
  const states = { '/a': {}, '/b': { state: 'starting' }, '/c': { state: 'failed' } } as const
  for (const status of ['work', '', 'connection refused']) {
    const mounts = new Mounts()
    const mounted = Object.entries(states).map(([path, state], index) => mountOf(path, index, state))
    mounts.replace(mounted.map((mount) => ({ ...mount, row: { ...mount.row, status } })))
    t.same(mounts.states(), ['working', 'starting', 'failed'], status)
    mounts.replace(mounted.map((mount) => ({ ...mount, row: { ...mount.row, status, disabled: true } })))
    t.same(new Set(mounts.states()), new Set(['disabled']))
  }
})

void t.test('storedStateOf() takes any other text for the error of a failed storage', async (t) => {
  const states = {
    work: 'working',
    '': 'starting',
    disabled: 'disabled',
    'connection refused': 'failed',
    working: 'failed',
  }
  for (const [status, state] of Object.entries(states)) t.equal(storedStateOf({ status }), state, status)
})

void t.test('the state of a mount is read at the moment of the call', async (t) => {
  const mounts = new Mounts()
  const mount: { -readonly [Key in keyof Mount]: Mount[Key] } = mountOf('/a', 1, { state: 'starting' })
  mounts.replace([mount])
  t.throws(() => mounts.find(p('/a')), { code: 'unavailable' })
  const { storage } = mountOf('/a', 1, {})
  Object.assign(mount, { storage, starting: undefined, row: { ...mount.row, status: 'work' } })
  t.equal(mounts.find(p('/a')).storage, storage)
  t.equal(mounts.storageOf(1), storage)
  t.match(mounts.rows(), [{ status: 'work' }])
})

void t.test('replace() removes every trace of the old table', async (t) => {
  const mounts = table({ '/old/deep': { caseSensitive: false }, '/stays': {} })
  mounts.replace([mountOf('/new', 2, {})])
  t.throws(() => mounts.find(p('/old/deep/x')), { code: 'not_found' })
  t.notOk(mounts.isMountAncestor(p('/old')))
  t.equal(mounts.mountFolderEntry(p('/old')), undefined)
  t.equal(mounts.caseFoldedPath(p('/old/deep/X')), undefined)
  t.equal(mounts.storageOf(1), undefined)
  t.same(
    mounts.rows().map(({ mountPath }) => mountPath),
    ['/new'],
  )
})

void t.test(
  'foldersIn() returns each folder on the way to a mount point once, in the order of the storages',
  async (t) => {
    const mounts = table({
      '/m/b': { order: 2, modified: new Date(2000) },
      '/m/a': { order: 3 },
      '/m/c/deep/er': { order: 1, modified: new Date(1000) },
      '/m/c/other': { order: 9 },
      '/off': { disabled: true },
    })
    const names = (path: string) => mounts.foldersIn(p(path)).map(({ name }) => name)
    t.same(names('/'), ['m'])
    t.same(names('/m'), ['c', 'b', 'a'])
    t.same(names('/m/c'), ['deep', 'other'])
    t.same(names('/m/a'), [])
    t.match(mounts.mountFolderEntry(p('/m/c')), { name: 'c', kind: 'folder', modified: new Date(1000) })
    t.match(mounts.mountFolderEntry(p('/m/b')), { name: 'b', kind: 'folder', modified: new Date(2000) })
    t.equal(mounts.mountFolderEntry(p('/m/d')), undefined)
    t.equal(mounts.mountFolderEntry(p('/off')), undefined)
    t.match(mounts.mountFolderEntry(p('/')), { name: '', kind: 'folder' })
    t.ok(mounts.isMountFolder(p('/m/c')))
    t.ok(mounts.isMountFolder(p('/m/a')))
    t.notOk(mounts.isMountPoint(p('/m/c')))
    t.notOk(mounts.isMountFolder(p('/m/c/x')))
    t.notOk(mounts.isMountAncestor(p('/m/a')))
  },
)

void t.test('rows() returns all storages, sorted by order and mount path', async (t) => {
  const mounts = table({ '/z': { order: 1 }, '/b': { state: 'failed' }, '/a': { disabled: true } })
  t.same(
    mounts.rows().map(({ mountPath }) => mountPath),
    ['/a', '/b', '/z'],
  )
})

void t.test('a disabled storage owns no path, but isDisabled() recognizes its paths', async (t) => {
  const mounts = table({ '/': {}, '/off': { disabled: true }, '/off/on': {}, '/off/on/off': { disabled: true } })
  t.equal(mounts.find(p('/off/x')).storage.mountPoint, '/')
  t.notOk(mounts.isMountPoint(p('/off')))
  const disabled = ['/off', '/off/x', '/off/on/off/x']
  for (const path of disabled) t.ok(mounts.isDisabled(p(path)), path)
  for (const path of ['/', '/x', '/off/on', '/off/on/x']) t.notOk(mounts.isDisabled(p(path)), path)
})

void t.test('mount paths that differ after .balance are one mount point, and serve requests in turn', async (t) => {
  const mounts = table({ '/a.balance1': {}, '/a.balance2': {}, '/a': {}, '/.balance': {} })
  const found = Array.from({ length: 6 }, () => mounts.find(p('/a/x')).storage.row.mountPath)
  t.same([...new Set(found)].sort(), ['/a', '/a.balance1', '/a.balance2'])
  t.same(found.slice(0, 3), found.slice(3), 'in turn')
  t.same(
    mounts
      .foldersIn(p('/'))
      .map(({ name }) => name)
      .sort(),
    ['.balance', 'a'],
  )
  const { storage } = mounts.find(p('/a/x'))
  for (let i = 0; i < 4; i++)
    t.equal(mounts.find(p('/a/y'), storage).storage, storage, 'a preferred storage is used instead')
  t.equal(mounts.storagesAt(p('/a')).length, 3)
})

void t.test('find() skips storages of a mount point that do not run', async (t) => {
  const mounts = table({ '/a.balance1': {}, '/a.balance2': { state: 'failed' } })
  for (let i = 0; i < 3; i++) t.equal(mounts.find(p('/a')).storage.row.mountPath, '/a.balance1')
  const none = table({ '/a.balance1': { state: 'failed' }, '/a.balance2': { state: 'failed' } })
  t.throws(() => none.find(p('/a')), { code: 'unavailable' })
})

void t.test('a path has other spellings only if its running storage ignores case', async (t) => {
  const mounts = table({
    '/': {},
    '/Disk': { caseSensitive: false },
    '/Disk/exact': {},
    '/late': { caseSensitive: false, state: 'starting' },
  })
  t.match(mounts.caseInsensitivePath(p('/Disk/Folder/FILE')), {
    inner: '/Folder/FILE',
    storage: { mountPoint: '/Disk' },
  })
  t.equal(mounts.caseFoldedPath(p('/Disk/Folder/FILE')), mounts.caseFoldedPath(p('/Disk/folder/File')))
  t.not(mounts.caseFoldedPath(p('/Disk/a')), mounts.caseFoldedPath(p('/Disk/b')))
  for (const path of ['/', '/X', '/disk/x', '/Disk/exact/X', '/late/X']) {
    t.equal(mounts.caseInsensitivePath(p(path)), undefined, path)
    t.equal(mounts.caseFoldedPath(p(path)), undefined, path)
  }
})

void t.test('a mount point is circular if its storage shows it, directly or through others', async (t) => {
  const mounts = table({
    '/': {},
    '/self': { shows: [p('/')] },
    '/one': { shows: [p('/two/x')] },
    '/two': { shows: [p('/one')] },
    '/outside': { shows: [p('/one'), p('/plain')] },
    '/plain': {},
    '/plain/nested': { shows: [p('/plain/other')] },
  })
  const circular = ['/', '/self', '/one', '/two', '/outside', '/plain', '/plain/nested'].filter((path) => {
    return mounts.isCircular(p(path))
  })
  t.same(circular, ['/self', '/one', '/two'])
})

void t.test('the visible path of a mount path ends before .balance', async (t) => {
  const rows: readonly (readonly [mountPath: string, visible: string])[] = [
    ['/', '/'],
    ['/a', '/a'],
    ['/a.balance', '/a'],
    ['/a.balance12', '/a'],
    ['/x.balance/a', '/x.balance/a'],
    ['/.balance', '/.balance'],
    ['/a/.balance1', '/a/.balance1'],
  ]
  for (const [mountPath, visible] of rows) t.equal(visiblePath(p(mountPath)), visible, mountPath)
})

void t.test('alsoShownAt() is every path at which storages based on others show a path', async (t) => {
  const mounts = table({
    '/disk': {},
    '/one': { shows: [p('/disk/a')] },
    '/two': { shows: [p('/one/b'), p('/disk')] },
    '/all': { shows: [p('/')] },
    '/every': { shows: [p('/')] },
  })
  const shown = (path: string): readonly string[] => [...mounts.alsoShownAt(p(path))].sort()
  const others = ['/all/disk/other', '/all/two/other', '/every/disk/other', '/every/two/other', '/two/other']
  t.same(shown('/disk/other'), others)
  t.ok(shown('/disk/a/b/c').includes('/one/b/c'))
  t.ok(shown('/disk/a/b/c').includes('/two/c'), 'by way of another')
  t.ok(shown('/disk').includes('/one'), 'a change above it concerns the whole storage')
  t.same(table({ '/disk': {}, '/self': { shows: [p('/self')] } }).alsoShownAt(p('/self/x')), [], 'a circle ends')
})
