/** Puts the parts together. Doors get this, and nothing of what is behind it. */
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { Accounts } from './accounts/accounts.js'
import { bootstrapAccounts, type AdminPassword } from './accounts/bootstrap.js'
import { Bandwidth, unlimited } from './bandwidth.js'
import { BaseFolders } from './base-folders.js'
import type { Config } from './config.js'
import { firstFiles, ownFolders } from './data-folder.js'
import { Deliveries } from './deliveries.js'
import { OfflineDownloads } from './downloads/offline-downloads.js'
import type { AnyDriverType } from './driver.js'
import { EgressGuard, parseNetworks } from './egress.js'
import { Events } from './events.js'
import { FileTurns } from './file-turns.js'
import { thisInstance } from './instance.js'
import { Intents } from './intents.js'
import { KeptUploads } from './kept-uploads.js'
import { Links } from './links.js'
import { Locks } from './locks.js'
import type { Log } from './log.js'
import { Mounts } from './mounts.js'
import { root } from './path.js'
import type { Principal } from './principal.js'
import { Reservations } from './reservations.js'
import { Rules } from './rules.js'
import { Search } from './search/search.js'
import { Settings } from './settings.js'
import { Spool } from './spool.js'
import { Storages, storeNew } from './storages.js'
import { newStorage } from './store/new-storage.js'
import type { Store } from './store/rows.js'
import { openStore } from './store/store.js'
import { Tasks } from './tasks/tasks.js'
import { transferTasks } from './tasks/transfer-tasks.js'
import { spooledFiles, uploadTasks } from './tasks/upload-tasks.js'
import { TreeView } from './tree-view.js'
import { VirtualFs, type TreeParts } from './virtual-fs.js'
import { needsSignature } from './visibility.js'

export interface GatewayOptions {
  readonly config: Config
  readonly log: Log
  readonly drivers: readonly AnyDriverType[]
  /** Of the admin, where there is none yet. */
  readonly adminPassword: AdminPassword
}

interface Parts extends TreeParts {
  readonly settings: Settings
  readonly bandwidth: Bandwidth
  readonly accounts: Accounts
  readonly links: Links
  readonly tasks: Tasks
  readonly spool: Spool
  readonly storages: Storages
  readonly egress: EgressGuard
}

export class Gateway {
  readonly config: Config
  readonly log: Log
  readonly accounts: Accounts
  readonly settings: Settings
  readonly links: Links
  readonly tasks: Tasks
  readonly downloads: OfflineDownloads
  readonly mounts: Mounts
  readonly storages: Storages
  /** What a storage can be made of. */
  readonly driverTypes: readonly AnyDriverType[]
  readonly rules: Rules
  readonly locks: Locks
  readonly search: Search
  readonly spool: Spool
  readonly store: Store
  readonly #tree: TreeParts
  readonly #bandwidth: Bandwidth
  readonly #unsubscribe: () => void

  private constructor(options: GatewayOptions, parts: Parts) {
    this.config = options.config
    this.log = options.log
    this.accounts = parts.accounts
    this.settings = parts.settings
    this.links = parts.links
    this.tasks = parts.tasks
    this.mounts = parts.mounts
    this.storages = parts.storages
    this.driverTypes = options.drivers
    this.rules = parts.rules
    this.locks = parts.locks
    this.search = parts.search
    this.spool = parts.spool
    this.store = parts.store
    this.#tree = parts
    this.#bandwidth = parts.bandwidth
    this.downloads = new OfflineDownloads({
      ...parts,
      data: resolve(options.config.data),
      as: (principal) => this.#asTask(principal),
    })
    this.#unsubscribe = parts.store.onForeignChange(async () => {
      await Promise.all([parts.rules.reload(), parts.locks.reload(), parts.mounts.reload()])
      parts.search.mountsChanged()
    })
  }

  /**
   * Opens the data folder, making what is missing, and starts the storages; a broken one keeps nothing else from starting.
   * Rejects with a GatewayError whose reason is a sentence for the admin.
   */
  static async open(options: GatewayOptions): Promise<Gateway> {
    const { config, log } = options
    await mkdir(config.data, { recursive: true, mode: 0o700 })
    const store = await openStore(join(config.data, 'data.db'))
    try {
      await firstRun(store, options)
      const settings = await Settings.open(store, log)
      const bandwidth = new Bandwidth(settings)
      const accounts = await Accounts.open({ store, settings, tokenHours: config.token_hours, log })
      const rules = await Rules.load(store, (path) => mounts.foldedPath(path), log)
      const locks = await Locks.load(store.locks)
      const events = new Events()
      const authority = (userId: number) => accounts.forTask(userId)
      const storageOf = (id: number) => mounts.storageOf(id)
      const uploads = new KeptUploads({ store: store.uploads, storageOf, log })
      const tasks = await Tasks.load({ store: store.tasks, settings, log, authority, uploads })
      const spool = await Spool.open(join(config.data, 'spool'), {
        keep: spooledFiles(tasks.unfinished),
        limit: () => spoolLimit(settings),
      })
      const egress = new EgressGuard(() => settings.get('egress_networks'))
      settings.guard('egress_networks', async (networks) => void parseNetworks(networks))
      const reservations = new Reservations()
      const intents = new Intents({ store, rules, reservations, log, storageOf })
      const mounts: Mounts = new Mounts({
        intents,
        uploads,
        egress,
        store,
        events,
        spool,
        bandwidth,
        log,
        driverTypes: options.drivers,
        own: await ownFolders(config.data),
        instance: thisInstance(),
        tree: (path) => new TreeView(() => ({ mounts, locks, properties: store.properties }), path),
      })
      const links = new Links({ settings, needsSignature: (path) => needsSignature({ mounts, rules }, path) })
      await mounts.start()
      await rules.reload()
      const search = await Search.open({ settings, mounts, events, log, file: join(config.data, 'search.db') })
      const turns = new FileTurns(() => Math.max(1, settings.number('transfer_files_at_once')))
      const storages = new Storages({ store, mounts, locks, events, driverTypes: options.drivers })
      const deliveries = new Deliveries(settings, links)
      const bases = new BaseFolders({ mounts, rules, locks, events, log })
      const tree = {
        ...{ store, rules, locks, events, mounts, intents, bases },
        ...{ reservations, turns, settings, bandwidth, deliveries, search, log },
      }
      const parts = { ...tree, accounts, spool, storages, links, tasks, egress }
      const gateway = new Gateway(options, parts)
      await gateway.#startTasks()
      return gateway
    } catch (error) {
      await store.close()
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

  /** The only way into the tree. */
  as(principal: Principal): VirtualFs {
    return new VirtualFs(this.#tree, principal)
  }

  /** For tasks: their bytes come from no client, and go to none. */
  #asTask(principal: Principal): VirtualFs {
    return new VirtualFs({ ...this.#tree, bandwidth: { toClients: unlimited, fromClients: unlimited } }, principal)
  }

  /**
   * Ends background work, storages and, last, the database. Protocols are closed by then. Each part has some seconds, all of
   * them together 18; what has not ended by then is logged and left, so that a backend that does not answer cannot hold up the
   * end of the process.
   */
  async close(): Promise<void> {
    this.#unsubscribe()
    // Nobody waits for a turn any more.
    this.#bandwidth.close()
    await this.tasks.close()
    this.downloads.close()
    // It takes up the last changes, of which the storages have still to tell.
    await this.search.close()
    await this.mounts.stop()
    this.links.close()
    await this.accounts.close()
    this.settings.close()
    await this.store.close()
  }
}

/** A storage, and accounts, for a data folder that has none. */
async function firstRun(store: Store, { config, drivers, adminPassword }: GatewayOptions): Promise<void> {
  // The accounts come last: they tell that a first run came to its end.
  const isFirst = (await store.users.all()).length === 0
  if (isFirst && (await store.storages.all()).length === 0) {
    await mkdir(join(config.data, firstFiles), { recursive: true, mode: 0o700 })
    // Relative: the data folder may be moved.
    const addition = JSON.stringify({ root_folder_path: firstFiles })
    await storeNew(newStorage({ mountPath: root, driver: 'Local', addition }), { store, driverTypes: drivers })
  }
  await bootstrapAccounts(store, adminPassword)
}

/** In bytes. */
function spoolLimit(settings: Settings): number {
  const megabytes = settings.number('spool_size_limit')
  return megabytes < 0 ? Infinity : megabytes * 1024 * 1024
}
