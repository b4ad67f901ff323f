/** The gateway as the daemon runs it. Protocols use of it only what `protocol-gateway.ts` lists. */
import type { Traffic } from '../audit/traffic.js'
import type { Accounts } from '../accounts/accounts.js'
import type { Principal, ProtocolFacts } from '../accounts/principal.js'
import type { Audit } from '../audit/audit.js'
import type { KeyFingerprint } from '../accounts/public-keys.js'
import { settlesWithin } from '../base/cancellation.js'
import type { FairShare } from '../base/fair-share.js'
import type { Log } from '../base/log.js'
import type { Path } from '../base/path.js'
import type { Cluster } from '../cluster/cluster.js'
import type { Source } from '../contract/call-options.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import { listenersCloseTimeout } from '../database/foreign-changes.js'
import type { Store } from '../database/tables.js'
import type { SignedUrls } from '../download-urls/signed-urls.js'
import type { Addresses, Config } from '../installation/config.js'
import type { UploadedImports } from '../installation/import/uploaded-imports.js'
import type { Locks } from '../locks/webdav-locks.js'
import { storagesCloseTimeout, type MountSupervisor } from '../mounts/mount-supervisor.js'
import type { Mounts } from '../mounts/mounts.js'
import type { StorageAdmin } from '../mounts/storage-admin.js'
import type { StorageSignIns } from '../mounts/storage-sign-ins.js'
import type { StorageTrials } from '../mounts/storage-trials.js'
import type { OfflineDownloads } from '../offline-downloads/offline-downloads.js'
import { searchCloseTimeout, type Search } from '../search/search.js'
import type { Settings } from '../settings/settings.js'
import type { VisitorAccess } from '../shares/visitor-access.js'
import type { Shares } from '../shares/shares.js'
import type { LdapSignIn } from '../sign-in/ldap-sign-in.js'
import type { SignInTrials } from '../sign-in/sign-in-trials.js'
import type { SingleSignOn } from '../sign-in/single-sign-on.js'
import type { Spool } from '../storage/fallbacks/spool.js'
import type { Task } from '../tasks/task.js'
import { tasksCloseTimeout } from '../tasks/task-runs.js'
import type { Tasks } from '../tasks/tasks.js'
import { transferRequest, type TransferTaskOptions } from '../tasks/transfer-tasks.js'
import { uploadRequest, type UploadOptions } from '../tasks/upload-tasks.js'
import type { Rules } from '../tree/folder-rules.js'
import { explain, type ExplainQuestion } from '../tree/explain.js'
import type { Explained } from '../tree/explained.js'
import type { Grants } from '../tree/grants.js'
import { VirtualFs, type TreeDependencies } from '../tree/virtual-fs.js'
import { uploadsCloseTimeout, type UploadSessions } from '../uploads/upload-sessions.js'
import type { Passkeys } from '../sign-in/passkeys.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import { Closing } from './closing.js'
import { Connections } from './connections.js'
import type { GatewayOptions } from './core.js'
import { LogTail } from './log-tail.js'
import type { Metrics } from './metrics.js'
import { openParts, type Parts } from './parts.js'

/** Milliseconds within which the database of a ready daemon responds. */
const databaseTimeout = 2000

/** The longest time that `Gateway.close` takes, in seconds. */
export const gatewayClosingSeconds =
  (uploadsCloseTimeout + tasksCloseTimeout + searchCloseTimeout + storagesCloseTimeout + listenersCloseTimeout) / 1000

/** The addresses at which the protocols accept connections. */
export interface Listening {
  /** The bound addresses by protocol, `HOST:PORT`, or "off". */
  readonly addresses: Addresses
  /** The fingerprints, by protocol, of the keys by which clients recognize the server. */
  readonly fingerprints: Readonly<Record<string, readonly KeyFingerprint[]>>
}

export class Gateway {
  readonly config: Config
  readonly log: Log
  readonly logTail: LogTail
  /** The addresses at which the protocols accept connections: the configured ones, until the daemon has bound them. */
  listening: Listening
  /** The clients of the protocols. */
  readonly connections = new Connections()
  /** Whether the daemon is stopping: running requests are completed, and new ones belong to other daemons. */
  isDraining = false
  readonly audit: Audit
  readonly accounts: Accounts
  readonly ldap: LdapSignIn
  readonly settings: Settings
  readonly signedUrls: SignedUrls
  readonly tasks: Tasks
  readonly downloads: OfflineDownloads
  /** Files that clients send in chunks. */
  readonly uploads: UploadSessions
  readonly imports: UploadedImports
  readonly mounts: Mounts
  readonly supervisor: MountSupervisor
  readonly storages: StorageAdmin
  readonly trials: StorageTrials
  readonly storageSignIns: StorageSignIns
  /** The drivers of which storages can be created. */
  readonly driverTypes: readonly AnyDriverType[]
  /** The protocols by which clients reach this gateway. */
  readonly protocols: readonly ProtocolFacts[]
  readonly rules: Rules
  readonly grants: Grants
  readonly shares: Shares
  readonly visitorAccess: VisitorAccess
  readonly locks: Locks
  readonly passkeys: Passkeys
  readonly webhooks: Webhooks
  readonly signInTrials: SignInTrials
  readonly singleSignOn: SingleSignOn
  readonly secrets: Store['secrets']
  readonly search: Search
  readonly metrics: Metrics
  readonly records: { readonly audit: Store['audit']; readonly traffic: Traffic }
  readonly spool: Spool
  readonly store: Store
  readonly cluster: Cluster
  /** The file descriptors that connections, open files and listings hold. */
  readonly descriptors: FairShare
  readonly #tree: TreeDependencies
  readonly #closing: Closing

  private constructor(options: GatewayOptions, parts: Parts, closing: Closing) {
    this.config = options.config
    this.log = options.log
    this.logTail = options.logTail ?? new LogTail()
    this.listening = { addresses: options.config.addresses, fingerprints: {} }
    this.audit = parts.audit
    this.accounts = parts.accounts
    this.ldap = parts.ldap
    this.settings = parts.settings
    this.signedUrls = parts.signedUrls
    this.tasks = parts.tasks
    this.downloads = parts.downloads
    this.uploads = parts.uploads
    this.imports = parts.imports
    this.mounts = parts.mounts
    this.supervisor = parts.supervisor
    this.storages = parts.storages
    this.trials = parts.trials
    this.storageSignIns = parts.storageSignIns
    this.driverTypes = options.drivers
    this.protocols = options.protocols
    this.rules = parts.rules
    this.grants = parts.grants
    this.shares = parts.shares
    this.visitorAccess = parts.visitorAccess
    this.locks = parts.locks
    this.passkeys = parts.passkeys
    this.webhooks = parts.webhooks
    this.signInTrials = parts.signInTrials
    this.singleSignOn = parts.singleSignOn
    this.secrets = parts.store.secrets
    this.search = parts.search
    this.metrics = parts.metrics
    this.records = { audit: parts.store.audit, traffic: parts.traffic }
    this.spool = parts.spool
    this.store = parts.store
    this.cluster = parts.cluster
    this.descriptors = parts.tree.descriptors
    this.#tree = parts.tree
    this.#closing = closing
  }

  /**
   * Opens the data folder, creates it if necessary, and starts the storages. A storage that fails does not prevent the
   * start. Rejects with a GatewayError whose reason is a message for the admin.
   */
  static async open(options: GatewayOptions): Promise<Gateway> {
    const closing = new Closing()
    try {
      return new Gateway(options, await openParts(options, closing), closing)
    } catch (error) {
      await closing.close().catch((failure: unknown) => {
        options.log.warn({ err: failure }, 'the gateway did not close well')
      })
      throw error
    }
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

  /** The tree as the principal sees it. The only access to the tree. */
  as(principal: Principal): VirtualFs {
    return new VirtualFs(this.#tree, principal)
  }

  /** The whole tree as an admin sees it. Throws `denied` unless the principal is an admin. */
  asAdmin(principal: Principal): VirtualFs {
    return this.as(principal.withWholeTree())
  }

  /** Explains to an admin what a user may do at a path. Throws `not_found` if there is no such user. */
  explain(question: ExplainQuestion): Explained {
    const { accounts, rules, grants, driverTypes, mounts } = this
    return explain({ accounts, rules, grants, driverTypes, storages: mounts.rows() }, question)
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
    return this.#closing.close()
  }
}
