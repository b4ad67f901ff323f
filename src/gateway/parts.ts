/**
 * Builds and connects all parts of the gateway. Each that has been opened adds to `closing` how it is closed: all are
 * closed in the reverse order, also if a later one cannot be opened.
 */
import { join, resolve } from 'node:path'
import type { Principal } from '../accounts/principal.js'
import { FairShare } from '../base/fair-share.js'
import { root } from '../base/path.js'
import { openPostgresSearchIndex, openSearchIndex } from '../database/search/search-index.js'
import { isPostgresUrl } from '../database/store-url.js'
import { DownloadRouting } from '../download-urls/download-routing.js'
import { storeLocation } from '../installation/config.js'
import { gatewayFolders } from '../installation/data-folder.js'
import { UploadedImports } from '../installation/import/uploaded-imports.js'
import type { PathLocks } from '../locks/path-locks.js'
import { MountSupervisor } from '../mounts/mount-supervisor.js'
import { StorageAdmin } from '../mounts/storage-admin.js'
import { StorageSignIns } from '../mounts/storage-sign-ins.js'
import { StorageTrials } from '../mounts/storage-trials.js'
import { OfflineDownloads } from '../offline-downloads/offline-downloads.js'
import { Search, type SearchRequest } from '../search/search.js'
import { ShareUploads } from '../shares/share-uploads.js'
import { SharedTree } from '../shares/shared-tree.js'
import { VisitorAccess } from '../shares/visitor-access.js'
import { unlimited } from '../storage/bandwidth.js'
import { Tasks } from '../tasks/tasks.js'
import { transferTasks } from '../tasks/transfer-tasks.js'
import { uploadTasks } from '../tasks/upload-tasks.js'
import { InPlaceHandles } from '../transfer/in-place-handles.js'
import { Intents } from '../transfer/intents.js'
import { TaskUploads } from '../transfer/task-uploads.js'
import { nameOfSubject } from '../tree/explain.js'
import { BaseFolders } from '../tree/missing-folders.js'
import { SubtreeDriver } from '../tree/subtree-driver.js'
import { VirtualFs, type TreeDependencies } from '../tree/virtual-fs.js'
import { UploadSessions } from '../uploads/upload-sessions.js'
import type { WebhookRequest } from '../webhooks/webhooks.js'
import type { Closing } from './closing.js'
import { processDescriptors } from './descriptors.js'
import { Metrics } from './metrics.js'
import { openCore, type Core, type GatewayOptions } from './core.js'

/** Maximum number of concurrent searches of all users. Others wait. */
const maxSearches = 8
/** Maximum number of thumbnails of all users that are read, made, or wait for a decoder. Others wait. */
const maxThumbnails = 64

/** The storages, and what excludes, completes and undoes changes of them. */
interface Storages {
  readonly pathLocks: PathLocks
  readonly intents: Intents
  readonly taskUploads: TaskUploads
  readonly supervisor: MountSupervisor
  readonly storages: StorageAdmin
  readonly trials: StorageTrials
  readonly storageSignIns: StorageSignIns
}

/** The parts whose work continues after its request: tasks, offline downloads, uploads in chunks, imports. */
interface Jobs {
  readonly tasks: Tasks
  readonly downloads: OfflineDownloads
  readonly uploads: UploadSessions
  readonly imports: UploadedImports
}

export interface Parts extends Core, Storages, Jobs {
  readonly search: Search
  readonly visitorAccess: VisitorAccess
  readonly tree: TreeDependencies
  readonly metrics: Metrics
}

/** Resolves when the storages have started, or soon after, and the tasks run. Rejects as `Gateway.open`. */
export async function openParts(options: GatewayOptions, closing: Closing): Promise<Parts> {
  const core = await openCore(options, closing)
  const storages = await startStorages(core, closing)
  const search = await openSearch(core, closing)
  const tree = treeOf(core, storages, search)
  const jobs = await loadJobs(core, storages, tree, closing)
  const visitorAccess = openVisitorAccess(core, tree, closing)
  const metrics = new Metrics({
    audit: core.audit,
    events: core.events,
    ldap: core.ldap,
    tasks: jobs.tasks,
    mounts: core.mounts,
  })
  followChanges(core, storages, search, closing)
  await startWork(core, storages, jobs, options.onEnded)
  await deliver(core, closing)
  return { ...core, ...storages, ...jobs, search, visitorAccess, tree, metrics }
}

async function startStorages(core: Core, closing: Closing): Promise<Storages> {
  const { config, log, driverTypes, store, events, cluster, settings, mounts, mountedTree, locks } = core
  const { rules, grants, shares, followers, spool, bandwidth, egress } = core
  const pathLocks = cluster.pathLocks(
    new Map([
      ['locks', { reload: () => locks.reload(), ownChanges: () => locks.ownChanges }],
      ['rules', { reload: () => rules.reload() }],
      ['grants', { reload: () => grants.reload() }],
      ['shares', { reload: () => shares.reload() }],
      ['moves', { reload: () => followers.reload() }],
    ] as const),
  )
  const storageOf = (id: number) => mounts.storageOf(id)
  const taskUploads = new TaskUploads({ store: store.uploads, storageOf, log })
  const intents = new Intents({ store, followers, pathLocks, ofOthers: cluster.ofOthers, log, storageOf })
  const processes = () => Math.max(config.workers, cluster.count)
  // The chunks of an upload would reach different processes.
  settings.override('multipart_enabled', () => (processes() > 1 ? 'false' : undefined))
  const supervisor: MountSupervisor = new MountSupervisor({
    log,
    driverTypes,
    store,
    events,
    cluster,
    mounts,
    spool,
    bandwidth,
    egress,
    intents,
    pathLocks,
    processes,
    uploads: taskUploads,
    own: await gatewayFolders(config.data),
    instance: cluster.instance,
    tree: (path) => new SubtreeDriver({ mounts, mountedTree, locks, pathLocks, intents, followers }, path),
  })
  closing.add(() => supervisor.stop())
  await supervisor.start()
  await followers.reload()
  const storages = new StorageAdmin({ store, mounts, supervisor, locks, events, driverTypes, log })
  const trials = new StorageTrials(supervisor.dependencies)
  const storageSignIns = new StorageSignIns(supervisor.dependencies)
  return { pathLocks, intents, taskUploads, supervisor, storages, trials, storageSignIns }
}

async function openSearch(core: Core, closing: Closing): Promise<Search> {
  const { config, log, events, cluster, settings, mounts, mountedTree } = core
  const location = storeLocation(config)
  const duty = cluster.duty('search')
  const search = await Search.open({
    settings,
    mounts,
    mountedTree,
    events,
    log,
    openIndex: () =>
      isPostgresUrl(location)
        ? openPostgresSearchIndex({ connectionString: location, application_name: cluster.instance.name })
        : openSearchIndex(join(config.data, 'search.db')),
    send: duty && ((request) => duty.request(request)),
  })
  closing.add(() => duty?.withdraw().catch(() => undefined))
  // Before the storages stop: the index applies their last events.
  closing.add(() => search.close())
  await duty?.offer({
    begin: () => search.beginWriting(),
    end: () => search.endWriting(),
    handle: (request) => search.handle(request as SearchRequest),
  })
  return search
}

function treeOf(core: Core, { pathLocks, intents }: Storages, search: Search): TreeDependencies {
  const { log, store, events, cluster, settings, mounts, mountedTree, rules, grants, followers, locks } = core
  const { accounts, audit, signedUrls, bandwidth } = core
  return {
    audit,
    log,
    store,
    events,
    cluster,
    settings,
    mounts,
    mountedTree,
    rules,
    grants,
    followers,
    locks,
    bandwidth,
    pathLocks,
    intents,
    search,
    nameOfSubject: (grant) => nameOfSubject(accounts, grant),
    isBaseFolder: (folder) => accounts.users.list().some(({ basePath }) => basePath === folder),
    bases: new BaseFolders({ mounts, mountedTree, locks, pathLocks, events, log }),
    inPlaceHandles: new InPlaceHandles(events),
    downloadRouting: new DownloadRouting(settings, signedUrls),
    descriptors: processDescriptors(),
    searches: new FairShare(maxSearches),
    thumbnails: new FairShare(maxThumbnails),
    transferSlots: new FairShare(() => Math.max(1, settings.number('transfer_files_at_once')), { times: 3 }),
  }
}

function openVisitorAccess(
  { shares, accounts, audit, store, log }: Core,
  tree: TreeDependencies,
  closing: Closing,
): VisitorAccess {
  const uploads = new ShareUploads(store.shareUploads, log)
  const as = (principal: Principal) => new SharedTree(tree, principal, uploads)
  const visitorAccess = new VisitorAccess({ shares, accounts, visits: store.shareVisits, as, audit, log })
  closing.add(() => visitorAccess.close())
  return visitorAccess
}

async function loadJobs(
  core: Core,
  { taskUploads }: Storages,
  tree: TreeDependencies,
  closing: Closing,
): Promise<Jobs> {
  const { config, log, driverTypes, protocols, store, cluster, settings, limits, audit, accounts } = core
  const { mounts, spool, bandwidth, egress } = core
  const data = resolve(config.data)
  // Tasks transfer nothing from or to clients, whose speed may be limited.
  const taskTree = { ...tree, bandwidth: { toClients: unlimited, fromClients: unlimited } }
  const asTask = (principal: Principal) => new VirtualFs(taskTree, principal)
  const tasks = await Tasks.load({
    store,
    settings: limits,
    log,
    audit,
    uploads: taskUploads,
    ofOthers: cluster.ofOthers,
    authority: (userId) => accounts.principals.forTask(userId),
  })
  tasks.register('upload', uploadTasks(spool, asTask))
  tasks.register('copy', transferTasks('copy', asTask))
  tasks.register('move', transferTasks('move', asTask))
  const downloads = new OfflineDownloads({
    tasks,
    settings,
    mounts,
    driverTypes,
    egress,
    store,
    bandwidth,
    spool,
    log,
    data,
    as: asTask,
  })
  closing.add(() => downloads.close())
  closing.add(() => tasks.close())
  const uploads = new UploadSessions({ as: (principal) => new VirtualFs(tree, principal), uploads: taskUploads })
  closing.add(() => uploads.close())
  const imports = new UploadedImports({ store, driverTypes, protocols, log, data })
  // Releases all transfers that wait for bandwidth.
  closing.add(() => bandwidth.close())
  return { tasks, downloads, uploads, imports }
}

/** Applies what other processes change from now on. */
function followChanges(
  { store, cluster, rules, grants, shares, followers, locks, webhooks }: Core,
  { storages, supervisor }: Storages,
  search: Search,
  closing: Closing,
): void {
  const unsubscribers = [
    cluster.onCountChange(() => void supervisor.processesChanged()),
    store.onForeignChange('rules', () => rules.reload()),
    store.onForeignChange('grants', () => grants.reload()),
    store.onForeignChange('shares', () => shares.reload()),
    store.onForeignChange('moves', () => followers.reload()),
    store.onForeignChange('locks', () => locks.reload()),
    store.onForeignChange('webhooks', () => webhooks.reload()),
    store.onForeignChange('storages', async () => {
      await Promise.all([storages.deleteMarked(), supervisor.reload()])
      search.mountsChanged()
    }),
  ]
  closing.add(() => {
    for (const unsubscribe of unsubscribers) unsubscribe()
  })
}

/** Starts the tasks. From now on, this node also takes over the work of others that end. */
async function startWork(
  { store, events, cluster, audit }: Core,
  { supervisor }: Storages,
  { downloads, tasks }: Jobs,
  onEnded: GatewayOptions['onEnded'],
): Promise<void> {
  // Reads the changes that other nodes have made after it was loaded, and before this node listened.
  await cluster.ofOthers(() => store.notifyAll())
  await downloads.start()
  await tasks.start()
  // Changes of other nodes may have been missed, or one has died before it told of its last ones.
  const forgetFiles = () => events.emit({ kind: 'changed elsewhere', path: root }, 'elsewhere')
  cluster.start({
    reload: async () => {
      await store.notifyAll()
      forgetFiles()
    },
    takeOver: async () => {
      forgetFiles()
      await audit.takeOver()
      await supervisor.recoverAll()
      await tasks.takeOver()
    },
    working: () => ({
      tasks: tasks.all.filter(({ state }) => state === 'running').length,
      transfers: events.openTransfers,
    }),
    ended: () => onEnded?.(),
  })
}

/** One process at a time sends what the webhooks of all have to get. */
async function deliver({ cluster, webhooks }: Core, closing: Closing): Promise<void> {
  const duty = cluster.duty('webhooks')
  closing.add(async () => {
    webhooks.end()
    await duty?.withdraw().catch(() => undefined)
  })
  if (!duty) {
    webhooks.begin()
    return
  }
  webhooks.askBy((request) => duty.request(request))
  await duty.offer({
    begin: () => webhooks.begin(),
    end: () => webhooks.end(),
    handle: (request) => webhooks.handle(request as WebhookRequest),
  })
}
