/** The search index of a tree in memory: it must agree with the tree after any change. */
import { join } from 'node:path'
import t from 'tap'
import { Events } from '../../src/storage/events.js'
import { MountedTree } from '../../src/mounts/mounted-tree.js'
import { Mounts } from '../../src/mounts/mounts.js'
import { Search } from '../../src/search/search.js'
import type { Log } from '../../src/base/log.js'
import { coreSettings } from '../../src/settings/settings-table.js'
import { Settings } from '../../src/settings/settings.js'
import { openStore } from '../../src/database/store.js'
import { aliasFields, aliasType } from '../../drivers/alias/index.js'
import { cryptFields, cryptType } from '../../drivers/crypt/index.js'
import { checkOptions } from '../../src/mounts/fields.js'
import { memoryType } from '../../drivers/memory/index.js'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { GatewayError } from '../../src/base/errors.js'
import { asPath, childOf, parentOf, type Path } from '../../src/base/path.js'
import { configSchema } from '../../src/installation/config.js'
import { Gateway } from '../../src/gateway/gateway.js'
import { createLog } from '../../src/process/log.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import { principal } from '../accounts/principals.js'
import { onEveryEngine } from './index-engines.js'
import { altered, contents, failing, newTree, sourceOf, type Tree } from '../tree/tree-fixture.js'
import { webdav } from '../../protocols/webdav/index.js'
import { protocols } from '../../protocols/index.js'

async function switchOn({ settings, dependencies }: Tree): Promise<void> {
  await settings.set(new Map([['search_index', 'database']]))
  await dependencies.search.idle()
}

async function build(tree: Tree): Promise<void> {
  await switchOn(tree)
  await tree.dependencies.search.build()
  await tree.dependencies.search.idle()
}

/** Sorted paths of everything below `path` whose name contains the keywords. */
async function found(tree: VirtualFs, keywords: string, path = '/'): Promise<string[]> {
  const { names, total } = await tree.search(asPath(path), { keywords, kind: 'any', offset: 0, limit: 1e6 })
  if (total !== names.length) throw new Error(`total ${total} of ${names.length}`)
  return names.map(({ parent, name }) => childOf(parent, name)).sort()
}

/** A driver with files that were not created through the gateway. */
async function filled(paths: readonly string[]): Promise<Driver> {
  const driver = new MemoryDriver(0)
  for (const path of paths) await place(driver, path)
  return driver
}

async function place(driver: Driver, path: string): Promise<void> {
  const segments = path.split('/').slice(1, -1)
  for (let depth = 1; depth <= segments.length; depth++) {
    await driver.mkdir?.(asPath(`/${segments.slice(0, depth).join('/')}`)).catch(() => undefined)
  }
  await driver.write?.(asPath(path), sourceOf('x'))
}

onEveryEngine(
  'a build indexes every storage, also below one that fails, and reports the failure',
  async (t, openIndex) => {
    const driver = await filled(['/a/x1', '/a/b/x2', '/mnt/shadowed x'])
    const broken: Driver = {
      stat: async (path) => ({ name: path, kind: 'folder', size: 0, modified: new Date(0) }),
      pages: failing(() => Promise.reject(new GatewayError('unavailable', { reason: 'out of order' }))),
      read: () => Promise.reject(new GatewayError('unavailable')),
    }
    const tree = await newTree(
      t,
      {
        '/': { driverOf: async () => driver },
        '/mnt': { driverOf: async () => broken },
        '/mnt/deep/inner': { driverOf: () => filled(['/x3']) },
      },
      openIndex,
    )
    await build(tree)
    t.same(await found(tree.as(), 'x'), ['/a/b/x2', '/a/x1', '/mnt/deep/inner/x3'])
    t.same(await found(tree.as(), 'inner'), ['/mnt/deep/inner'])
    t.match(tree.dependencies.search.progress(), { isDone: true, objCount: 8, error: '/mnt: out of order' })
  },
)

onEveryEngine('a change is indexed wherever storages that are based on others show it', async (t, openIndex) => {
  const writing = { write_conflict_policy: 'first', put_conflict_policy: 'first' }
  const aliasOf = (paths: string, env: DriverEnv) =>
    aliasType.open(checkOptions(aliasFields, { paths, ...writing }), env)
  const secret = { remote_path: '/disk/secret', password: 'x', salt: 'y', filename_encryption: 'standard' }
  const tree = await newTree(
    t,
    {
      '/disk': { driverOf: () => filled(['/secret/foreign', '/shared/first']) },
      '/other': { driverOf: () => filled(['/shared/second']) },
      '/one': { driverOf: async (env) => aliasOf('/disk/shared', env) },
      '/merged': { driverOf: async (env) => aliasOf('a:/disk/shared\na:/other/shared\nb:/disk', env) },
      '/crypt': { driverOf: async (env) => cryptType.open(checkOptions(cryptFields, secret), env) },
      '/over': { driverOf: async (env) => aliasOf('/crypt/folder', env) },
    },
    openIndex,
  )
  const fs = tree.as()
  await fs.mkdir(asPath('/crypt/folder'), { parents: true })
  await build(tree)
  const { search } = tree.dependencies
  const shown = async (keywords: string) => {
    await search.idle()
    return found(fs, keywords)
  }
  const everywhere = (name: string) =>
    ['/disk/shared', '/merged/a', '/merged/b/shared', '/one'].map((folder) => `${folder}/${name}`)
  await fs.write(asPath('/disk/shared/f/needle'), sourceOf('x'), { parents: true })
  t.same(await shown('needle'), everywhere('f/needle'))
  await fs.move(asPath('/disk/shared/f'), asPath('/disk/shared/g'), { overwrite: false })
  t.same(await shown('needle'), everywhere('g/needle'))
  await fs.write(asPath('/merged/a/g/thread'), sourceOf('x'))
  t.same(await shown('thread'), everywhere('g/thread'))
  await fs.remove(asPath('/disk/shared/g'))
  t.same(await shown('needle'), [])

  const folder = asPath('/crypt/folder')
  await fs.write(childOf(folder, 'hidden'), sourceOf('x'))
  t.same(await shown('hidden'), ['/crypt/folder/hidden', '/over/hidden'])
  const encrypted = async (at: Path, kind: string) => {
    const { entries } = await fs.list(at)
    return childOf(at, entries.find((each) => each.kind === kind)?.name ?? '')
  }
  const encryptedFolder = await encrypted(asPath('/disk/secret'), 'folder')
  await fs.remove(await encrypted(encryptedFolder, 'file'))
  t.same(await shown('hidden'), [])
  await fs.remove(encryptedFolder)
  t.same(await shown('folder'), [])
})

onEveryEngine('symlinks to folders are indexed but not followed', async (t, openIndex) => {
  const driver = await filled(['/target/x1'])
  const tree = await newTree(
    t,
    {
      '/': {
        driverOf: async () => driver,
        over: {},
      },
    },
    openIndex,
  )
  const list = driver.pages.bind(driver)
  driver.pages = async function* (path, options) {
    for await (const page of list(path, options)) yield page
    if (path === '/') {
      yield [{ name: 'link', kind: 'folder', isSymlink: true, size: 0, modified: new Date(0) }]
      yield [{ name: 'dangling link', kind: 'symlink', isSymlink: true, size: 7, modified: new Date(0) }]
    }
  }
  await build(tree)
  t.same(await found(tree.as(), 'x1'), ['/target/x1'])
  const { names } = await tree.as().search(asPath('/'), { keywords: 'link', kind: 'folders', offset: 0, limit: 9 })
  t.match(names, [{ name: 'link', kind: 'symlink to folder' }])
  t.same(await found(tree.as(), 'link'), ['/dangling link', '/link'])
})

onEveryEngine('an update finds changes by other programs, down to the given depth', async (t, openIndex) => {
  const driver = await filled(['/a/x1', '/a/b/x2', '/c/x3'])
  const tree = await newTree(t, { '/': { driverOf: async () => driver } }, openIndex)
  const { search } = tree.dependencies
  await build(tree)
  await driver.remove?.(asPath('/a/x1'))
  await driver.removeTree?.(asPath('/c'))
  await place(driver, '/a/b/x4')
  await place(driver, '/d/e/x5')
  await search.update([asPath('/a')], 1)
  await search.idle()
  t.same(await found(tree.as(), 'x'), ['/a/b/x2', '/c/x3'], 'one level below /a')
  await search.update([asPath('/a'), asPath('/c'), asPath('/nowhere')], Number.POSITIVE_INFINITY)
  await search.idle()
  t.same(await found(tree.as(), 'x'), ['/a/b/x2', '/a/b/x4'])
  t.same(await found(tree.as(), 'c'), [])
  await search.update([asPath('/')], Number.POSITIVE_INFINITY)
  await search.idle()
  t.same(await found(tree.as(), 'x'), ['/a/b/x2', '/a/b/x4', '/d/e/x5'])
  await driver.removeTree?.(asPath('/a'))
  await driver.write?.(asPath('/a'), sourceOf('a file now'))
  await search.update([asPath('/a')], Number.POSITIVE_INFINITY)
  await search.idle()
  t.same(await found(tree.as(), 'x'), ['/d/e/x5'])
  t.same(await found(tree.as(), 'a'), ['/a'])
})

onEveryEngine('an update asks the backend, even if listings are cached', async (t, openIndex) => {
  const driver = await filled(['/a/x1'])
  const tree = await newTree(
    t,
    { '/': { driverOf: async () => altered(driver, { folderRevision: undefined }) } },
    openIndex,
  )
  const { search } = tree.dependencies
  await build(tree)
  for (const path of ['/', '/a']) await tree.as().list(asPath(path))
  await place(driver, '/a/x2')
  await place(driver, '/b/x3')
  await driver.remove?.(asPath('/a/x1'))
  await search.update([asPath('/a'), asPath('/b')], Number.POSITIVE_INFINITY)
  await search.idle()
  t.same(await found(tree.as(), 'x'), ['/a/x2', '/b/x3'])
})

onEveryEngine(
  'changes that a driver reports are applied to the index, with what is below them',
  async (t, openIndex) => {
    const driver = await filled(['/a/x1', '/b/x2'])
    const envs: DriverEnv[] = []
    const driverOf = async (env: DriverEnv) => {
      envs.push(env)
      return altered(driver, { folderRevision: undefined })
    }
    const tree = await newTree(t, { '/': { driverOf } }, openIndex)
    const { search } = tree.dependencies
    await build(tree)
    await place(driver, '/a/c/x3')
    await driver.removeTree?.(asPath('/b'))
    await driver.remove?.(asPath('/a/x1'))
    for (const path of ['/a', '/b', '/a/x1', '/']) envs[0]?.changed(asPath(path))
    await search.idle()
    t.same(await found(tree.as(), 'x'), ['/a/c/x3'])
    t.same(await found(tree.as(), 'b'), [])
  },
)

onEveryEngine('with auto_update_index, a refreshed listing updates the index', async (t, openIndex) => {
  const driver = await filled(['/f/old one', '/f/gone/old two'])
  const tree = await newTree(t, { '/': { driverOf: async () => driver }, '/f/mounted old': {} }, openIndex)
  const { search } = tree.dependencies
  const look = async () => {
    await tree.as().list(asPath('/f'), { refresh: true })
    await search.idle()
  }
  await build(tree)
  const before = ['/f/gone/old two', '/f/mounted old', '/f/old one']
  t.same(await found(tree.as(), 'old'), before)
  await driver.removeTree?.(asPath('/f/gone'))
  await place(driver, '/f/new/old three')
  await look()
  t.same(await found(tree.as(), 'old'), before, 'auto_update_index is off')
  await tree.settings.set(new Map([['auto_update_index', 'true']]))
  await look()
  t.same(await found(tree.as(), 'old'), ['/f/mounted old', '/f/new/old three', '/f/old one'])
  await search.clear()
  await look()
  t.same(await found(tree.as(), 'old'), [], 'no build has run')
})

onEveryEngine('after concurrent changes and scans, the index equals the tree', async (t, openIndex) => {
  const slow = new MemoryDriver(0)
  const list = slow.pages.bind(slow)
  slow.pages = async function* (path, options) {
    const pages = []
    for await (const page of list(path, options)) pages.push(page)
    // The pages are out of date when they are returned.
    await new Promise((resolve) => setTimeout(resolve, 5))
    yield* pages
  }
  const tree = await newTree(t, { '/': { driverOf: async () => slow }, '/m': { over: { move: undefined } } }, openIndex)
  const { search } = tree.dependencies
  await switchOn(tree)
  const fs = tree.as()
  let seed = 7
  const random = (below: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648
    return seed % below
  }
  const somewhere = (): Path => {
    const depth = random(3)
    const folders = Array.from({ length: depth }, () => `d${random(3)}`)
    return asPath(`/${[...(random(4) === 0 ? ['m'] : []), ...folders, `n${random(4)}`].join('/')}`)
  }
  const steps = [
    (path: Path) => fs.write(path, sourceOf('x'), { parents: true }),
    (path: Path) => fs.mkdir(path, { parents: true }),
    (path: Path) => fs.remove(path),
    (path: Path) => fs.remove(parentOf(path)),
    (path: Path) => fs.move(path, somewhere(), { overwrite: true }),
    (path: Path) => fs.move(parentOf(path), somewhere(), { overwrite: true }),
    (path: Path) => fs.copy(path, somewhere(), { overwrite: true }),
  ]
  await search.build()
  for (let round = 0; round < 12; round++) {
    for (let at = 0; at < 40; at++) {
      await steps[random(steps.length)]?.(somewhere()).catch((error: unknown) => {
        if (!(error instanceof GatewayError) || error.code === 'internal') throw error
      })
      if (at % 20 === 7) await new Promise((resolve) => setTimeout(resolve, random(80)))
      if (at === 10) await search.update([asPath('/')], Number.POSITIVE_INFINITY).catch(() => undefined)
    }
    await search.idle()
    const there = Object.keys(await contents(fs)).sort()
    const known = [...new Set([...(await found(fs, 'n')), ...(await found(fs, 'd')), ...(await found(fs, 'm'))])].sort()
    t.same(known, there, `round ${round}`)
  }
})

void t.test('the index survives a restart, with the last change before it', async (t) => {
  const data = join(t.testdir(), 'data')
  const kept = await filled(['/a/x1'])
  const local = {
    ...memoryType,
    name: 'Local',
    fields: { root_folder_path: { type: 'string', default: '' } },
    open: async () => kept,
  } as const
  const open = () =>
    Gateway.open({
      config: { ...configSchema(protocols).parse({}), data },
      log: createLog('silent'),
      drivers: [local],
      protocols,
      admin: { password: 'x' },
    })
  let gateway = await open()
  await gateway.settings.set(new Map([['search_index', 'database']]))
  await gateway.search.build()
  await gateway.search.idle()
  await gateway.as(principal()).write(asPath('/a/x2'), sourceOf('x'))
  await gateway.close()
  gateway = await open()
  t.same(await found(gateway.as(principal()), 'x'), ['/a/x1', '/a/x2'])
  t.match(gateway.search.progress(), { isDone: true, objCount: 2 })

  await gateway.settings.set(new Map([['search_index', 'none']]))
  await t.rejects(gateway.as(principal()).search(asPath('/'), { keywords: 'x', kind: 'any', offset: 0, limit: 1 }), {
    code: 'unavailable',
  })
  await gateway.as(principal()).write(asPath('/a/x3'), sourceOf('x'))
  await gateway.close()
  gateway = await open()
  await gateway.settings.set(
    new Map([
      ['search_index', 'database'],
      ['index_progress', '{"is_done":false,"obj_count":7}'],
    ]),
  )
  await gateway.search.idle()
  t.same(await found(gateway.as(principal()), 'x'), ['/a/x1', '/a/x2', '/a/x3'], 'changes made while the index was off')
  await gateway.close()
  gateway = await open()
  t.match(gateway.search.progress(), { isDone: true, objCount: 7 }, 'an interrupted run is marked as done')
  await gateway.close()
})

onEveryEngine('a search without authority is rejected', async (t, openIndex) => {
  const tree = await newTree(t, { '/': { driverOf: () => filled(['/x1']) } }, openIndex)
  await build(tree)
  const controller = new AbortController()
  const fs = tree.as({ signal: controller.signal })
  t.same(await found(fs, 'x'), ['/x1'])
  controller.abort()
  const ask = { keywords: 'x', kind: 'any', offset: 0, limit: 1 } as const
  await t.rejects(fs.search(asPath('/'), ask), { code: 'unauthenticated' })
  await t.rejects(tree.as({ onlyPath: asPath('/x1') }).search(asPath('/'), ask), { code: 'denied' })
  await t.rejects(tree.as({ protocol: webdav, may: [] }).search(asPath('/'), ask), { code: 'denied' })
})

void t.test('an index that cannot be opened is logged, and searches reject', async (t) => {
  const store = await openStore(join(t.testdir(), 'data.db'))
  t.teardown(() => store.close())
  // As another node has stored it.
  await store.settings.set(new Map([['search_index', 'database']]))
  const settings = await Settings.open(store, coreSettings)
  t.teardown(() => settings.close())
  const errors: string[] = []
  const log: Log = Object.assign(createLog('silent'), {
    error: (_fields: object, message: string) => void errors.push(message),
  })
  const openIndex = () => Promise.reject(new GatewayError('unavailable', { reason: 'there is no disk' }))
  const mounts = new Mounts()
  const mountedTree = new MountedTree(mounts, log)
  const search = await Search.open({ settings, mounts, mountedTree, events: new Events(), log, openIndex })
  t.teardown(() => search.close())
  t.same(errors, ['search index: enabling or disabling failed'])
  await t.rejects(search.reader(), { code: 'unavailable' })
})
