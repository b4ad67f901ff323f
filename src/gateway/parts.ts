/**
 * Builds and connects all parts of the gateway. Each that has been opened adds to `closing` how it is closed: all are
 * closed in the reverse order, also if a later one cannot be opened.
 */
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import { AuditLog } from '../audit/log-target.js'
import { Traffic } from '../audit/traffic.js'
import { Accounts } from '../accounts/accounts.js'
import type { FirstAdmin } from '../accounts/bootstrap.js'
import type { Principal, ProtocolFacts } from '../accounts/principal.js'
import { Audit } from '../audit/audit.js'
import { FairShare } from '../base/fair-share.js'
import type { Log } from '../base/log.js'
import { root, type Path } from '../base/path.js'
import { joinCluster, type Cluster, type Limits } from '../cluster/cluster.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import type { ProcessChannel } from '../database/engine.js'
import { openPostgresSearchIndex, openSearchIndex } from '../database/search/search-index.js'
import { isPostgresUrl } from '../database/store-url.js'
import type { Store } from '../database/tables.js'
import { DownloadRouting } from '../download-urls/download-routing.js'
import { SignedUrls } from '../download-urls/signed-urls.js'
import { storeLocation, type Config } from '../installation/config.js'
import { auditFolder, gatewayFolders } from '../installation/data-folder.js'
import type { KeyedProtocol } from '../installation/import/server-keys.js'
import { UploadedImports } from '../installation/import/uploaded-imports.js'
import { thisInstance, type ThisInstance } from '../installation/instance.js'
import type { PathLocks } from '../locks/path-locks.js'
import { Locks } from '../locks/webdav-locks.js'
import { MountSupervisor } from '../mounts/mount-supervisor.js'
import { MountedTree } from '../mounts/mounted-tree.js'
import { Mounts } from '../mounts/mounts.js'
import { StorageAdmin } from '../mounts/storage-admin.js'
import { EgressGuard } from '../net/egress.js'
import { OfflineDownloads } from '../offline-downloads/offline-downloads.js'
import { Search, type SearchRequest } from '../search/search.js'
import { settingDefinitions, type ProtocolWithSettings } from '../settings/settings-table.js'
import { Settings } from '../settings/settings.js'
import { LdapSignIn } from '../sign-in/ldap-sign-in.js'
import { ShareUploads } from '../shares/share-uploads.js'
import { SharedTree } from '../shares/shared-tree.js'
import { VisitorAccess } from '../shares/visitor-access.js'
import { Shares } from '../shares/shares.js'
import { Bandwidth, unlimited } from '../storage/bandwidth.js'
import { Events } from '../storage/events.js'
import { Spool } from '../storage/fallbacks/spool.js'
import type { Task } from '../tasks/task.js'
import { Tasks } from '../tasks/tasks.js'
import { transferTasks } from '../tasks/transfer-tasks.js'
import { spooledFiles, uploadTasks } from '../tasks/upload-tasks.js'
import { InPlaceHandles } from '../transfer/in-place-handles.js'
import { Intents } from '../transfer/intents.js'
import { TaskUploads } from '../transfer/task-uploads.js'
import { nameOfSubject } from '../tree/explain.js'
import { Rules } from '../tree/folder-rules.js'
import { Followers } from '../tree/followers.js'
import { Grants } from '../tree/grants.js'
import { BaseFolders } from '../tree/missing-folders.js'
import { SubtreeDriver } from '../tree/subtree-driver.js'
import { VirtualFs, type TreeDependencies } from '../tree/virtual-fs.js'
import { needsSignature } from '../tree/decisions.js'
import { UploadSessions } from '../uploads/upload-sessions.js'
import { SingleSignOn } from '../sign-in/single-sign-on.js'
import { Webhooks, type WebhookRequest } from '../webhooks/webhooks.js'
import type { Closing } from './closing.js'
import { processDescriptors } from './descriptors.js'
import { openDatabase } from './open-database.js'
import type { LogTail } from './log-tail.js'
import { Metrics } from './metrics.js'

export interface GatewayOptions {
  readonly config: Config
  readonly log: Log
  /** Gets the lines of `log`. Absent: none are held. */
  readonly logTail?: LogTail
  readonly drivers: readonly AnyDriverType[]
  readonly protocols: readonly (ProtocolFacts & KeyedProtocol & ProtocolWithSettings)[]
  /** The admin account that the first run makes. */
  readonly admin: FirstAdmin
  /** The run of the program; by default a new one. */
  readonly instance?: ThisInstance
  /** Called when another node has ended this one: the gateway must be closed. Absent: nothing happens. */
  readonly onEnded?: () => void
  /** The channel to the other processes that serve the same data folder. Absent: there are none. */
  readonly channel?: ProcessChannel
}

/** Concurrent searches of all users. Others wait. */
const maxSearches = 8
/** Concurrent thumbnails of all users. Others wait. */
const maxThumbnails = 16

/** The database, this process as a node, the accounts, and what is held in memory of them. */
interface Core {
  readonly config: Config
  readonly log: Log
  readonly driverTypes: readonly AnyDriverType[]
  readonly protocols: GatewayOptions['protocols']
  readonly store: Store
  readonly events: Events
  readonly cluster: Cluster
  readonly settings: Settings
  /** The settings, with this process's part of the limits that hold for all processes together. */
  readonly limits: Limits
  readonly audit: Audit
  readonly traffic: Traffic
  readonly accounts: Accounts
  readonly ldap: LdapSignIn
  readonly mounts: Mounts
  readonly mountedTree: MountedTree
  readonly rules: Rules
  readonly grants: Grants
  readonly shares: Shares
  readonly followers: Followers
  readonly locks: Locks
  readonly signedUrls: SignedUrls
  readonly spool: Spool
  readonly bandwidth: Bandwidth
  readonly egress: EgressGuard
  readonly webhooks: Webhooks
  readonly singleSignOn: SingleSignOn
}

/** The storages, and what excludes, completes and undoes changes of them. */
interface Storages {
  readonly pathLocks: PathLocks
  readonly intents: Intents
  readonly taskUploads: TaskUploads
  readonly supervisor: MountSupervisor
  readonly storages: StorageAdmin
}

/** What goes on after its request: tasks, offline downloads, uploads in chunks, imports. */
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

async function openCore(options: GatewayOptions, closing: Closing): Promise<Core> {
  const { config, log, drivers: driverTypes, protocols } = options
  const run = options.instance ?? thisInstance()
  const store = await openDatabase(options, run)
  closing.add(() => store.close())
  const events = new Events()
  const node = `${hostname()}:${process.pid}`
  const cluster = await joinCluster({ store, instance: run, name: node, events, log })
  // Others take over what this node owns.
  closing.add(() => cluster.leave().catch(() => undefined))
  const settings = await Settings.open(store, settingDefinitions(protocols, driverTypes), log)
  closing.add(() => settings.close())
  const traffic = new Traffic(store.traffic, log)
  closing.add(() => traffic.close())
  const auditLog = new AuditLog(settings, log)
  closing.add(() => auditLog.close())
  const folder = join(config.data, auditFolder)
  const egress = new EgressGuard(() => settings.get('egress_networks'))
  // Before the audit, which stores what earlier processes have left, with its deliveries.
  const webhooks = await Webhooks.open({ store, egress, siteUrl: config.site_url, log })
  const { deliveriesOf, onWritten } = webhooks
  const { instance } = cluster
  const { write } = auditLog
  const audit = await Audit.open({ store, settings, folder, instance, node, log, write, deliveriesOf, onWritten })
  closing.add(() => audit.close())
  audit.on(traffic.count)
  const accounts = await Accounts.open({ store, settings, tokenHours: config.token_hours, log, cluster, audit })
  closing.add(() => accounts.close())
  const ldap = new LdapSignIn({ accounts, settings, egress, log, audit })
  accounts.useDirectory(ldap)
  ldap.start()
  closing.add(() => ldap.close())
  const singleSignOn = new SingleSignOn({ accounts, settings, store, egress, log, audit })
  const mounts = new Mounts()
  const mountedTree = new MountedTree(mounts, log)
  const foldedPath = (path: Path) => mounts.caseFoldedPath(path)
  const rules = await Rules.load(store, foldedPath, log)
  const grants = await Grants.load(store, foldedPath)
  const shares = await Shares.load({
    store,
    foldedPath,
    onChanged: ({ id, creatorId }) => {
      accounts.principals.endShare(creatorId, id, { reason: 'the share has changed' })
      locks
        .dropOfShares((each) => each === id)
        .catch((error: unknown) =>
          log.warn({ err: error, share: shares.pseudonymOf(id) }, 'locks of visitors were not removed'),
        )
    },
  })
  const followers = new Followers([rules, grants, shares], { moves: store.moves, ofOthers: cluster.ofOthers, log })
  const locks = await Locks.load(store.locks, cluster, (id) => shares.get(id)?.expires)
  // An earlier run may have ended after it had changed a share.
  await locks.dropOfShares((id) => shares.get(id)?.disabled !== false)
  const signedUrls = new SignedUrls({
    settings,
    needsSignature: (path) => needsSignature({ mounts, rules, grants }, path),
  })
  closing.add(() => signedUrls.close())
  const spool = await Spool.open(join(config.data, 'spool'), {
    instance: cluster.instance,
    keep: spooledFiles((await store.tasks.owned()) as Task[]),
    neededElsewhere: spooledFiles((await store.tasks.all({ kind: 'upload' })) as Task[]),
    limit: () => spoolLimit(settings),
  })
  const limits = cluster.limits(settings)
  const bandwidth = new Bandwidth(limits)
  return {
    ...{
      config,
      log,
      driverTypes,
      protocols,
      store,
      events,
      cluster,
      settings,
      limits,
      audit,
      traffic,
      accounts,
      ldap,
    },
    ...{ mounts, mountedTree, rules, grants, shares, followers, locks, signedUrls, spool, bandwidth, egress, webhooks },
    singleSignOn,
  }
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
    ...{ log, driverTypes, store, events, cluster, mounts, spool, bandwidth, egress, intents, pathLocks, processes },
    uploads: taskUploads,
    own: await gatewayFolders(config.data),
    instance: cluster.instance,
    tree: (path) => new SubtreeDriver({ mounts, mountedTree, locks, pathLocks, intents, followers }, path),
  })
  closing.add(() => supervisor.stop())
  await supervisor.start()
  await followers.reload()
  const storages = new StorageAdmin({ store, mounts, supervisor, locks, events, driverTypes, log })
  return { pathLocks, intents, taskUploads, supervisor, storages }
}

async function openSearch(core: Core, closing: Closing): Promise<Search> {
  const { config, log, events, cluster, settings, mounts, mountedTree } = core
  const location = storeLocation(config)
  const duty = cluster.duty('search')
  const search = await Search.open({
    ...{ settings, mounts, mountedTree, events, log },
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
    ...{
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
    },
    ...{ pathLocks, intents, search },
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
    ...{ store, settings: limits, log, audit, uploads: taskUploads, ofOthers: cluster.ofOthers },
    authority: (userId) => accounts.principals.forTask(userId),
  })
  tasks.register('upload', uploadTasks(spool, asTask))
  tasks.register('copy', transferTasks('copy', asTask))
  tasks.register('move', transferTasks('move', asTask))
  const downloads = new OfflineDownloads({
    ...{ tasks, settings, mounts, driverTypes, egress, store, bandwidth, spool, log, data },
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
  // What others have changed since it was loaded, before this node listened.
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

/** `spool_size_limit` in bytes. */
function spoolLimit(settings: Settings): number {
  const megabytes = settings.number('spool_size_limit')
  return megabytes < 0 ? Infinity : megabytes * 1024 * 1024
}
