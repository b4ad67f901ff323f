/** Storages over memory, and a whole tree of them, with a new database. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { TAP } from 'tap'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { Source } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import { FairShare } from '../../src/base/fair-share.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import type { Traits } from '../../src/contract/traits.js'
import type { DriverLog } from '../../src/base/log.js'
import { asPath, type Path } from '../../src/base/path.js'
import { thisInstance } from '../../src/installation/instance.js'
import { DownloadRouting } from '../../src/download-urls/download-routing.js'
import { EgressGuard } from '../../src/net/egress.js'
import { createLog } from '../../src/process/log.js'
import { Search } from '../../src/search/search.js'
import { coreSettings } from '../../src/settings/settings-table.js'
import { Settings } from '../../src/settings/settings.js'
import { Bandwidth } from '../../src/storage/bandwidth.js'
import { Events, type TreeChange } from '../../src/storage/events.js'
import { ListingBudget } from '../../src/storage/listing-cache.js'
import { MountSupervisor } from '../../src/mounts/mount-supervisor.js'
import { MountedTree } from '../../src/mounts/mounted-tree.js'
import { Mounts } from '../../src/mounts/mounts.js'
import { PathLocksInProcess } from '../../src/locks/path-locks.js'
import { Spool } from '../../src/storage/fallbacks/spool.js'
import { Storage } from '../../src/storage/storage.js'
import type { FolderRule } from '../../src/database/tables/rules.js'
import type { StorageRow } from '../../src/database/tables/storages.js'
import { openSearchIndex, type SearchIndex } from '../../src/database/search/search-index.js'
import type { Store } from '../../src/database/tables.js'
import { InPlaceHandles } from '../../src/transfer/in-place-handles.js'
import { Intents } from '../../src/transfer/intents.js'
import { TaskUploads } from '../../src/transfer/task-uploads.js'
import { BaseFolders } from '../../src/tree/missing-folders.js'
import { Rules } from '../../src/tree/folder-rules.js'
import { Followers } from '../../src/tree/followers.js'
import { Grants } from '../../src/tree/grants.js'
import { Locks } from '../../src/locks/webdav-locks.js'
import { SubtreeDriver } from '../../src/tree/subtree-driver.js'
import { VirtualFs, type TreeDependencies } from '../../src/tree/virtual-fs.js'
import { principal, type Asker } from '../accounts/principals.js'
import { openNewStore } from '../database/new-store.js'
import { ruleRow, storageRow } from '../database/store-rows.js'

export type Test = Pick<TAP, 'testdir' | 'teardown'>
/** Methods that replace those of a driver; undefined removes a method. */
export type Over = { readonly [Key in keyof Driver]?: Driver[Key] | undefined }

/** `driver` with the methods of `over` instead of its own, and without those that are undefined there. */
export function altered(driver: Driver, over: Over): Driver {
  return new Proxy(driver, {
    get: (target, key) => {
      const value: unknown = key in over ? over[key as keyof Driver] : Reflect.get(target, key)
      return typeof value === 'function' && !(key in over) ? (value.bind(target) as unknown) : value
    },
    has: (target, key) => (key in over ? over[key as keyof Driver] !== undefined : key in target),
  })
}

/** Removes all optional methods of a driver that make operations faster. */
export const bare: Over = {
  move: undefined,
  copy: undefined,
  removeTree: undefined,
  open: undefined,
  setAttributes: undefined,
  usage: undefined,
}

export function sourceOf(content: string | Buffer, fields: Partial<Source> = {}): Source {
  const bytes = Buffer.from(content)
  return {
    size: bytes.length,
    rereadable: true,
    read: async (range) =>
      Readable.from(
        [bytes.subarray(range?.offset ?? 0)].filter(({ length }) => length > 0),
        { objectMode: false },
      ),
    ...fields,
  }
}

/** A body that the test pushes to and ends. */
export function openBody(): { readonly source: Source; readonly body: Readable } {
  const body = new Readable({ read: () => undefined })
  body.on('error', () => undefined)
  return { source: { rereadable: false, read: async () => body }, body }
}

export async function text(stream: Promise<Readable>): Promise<string> {
  return (await buffer(await stream)).toString()
}

let stores = 0
export async function newStore(t: Test): Promise<Store> {
  const store = await openNewStore(join(t.testdir(), `tree-${stores++}.db`))
  t.teardown(() => store.close())
  return store
}

const instance = { name: 'run', isOver: () => true }
/** No setting is set. */
const unlimited = new Bandwidth({ number: () => -1, onChange: () => () => undefined })

interface StorageFixture {
  readonly storage: Storage
  readonly driver: Driver
  readonly events: Events
  readonly heard: TreeChange[]
  readonly spool: Spool
}

export async function newStorage(
  t: Test,
  over: Over = {},
  fields: Partial<StorageRow> = {},
  traits: Partial<Traits> = {},
  log: DriverLog = createLog('silent'),
): Promise<StorageFixture> {
  const store = await newStore(t)
  // Most tests are of backends that have no revisions of folders.
  const driver = altered(new MemoryDriver(0), { folderRevision: undefined, ...over })
  const events = new Events()
  const heard: TreeChange[] = []
  events.on((event) => heard.push(event))
  const spool = await Spool.open(join(t.testdir(), `spool-${randomUUID()}`), { instance })
  const storage = new Storage({
    row: { ...storageRow({ mountPath: asPath('/mnt'), cacheExpiration: 30, ...fields }), id: 1 },
    mountPoint: asPath('/mnt'),
    driver,
    traits,
    events,
    spool,
    bandwidth: unlimited,
    store,
    log,
    listings: new ListingBudget(),
    knowsEntries: true,
    isMountAncestor: () => false,
  })
  return { storage, driver, events, heard, spool }
}

export interface MountAsk extends Partial<StorageRow> {
  readonly over?: Over
  readonly traits?: Partial<Traits>
  /** Opens the driver; by default, a new memory driver altered by `over`. */
  readonly driverOf?: (env: DriverEnv) => Promise<Driver>
}

export interface Tree {
  readonly dependencies: TreeDependencies
  readonly mounts: Mounts
  readonly supervisor: MountSupervisor
  readonly store: Store
  readonly settings: Settings
  readonly drivers: ReadonlyMap<string, Driver>
  readonly spool: Spool
  readonly uploads: TaskUploads
  /** Starts another storage. */
  readonly mount: (path: string, ask?: MountAsk) => Promise<StorageRow>
  readonly as: (who?: Asker) => VirtualFs
  readonly rule: (path: string, fields: Partial<FolderRule>) => Promise<FolderRule>
}

export async function newTree(
  t: Test,
  mounted: Readonly<Record<string, MountAsk>> = { '/': {} },
  openIndex?: () => Promise<SearchIndex>,
): Promise<Tree> {
  const store = await newStore(t)
  const log = createLog('silent')
  const events = new Events()
  const mounts = new Mounts()
  const mountedTree = new MountedTree(mounts, log)
  const rules = await Rules.load(store, (path) => mounts.caseFoldedPath(path))
  const grants = await Grants.load(store, (path) => mounts.caseFoldedPath(path))
  const followers = new Followers([rules, grants])
  const locks = await Locks.load(store.locks)
  // Each call of it empties the folder.
  const folder = t.testdir()
  const spool = await Spool.open(join(folder, `spool-${randomUUID()}`), { instance })
  const settings = await Settings.open(store, coreSettings)
  const bandwidth = new Bandwidth(settings)
  const drivers = new Map<string, Driver>()
  const driverTypes: AnyDriverType[] = []
  const pathLocks = new PathLocksInProcess()
  const storageOf = (id: number) => mounts.storageOf(id)
  const intents = new Intents({ store, followers, pathLocks, ofOthers: () => undefined, log, storageOf })
  const uploads = new TaskUploads({ store: store.uploads, storageOf, log })
  const supervisor: MountSupervisor = new MountSupervisor({
    mounts,
    intents,
    uploads,
    egress: new EgressGuard(() => ''),
    pathLocks,
    processes: () => 1,
    cluster: { assertCurrent: () => undefined, knowsEntries: true, spansMachines: false },
    store,
    events,
    spool,
    bandwidth,
    log,
    driverTypes,
    instance: thisInstance(),
    own: { data: folder, protectedPaths: [] },
    tree: (path) => new SubtreeDriver({ mounts, mountedTree, locks, pathLocks, intents, followers }, path),
  })
  const indexFile = join(folder, `search-${randomUUID()}.db`)
  const search = await Search.open({
    settings,
    mounts,
    mountedTree,
    events,
    log,
    openIndex: openIndex ?? (() => openSearchIndex(indexFile)),
  })
  t.teardown(async () => {
    await search.close()
    await supervisor.stop()
    bandwidth.close()
    settings.close()
  })
  const dependencies: TreeDependencies = {
    audit: {
      assertWritable: () => undefined,
      record: () => undefined,
      recordError: () => undefined,
      hasRecorded: () => false,
    },
    cluster: { assertCurrent: () => undefined },
    mounts,
    mountedTree,
    isBaseFolder: () => false,
    nameOfSubject: () => 'somebody',
    bases: new BaseFolders({ mounts, mountedTree, locks, pathLocks, events, log }),
    rules,
    grants,
    followers,
    locks,
    pathLocks,
    intents,
    descriptors: new FairShare(1000),
    searches: new FairShare(8),
    thumbnails: new FairShare(16),
    transferSlots: new FairShare(8),
    inPlaceHandles: new InPlaceHandles(events),
    store,
    settings,
    events,
    bandwidth,
    search,
    // All settings are off, and a signature is the path itself.
    downloadRouting: new DownloadRouting({ get: () => '' }, { sign: (path) => path }),
    log,
  }
  const mount = async (path: string, { over = {}, traits, driverOf, ...fields }: MountAsk = {}) => {
    const name = `memory ${path}`
    if (!driverTypes.some((type) => type.name === name)) {
      driverTypes.push({
        name,
        fields: {},
        ...(traits && { traits }),
        open: async (_options: never, env: DriverEnv) => {
          const driver = driverOf ? await driverOf(env) : altered(new MemoryDriver(0), over)
          drivers.set(path, driver)
          return driver
        },
      })
    }
    const row = await store.storages.insert(storageRow({ mountPath: asPath(path), driver: name, ...fields }))
    await supervisor.apply(row)
    return row
  }
  for (const [path, ask] of Object.entries(mounted)) await mount(path, ask).catch(() => undefined)
  return {
    dependencies,
    mounts,
    supervisor,
    store,
    settings,
    drivers,
    spool,
    uploads,
    mount,
    as: (who) => new VirtualFs(dependencies, principal(who)),
    rule: (path, fields) => rules.create(ruleRow({ ...fields, path: asPath(path) })),
  }
}

/** Every file below a folder with its text, every folder with null. */
export async function contents(tree: VirtualFs, path: Path = asPath('/')): Promise<Record<string, string | null>> {
  const found: Record<string, string | null> = {}
  const { entries } = await tree.list(path)
  for (const { name, kind } of entries) {
    const at = asPath(path === '/' ? `/${name}` : `${path}/${name}`)
    if (kind === 'folder') Object.assign(found, { [at]: null }, await contents(tree, at))
    else found[at] = await text(tree.read(at))
  }
  return found
}

export const lockAsk = { scope: 'exclusive', deep: false, owner: '', seconds: 60 } as const
export const property = { namespace: 'urn:x', name: 'note', value: 'hello', language: '' }
export const overwrite = { overwrite: true } as const
export const keep = { overwrite: false } as const

/** Creates a tree: a string is the content of a file, null a folder. */
export async function fill(tree: VirtualFs, files: Readonly<Record<string, string | null>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    if (content === null) await tree.mkdir(asPath(path), { parents: true })
    else await tree.write(asPath(path), sourceOf(content), { parents: true })
  }
}

/** A listing that fails like `call`. */
export function failing(call: () => Promise<never>): Driver['pages'] {
  return () => ({ [Symbol.asyncIterator]: () => ({ next: call }) })
}

export const names = async (tree: VirtualFs, path: string) =>
  (await tree.list(asPath(path))).entries.map(({ name }) => name)

export async function pagesOf(tree: VirtualFs, path: string): Promise<string[]> {
  const found: string[] = []
  for await (const page of tree.pages(asPath(path))) found.push(...page.map(({ name }) => name))
  return found.sort()
}
