/** Builds and connects all components. Protocols use them only as `protocol-gateway.ts` lists. */
import { mkdir } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import { Accounts } from '../accounts/accounts.js'
import { bootstrapAccounts, type FirstAdmin } from '../accounts/bootstrap.js'
import type { Principal, ProtocolFacts } from '../accounts/principal.js'
import type { KeyFingerprint } from '../accounts/public-keys.js'
import { settlesWithin } from '../base/cancellation.js'
import type { Source } from '../contract/call-options.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import { FairShare } from '../base/fair-share.js'
import type { Log } from '../base/log.js'
import { root, type Path } from '../base/path.js'
import { OfflineDownloads } from '../offline-downloads/offline-downloads.js'
import { DownloadRouting } from '../download-urls/download-routing.js'
import { SignedUrls } from '../download-urls/signed-urls.js'
import { joinCluster, type Cluster } from '../cluster/cluster.js'
import { EgressGuard } from '../net/egress.js'
import { Search, searchCloseTimeout, type SearchRequest } from '../search/search.js'
import { Settings } from '../settings/settings.js'
import { Bandwidth, unlimited } from '../storage/bandwidth.js'
import { Events } from '../storage/events.js'
import { MountSupervisor, storagesCloseTimeout } from '../mounts/mount-supervisor.js'
import { Mounts } from '../mounts/mounts.js'
import { Spool } from '../storage/fallbacks/spool.js'
import { newStorage } from '../database/new-storage.js'
import { openPostgresSearchIndex, openSearchIndex } from '../database/search/search-index.js'
import { isPostgresUrl } from '../database/store-url.js'
import { listenersCloseTimeout } from '../database/foreign-changes.js'
import type { ProcessChannel } from '../database/engine.js'
import type { Store } from '../database/tables.js'
import { openStore } from '../database/store.js'
import type { Task } from '../tasks/task.js'
import { tasksCloseTimeout } from '../tasks/task-runs.js'
import { Tasks } from '../tasks/tasks.js'
import { transferRequest, transferTasks, type TransferTaskOptions } from '../tasks/transfer-tasks.js'
import { spooledFiles, uploadRequest, uploadTasks, type UploadOptions } from '../tasks/upload-tasks.js'
import { InPlaceHandles } from '../transfer/in-place-handles.js'
import { Intents } from '../transfer/intents.js'
import { TaskUploads } from '../transfer/task-uploads.js'
import { BaseFolders } from '../tree/missing-folders.js'
import { Rules } from '../tree/folder-rules.js'
import { Locks } from '../locks/webdav-locks.js'
import { SubtreeDriver } from '../tree/subtree-driver.js'
import { VirtualFs, type TreeDependencies } from '../tree/virtual-fs.js'
import { UploadSessions, uploadsCloseTimeout } from '../uploads/upload-sessions.js'
import { needsSignature } from '../tree/access.js'
import { backupBeforeUpgrade } from '../installation/backup.js'
import { storeLocation, type Addresses, type Config } from '../installation/config.js'
import { firstStorageFolder, gatewayFolders } from '../installation/data-folder.js'
import { processDescriptors } from './descriptors.js'
import { serverKeysOf, type KeyedProtocol } from '../installation/import/server-keys.js'
import { UploadedImports } from '../installation/import/uploaded-imports.js'
import { thisInstance, type ThisInstance } from '../installation/instance.js'
import { LogTail } from './log-tail.js'
import { Metrics } from './metrics.js'
import { StorageAdmin, insertStorage } from '../mounts/storage-admin.js'

interface GatewayOptions {
  readonly config: Config
  readonly log: Log
  /** Gets the lines of `log`. Absent: none are held. */
  readonly logTail?: LogTail
  readonly drivers: readonly AnyDriverType[]
  readonly protocols: readonly (ProtocolFacts & KeyedProtocol)[]
  /** The admin account that the first run makes. */
  readonly admin: FirstAdmin
  /** This run; by default a new one. */
  readonly instance?: ThisInstance
  /** Called when another node has ended this one: the gateway must be closed. Absent: nothing happens. */
  readonly onEnded?: () => void
  /** To the other processes that serve the same data folder. Absent: there are none. */
  readonly channel?: ProcessChannel
}

interface GatewayDependencies extends TreeDependencies {
  readonly cluster: Cluster
  readonly supervisor: MountSupervisor
  readonly settings: Settings
  readonly bandwidth: Bandwidth
  readonly accounts: Accounts
  readonly signedUrls: SignedUrls
  readonly tasks: Tasks
  readonly spool: Spool
  readonly storages: StorageAdmin
  readonly egress: EgressGuard
  readonly taskUploads: TaskUploads
}

/** What has been opened so far and must be closed, also if the start fails. */
interface Opened {
  readonly store: Store
  cluster?: Cluster
  settings?: Settings
  bandwidth?: Bandwidth
  accounts?: Accounts
  tasks?: Tasks
  supervisor?: MountSupervisor
  signedUrls?: SignedUrls
  search?: Search
  uploads?: UploadSessions
  /** Ends the writing of the search index. */
  withdraw?: () => Promise<void>
  downloads?: OfflineDownloads
  /** Remove the listeners for changes by other processes. */
  unsubscribe?: readonly (() => void)[]
}

/** Concurrent searches of all users. Others wait. */
const maxSearches = 8
/** Concurrent thumbnails of all users. Others wait. */
const maxThumbnails = 16

/** Milliseconds within which the database of a ready daemon responds. */
const databaseTimeout = 2000

/** The longest time that `Gateway.close` takes, in seconds. */
export const gatewayClosingSeconds =
  (uploadsCloseTimeout + tasksCloseTimeout + searchCloseTimeout + storagesCloseTimeout + listenersCloseTimeout) / 1000

/** Where the protocols accept connections. */
export interface Listening {
  /** By protocol: the bound addresses, `HOST:PORT`, or "off". */
  readonly addresses: Addresses
  /** By protocol: those of the keys by which clients recognize the server. */
  readonly fingerprints: Readonly<Record<string, readonly KeyFingerprint[]>>
}

export class Gateway {
  readonly config: Config
  readonly log: Log
  readonly logTail: LogTail
  /** Those of the configuration, until the daemon has bound them. */
  listening: Listening
  /** Whether the daemon is stopping: running requests are completed, and new ones belong to other daemons. */
  isDraining = false
  readonly accounts: Accounts
  readonly settings: Settings
  readonly signedUrls: SignedUrls
  readonly tasks: Tasks
  readonly downloads: OfflineDownloads
  /** Files that clients send in chunks. */
  readonly uploads: UploadSessions
  /** Imports from other programs. */
  readonly imports: UploadedImports
  readonly mounts: Mounts
  readonly supervisor: MountSupervisor
  readonly storages: StorageAdmin
  /** The drivers of which storages can be created. */
  readonly driverTypes: readonly AnyDriverType[]
  /** The protocols by which clients reach this gateway. */
  readonly protocols: readonly ProtocolFacts[]
  readonly rules: Rules
  readonly locks: Locks
  readonly secrets: Store['secrets']
  readonly search: Search
  readonly metrics: Metrics
  readonly spool: Spool
  readonly store: Store
  readonly cluster: Cluster
  /** What connections, open files and listings hold. */
  readonly descriptors: FairShare
  readonly #tree: TreeDependencies
  readonly #opened: Opened

  private constructor(options: GatewayOptions, dependencies: GatewayDependencies, opened: Opened) {
    this.config = options.config
    this.log = options.log
    this.logTail = options.logTail ?? new LogTail()
    this.listening = { addresses: options.config.addresses, fingerprints: {} }
    this.accounts = dependencies.accounts
    this.settings = dependencies.settings
    this.signedUrls = dependencies.signedUrls
    this.tasks = dependencies.tasks
    this.mounts = dependencies.mounts
    this.supervisor = dependencies.supervisor
    this.storages = dependencies.storages
    this.driverTypes = options.drivers
    this.protocols = options.protocols
    this.rules = dependencies.rules
    this.locks = dependencies.locks
    this.secrets = dependencies.store.secrets
    this.search = dependencies.search
    this.metrics = new Metrics(dependencies)
    this.spool = dependencies.spool
    this.store = dependencies.store
    this.cluster = dependencies.cluster
    this.descriptors = dependencies.descriptors
    this.#tree = dependencies
    this.#opened = opened
    this.downloads = opened.downloads = new OfflineDownloads({
      ...dependencies,
      driverTypes: options.drivers,
      data: resolve(options.config.data),
      as: (principal) => this.#asTask(principal),
    })
    this.uploads = opened.uploads = new UploadSessions({
      as: (principal) => this.as(principal),
      uploads: dependencies.taskUploads,
    })
    this.imports = new UploadedImports({
      store: this.store,
      data: resolve(options.config.data),
      driverTypes: options.drivers,
      serverKeys: serverKeysOf(options.protocols),
      log: options.log,
    })
    opened.unsubscribe = [
      dependencies.cluster.onCountChange(() => void dependencies.supervisor.processesChanged()),
      dependencies.store.onForeignChange('rules', () => dependencies.rules.reload()),
      dependencies.store.onForeignChange('locks', () => dependencies.locks.reload()),
      dependencies.store.onForeignChange('storages', async () => {
        await Promise.all([this.storages.deleteMarked(), dependencies.supervisor.reload()])
        dependencies.search.mountsChanged()
      }),
    ]
  }

  /**
   * Whether requests are best sent here: the daemon is not stopping, its storages have started or failed, the database
   * responds, and the node is current. Never rejects.
   */
  async isReady(): Promise<boolean> {
    if (this.isDraining || this.supervisor.isStarting || !this.cluster.isCurrent) return false
    const answers = this.store.ping().then(
      () => true,
      () => false,
    )
    return (await settlesWithin(answers, databaseTimeout)) && answers
  }

  /**
   * Opens the data folder, creates it if necessary, and starts the storages. A storage that fails does not prevent the
   * start. Rejects with a GatewayError whose reason is a message for the admin.
   */
  static async open(options: GatewayOptions): Promise<Gateway> {
    const { config, log } = options
    await mkdir(config.data, { recursive: true, mode: 0o700 })
    const run = options.instance ?? thisInstance()
    const location = storeLocation(config)
    const { name: node, runs } = run
    const store = await openStore(location, {
      node,
      runs,
      connections: config.store_connections,
      beforeUpgrade: backupBeforeUpgrade(config),
      ...(options.channel && { channel: options.channel }),
    })
    const opened: Opened = { store }
    try {
      await firstRun(store, options)
      const name = `${hostname()}:${process.pid}`
      const events = new Events()
      const cluster = (opened.cluster = await joinCluster({ store, instance: run, name, events, log }))
      const { instance } = cluster
      const settings = (opened.settings = await Settings.open(store, log))
      const limits = cluster.limits(settings)
      const bandwidth = (opened.bandwidth = new Bandwidth(limits))
      const accounts = (opened.accounts = await Accounts.open({
        store,
        settings,
        tokenHours: config.token_hours,
        log,
        cluster,
      }))
      const mounts = new Mounts()
      const rules = await Rules.load(store, (path) => mounts.caseFoldedPath(path), log)
      const locks = await Locks.load(store.locks, cluster)
      const authority = (userId: number) => accounts.forTask(userId)
      const storageOf = (id: number) => mounts.storageOf(id)
      const uploads = new TaskUploads({ store: store.uploads, storageOf, log })
      const tasks = (opened.tasks = await Tasks.load({ store, settings: limits, log, authority, uploads }))
      const spool = await Spool.open(join(config.data, 'spool'), {
        instance,
        keep: spooledFiles(tasks.all),
        neededElsewhere: spooledFiles(await tasks.ofAllNodes({ kind: 'upload' })),
        limit: () => spoolLimit(settings),
      })
      const egress = new EgressGuard(() => settings.get('egress_networks'))
      const mirrors = new Map([
        ['locks', { reload: () => locks.reload(), ownChanges: () => locks.ownChanges }],
        ['rules', { reload: () => rules.reload() }],
      ] as const)
      const pathLocks = cluster.pathLocks(mirrors)
      const intents = new Intents({ store, rules, pathLocks, ofOthers: cluster.ofOthers, log, storageOf })
      const processes = () => Math.max(config.workers, cluster.count)
      // The chunks of an upload would reach different processes.
      settings.override('multipart_enabled', () => (processes() > 1 ? 'false' : undefined))
      const supervisor: MountSupervisor = (opened.supervisor = new MountSupervisor({
        mounts,
        intents,
        uploads,
        egress,
        pathLocks,
        processes,
        store,
        events,
        spool,
        bandwidth,
        log,
        driverTypes: options.drivers,
        own: await gatewayFolders(config.data),
        instance,
        cluster,
        tree: (path) => new SubtreeDriver({ mounts, locks, pathLocks, intents, rules, log }, path),
      }))
      const signedUrls = (opened.signedUrls = new SignedUrls({
        settings,
        needsSignature: (path) => needsSignature({ mounts, rules }, path),
      }))
      await supervisor.start()
      await rules.reload()
      const search = (opened.search = await Search.open({
        settings,
        mounts,
        events,
        log,
        openIndex: () =>
          isPostgresUrl(location)
            ? openPostgresSearchIndex({ connectionString: location, application_name: run.name })
            : openSearchIndex(join(config.data, 'search.db')),
        send: cluster.requestSearch,
      }))
      opened.withdraw = await cluster.offer({
        name: 'search',
        begin: () => search.beginWriting(),
        end: () => search.endWriting(),
        handle: (request) => search.handle(request as SearchRequest),
      })
      const filesAtOnce = () => Math.max(1, settings.number('transfer_files_at_once'))
      const inPlaceHandles = new InPlaceHandles(events)
      const storages = new StorageAdmin({ store, mounts, supervisor, locks, events, log, driverTypes: options.drivers })
      const downloadRouting = new DownloadRouting(settings, signedUrls)
      const bases = new BaseFolders({ mounts, rules, locks, pathLocks, events, log })
      const tree = {
        cluster,
        store,
        rules,
        locks,
        events,
        mounts,
        intents,
        bases,
        inPlaceHandles,
        pathLocks,
        settings,
        bandwidth,
        downloadRouting,
        search,
        log,
        descriptors: processDescriptors(),
        searches: new FairShare(maxSearches),
        thumbnails: new FairShare(maxThumbnails),
        transferSlots: new FairShare(filesAtOnce, { times: 3 }),
      }
      const dependencies = {
        ...tree,
        supervisor,
        accounts,
        spool,
        storages,
        signedUrls,
        tasks,
        egress,
        taskUploads: uploads,
      }
      const gateway = new Gateway(options, dependencies, opened)
      // What others have changed since it was loaded, before this node listened.
      await cluster.ofOthers(() => store.notifyAll())
      await gateway.#startTasks()
      // Changes of other nodes may have been missed, or one has died before it told of its last ones.
      const forgetFiles = () => events.emit({ kind: 'changed elsewhere', path: root }, 'elsewhere')
      cluster.start({
        reload: async () => {
          await store.notifyAll()
          forgetFiles()
        },
        takeOver: async () => {
          forgetFiles()
          await supervisor.recoverAll()
          await tasks.takeOver()
        },
        working: () => ({
          tasks: tasks.all.filter(({ state }) => state === 'running').length,
          transfers: events.openTransfers,
        }),
        ended: () => options.onEnded?.(),
      })
      return gateway
    } catch (error) {
      await closeAll(opened).catch((failure: unknown) => log.warn({ err: failure }, 'the gateway did not close well'))
      throw error
    }
  }

  async #startTasks(): Promise<void> {
    const as = (principal: Principal) => this.#asTask(principal)
    this.tasks.register('upload', uploadTasks(this.spool, as))
    this.tasks.register('copy', transferTasks('copy', as))
    this.tasks.register('move', transferTasks('move', as))
    await this.downloads.start()
    await this.tasks.start()
  }

  /** The tree as the principal sees it. The only access to the tree. */
  as(principal: Principal): VirtualFs {
    return new VirtualFs(this.#tree, principal)
  }

  /** The whole tree as an admin sees it. Throws `denied` unless the principal is an admin. */
  asAdmin(principal: Principal): VirtualFs {
    return this.as(principal.withWholeTree())
  }

  /** The tree without the speed limits of clients, because tasks transfer nothing from or to clients. */
  #asTask(principal: Principal): VirtualFs {
    const bandwidth = { toClients: unlimited, fromClients: unlimited }
    return new VirtualFs({ ...this.#tree, bandwidth }, principal)
  }

  /** Adds a task that copies or moves `from` to the new path `to`. Both paths are relative to the principal's base. */
  submitTransfer(
    principal: Principal,
    kind: 'copy' | 'move',
    paths: readonly [from: Path, to: Path],
    options: TransferTaskOptions,
  ): Promise<Task> {
    return this.tasks.add(principal, transferRequest(kind, principal, paths, options, this.mounts))
  }

  /**
   * Receives a file into the spool, and adds a task that stores it at `path`, relative to the principal's base.
   * Resolves when the task is added.
   */
  async submitUpload(
    principal: Principal,
    path: Path,
    source: Source,
    options: UploadOptions & { readonly signal: AbortSignal },
  ): Promise<Task> {
    const received = await this.spool.receive(source, options.signal, true)
    try {
      return await this.tasks.add(principal, uploadRequest(principal, path, received, options, this.mounts))
    } catch (error) {
      await received.dispose()
      throw error
    }
  }

  /**
   * Stops background work, closes the storages and, last, the database. The protocols must be closed before. Whatever
   * waits for a backend has a timeout, and so have the listeners of other processes' changes, `gatewayClosingSeconds`
   * in total: work that has not ended by then is abandoned, so that a backend that does not answer cannot block the
   * exit. The last statements of the accounts and the closing of the database have none: they wait for the local disk
   * only.
   */
  close(): Promise<void> {
    return closeAll(this.#opened)
  }
}

async function closeAll(opened: Opened): Promise<void> {
  for (const unsubscribe of opened.unsubscribe ?? []) unsubscribe()
  // Releases all transfers that wait for bandwidth.
  opened.bandwidth?.close()
  await opened.uploads?.close()
  await opened.tasks?.close()
  opened.downloads?.close()
  // Before the storages stop: the index applies their last events.
  await opened.search?.close()
  await opened.withdraw?.().catch(() => undefined)
  await opened.supervisor?.stop()
  opened.signedUrls?.close()
  await opened.accounts?.close()
  opened.settings?.close()
  // Last: others take over what this node owns.
  await opened.cluster?.leave().catch(() => undefined)
  await opened.store.close()
}

/**
 * Creates the database of the configuration, its first storage and accounts, if they do not exist. Rejects as
 * `Gateway.open`.
 */
export async function prepareDatabase(options: Pick<GatewayOptions, 'config' | 'drivers' | 'admin'>): Promise<void> {
  const { config } = options
  await mkdir(config.data, { recursive: true, mode: 0o700 })
  const store = await openStore(storeLocation(config), { beforeUpgrade: backupBeforeUpgrade(config) })
  try {
    await firstRun(store, options)
  } finally {
    await store.close()
  }
}

/** Creates a storage and the accounts in a new data folder. */
async function firstRun(
  store: Store,
  { config, drivers, admin }: Pick<GatewayOptions, 'config' | 'drivers' | 'admin'>,
): Promise<void> {
  // The accounts are created last: their existence marks a completed first run.
  // Only the admin knows whether the nodes that share a database see the same folder.
  const isFirst = store.shared?.spansMachines !== true && (await store.users.all()).length === 0
  if (isFirst && (await store.storages.all()).length === 0) await createFirstStorage(store, config.data, drivers)
  await bootstrapAccounts(store, admin)
}

/** Creates a folder in the data folder `data`, and mounts it at `/`. */
export async function createFirstStorage(store: Store, data: string, drivers: readonly AnyDriverType[]): Promise<void> {
  await mkdir(join(data, firstStorageFolder), { recursive: true, mode: 0o700 })
  // Relative: the data folder may be moved.
  const addition = JSON.stringify({ root_folder_path: firstStorageFolder })
  await insertStorage(newStorage({ mountPath: root, driver: 'Local', addition }), { store, driverTypes: drivers })
}

/** `spool_size_limit` in bytes. */
function spoolLimit(settings: Settings): number {
  const megabytes = settings.number('spool_size_limit')
  return megabytes < 0 ? Infinity : megabytes * 1024 * 1024
}
