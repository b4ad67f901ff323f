/** The database as the core uses it. `tables/` says what each table promises. No SQL. */
import type { SharedEngine } from './engine.js'
import type { IdentitiesTable, ProviderSessionsTable } from './identities.js'
import type { PasskeysTable } from './passkeys.js'
import type { PendingSignInsTable } from './pending-sign-ins.js'
import type { FolderRule } from './tables/rules.js'
import type { ShareRoot, ShareRows, ShareUploadRows, ShareVisitRows } from './tables/shares.js'
import type { Topic } from './topics.js'
import type {
  AppPasswordRows,
  ConsoleSessionRows,
  KeyRows,
  RecoveryCodeRows,
  RevokedTokenRows,
  UserRows,
} from './tables/accounts.js'
import type { AuditRows } from './tables/audit.js'
import type { AttributeRows, FolderRows, PropertyRows } from './tables/files.js'
import type { GrantRows } from './tables/grants.js'
import type { GroupRows } from './tables/groups.js'
import type { IntentRows } from './tables/intents.js'
import type { LockRows } from './tables/locks.js'
import type { MoveRows } from './tables/moves.js'
import type { LeaseRows, NodeRows } from './tables/nodes.js'
import type { PathRows } from './tables/path-rows.js'
import type { SecretRows, StoredSettings } from './tables/settings.js'
import type { SignInRows } from './tables/sign-ins.js'
import type { DriverStateRows, InstallationRows, StorageRows } from './tables/storages.js'
import type { TaskRows } from './tables/tasks.js'
import type { TrafficRows } from './tables/traffic.js'
import type { UploadRows } from './tables/uploads.js'
import type { DeliveryRows, WebhookRows } from './tables/webhooks.js'

/** A table without its private members. */
type Public<Table> = Pick<Table, keyof Table>

/**
 * Calls `read` where other processes use the database: they may have stored rows that this one does not have in memory
 * yet. Returns undefined, without a call, where there are no other processes.
 */
export type OfOthers = <T>(read: () => Promise<T>) => Promise<T> | undefined

/** Records about files: tables that may be written once per file. */
export interface FileRecords {
  readonly properties: PropertyRows
  readonly attributes: AttributeRows
  readonly folders: FolderRows
  readonly intents: IntentRows
}

/**
 * The database as the core uses it. Every write resolves when it is committed, and survives a power failure; only
 * writes through `relaxed` may be lost in one.
 */
export interface Store extends FileRecords {
  /**
   * Some of the tables, with writes that survive the end of the process; but a power failure may lose those after the
   * latest write outside of `relaxed`.
   */
  readonly relaxed: FileRecords & { readonly tasks: Pick<Store['tasks'], 'setProgress'> }
  readonly users: UserRows
  readonly keys: KeyRows
  readonly recoveryCodes: RecoveryCodeRows
  readonly appPasswords: AppPasswordRows
  readonly consoleSessions: ConsoleSessionRows
  /** Deleted with their user. */
  readonly identities: Public<IdentitiesTable>
  /** Deleted with their identity. */
  readonly providerSessions: Public<ProviderSessionsTable>
  /** Deleted with their user. */
  readonly passkeys: Public<PasskeysTable>
  readonly pendingSignIns: Public<PendingSignInsTable>
  readonly storages: StorageRows
  readonly settings: StoredSettings
  readonly secrets: SecretRows
  readonly rules: PathRows<FolderRule>
  readonly groups: GroupRows
  readonly grants: GrantRows
  readonly shares: ShareRows
  /** The files and folders of shares. Deleted with their share. */
  readonly shareRoots: PathRows<ShareRoot>
  readonly shareVisits: ShareVisitRows
  readonly shareUploads: ShareUploadRows
  readonly moves: MoveRows
  readonly installation: InstallationRows
  readonly audit: AuditRows
  readonly traffic: TrafficRows
  readonly webhooks: WebhookRows
  readonly webhookDeliveries: DeliveryRows
  readonly revokedTokens: RevokedTokenRows
  readonly signIns: SignInRows
  readonly locks: LockRows
  readonly tasks: TaskRows
  readonly uploads: UploadRows
  readonly nodes: NodeRows
  readonly leases: LeaseRows
  /** Locks and notices between these processes. Undefined unless the database is shared. */
  readonly shared: SharedEngine | undefined
  readonly driverState: DriverStateRows
  /**
   * Calls `listener` within about 250 ms after another process has committed a change of the topic's rows, and again at
   * intervals while it rejects. Earlier changes of the topic by this process may be reported along with a foreign
   * commit. Returns an unsubscriber.
   */
  onForeignChange(topic: Topic, listener: () => void | Promise<void>): () => void
  /**
   * Calls every listener of `onForeignChange`, as after changes that may have been missed. Rejects if one of them does.
   */
  notifyAll(): Promise<void>
  /** Resolves when the database has answered a query. Rejects with a GatewayError if it does not. */
  ping(): Promise<void>
  close(): Promise<void>
}
