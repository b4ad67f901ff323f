/** Opens the database. The tables have their files in this folder; there is no SQL elsewhere. */
import type { Knex } from 'knex'
import {
  AppPasswordsTable,
  ConsoleSessionsTable,
  KeysTable,
  RecoveryCodesTable,
  RevokedTokensTable,
  UsersTable,
} from './accounts.js'
import { AttributesTable } from './attributes.js'
import { AuditTable } from './audit.js'
import type { Database } from './database.js'
import type { Engine } from './engine.js'
import { toStoreError } from './errors.js'
import { FoldersTable } from './folders.js'
import { ForeignChanges } from './foreign-changes.js'
import { GrantsTable, GroupsTable } from './grants.js'
import { IdentitiesTable, ProviderSessionsTable } from './identities.js'
import { assertNew, replaceInstallation } from './installation.js'
import { IntentsTable } from './intents.js'
import { LocksTable } from './locks.js'
import { migrate, newestVersion, storedVersion, type Migration } from './migrations.js'
import { MovesTable } from './moves.js'
import { LeasesTable, NodesTable } from './nodes.js'
import { newNode, openEngine, type EngineOptions } from './open-engine.js'
import { PasskeysTable } from './passkeys.js'
import { PendingSignInsTable } from './pending-sign-ins.js'
import { Presence } from './presence.js'
import { PropertiesTable } from './properties.js'
import type { FileRecords, Store } from './tables.js'
import { RulesTable } from './rules.js'
import { SecretsTable, SettingsTable } from './settings.js'
import { ShareRootsTable, SharesTable, ShareTurns, ShareUploadsTable, ShareVisitsTable } from './shares.js'
import { SignInsTable } from './sign-ins.js'
import { writeSnapshot } from './snapshot.js'
import { DriverStateTable, StoragesTable } from './storages.js'
import { TasksTable } from './tasks.js'
import { TrafficTable } from './traffic.js'
import { UploadsTable } from './uploads.js'
import { DeliveriesTable, WebhooksTable } from './webhooks.js'

interface StoreOptions extends EngineOptions {
  /**
   * The id of this process as a node, at most 63 bytes; by default a random one. It identifies the sessions of
   * PostgreSQL, and the unfinished work of this process.
   */
  readonly node?: string
  /**
   * Whether the process of another node runs on this machine; undefined if that is unknown. Absent: nodes are known by
   * their heartbeats only.
   */
  readonly runs?: (id: string) => boolean | undefined
  /**
   * Called before the schema of an existing database is changed, with its version and a function that writes a snapshot
   * (`writeSnapshot`) to a new file. If it rejects, nothing is changed.
   */
  readonly beforeUpgrade?: BeforeUpgrade | undefined
  /** The migrations that lead to the newest schema. Tests choose others. */
  readonly steps?: readonly Migration[]
}

export type BeforeUpgrade = (version: number, snapshot: (file: string) => Promise<number>) => Promise<void>

/**
 * Opens the database, and migrates its schema. `location` is the path of a file of SQLite, which is created if it is
 * missing (its folder must exist), or a URL of PostgreSQL (`isPostgresUrl`). Only the owner can read a file. Rejects
 * with `unsupported` for a database that this program cannot use or change (`migrate`), and with `unavailable` if the
 * database cannot be used; the reason is a sentence for the admin.
 */
export async function openStore(location: string, options: StoreOptions = {}): Promise<Store> {
  const { steps, runs, beforeUpgrade, node = newNode() } = options
  const prepare = async (connection: Knex) => {
    if (beforeUpgrade) {
      const version = await storedVersion(connection)
      if (version > 0 && version < newestVersion(steps)) {
        await beforeUpgrade(version, (file) => writeSnapshot(connection, file, steps))
      }
    }
    await migrate(connection, steps, runs)
  }
  const engine = await openEngine(location, node, prepare, options)
  return storeOf(engine, node, steps)
}

/** `node`: the id of this process, which owns the unfinished work that it adds. */
function storeOf(engine: Engine, node: string, steps?: readonly Migration[]): Store {
  const database = engine.durable
  const foreignChanges = new ForeignChanges(engine.foreignCommits)
  // This process does not know the rows that another process stores.
  const knowsAll = engine.shared === undefined
  const presence = {
    properties: new Presence('properties', knowsAll),
    attributes: new Presence('attributes', knowsAll),
  }
  const turns = new ShareTurns(database)
  return {
    ...fileRecords(database, presence, node),
    relaxed: { ...fileRecords(engine.relaxed, presence, node), tasks: new TasksTable(engine.relaxed, node) },
    users: new UsersTable(database),
    keys: new KeysTable(database),
    appPasswords: new AppPasswordsTable(database),
    recoveryCodes: new RecoveryCodesTable(database),
    consoleSessions: new ConsoleSessionsTable(database),
    identities: new IdentitiesTable(database),
    providerSessions: new ProviderSessionsTable(database),
    passkeys: new PasskeysTable(database),
    pendingSignIns: new PendingSignInsTable(database),
    signIns: new SignInsTable(database),
    storages: new StoragesTable(database),
    settings: new SettingsTable(database),
    secrets: new SecretsTable(database),
    rules: new RulesTable(database),
    groups: new GroupsTable(database),
    grants: new GrantsTable(database),
    shares: new SharesTable(database),
    shareRoots: new ShareRootsTable(database),
    shareVisits: new ShareVisitsTable(database, turns),
    shareUploads: new ShareUploadsTable(database, turns, node),
    moves: new MovesTable(database, node),
    installation: {
      assertNew: (isFirst) => assertNew(database, isFirst),
      replace: (by, isFirst) => replaceInstallation(database, by, isFirst),
    },
    audit: new AuditTable(database),
    traffic: new TrafficTable(engine.relaxed),
    webhooks: new WebhooksTable(database),
    webhookDeliveries: new DeliveriesTable(engine.relaxed),
    revokedTokens: new RevokedTokensTable(database),
    locks: new LocksTable(database),
    tasks: new TasksTable(database, node),
    uploads: new UploadsTable(database, node),
    leases: new LeasesTable(database, node),
    nodes: new NodesTable(database, newestVersion(steps)),
    shared: engine.shared,
    driverState: new DriverStateTable(database, node),
    onForeignChange: (topic, listener) => foreignChanges.listen(topic, listener),
    notifyAll: () => foreignChanges.notifyAll(),
    ping: async () => {
      await database.read((query) => query.raw('select 1'))
    },
    close: async () => {
      await foreignChanges.close()
      try {
        await engine.close()
      } catch (error) {
        throw toStoreError(error)
      }
    },
  }
}

function fileRecords(
  database: Database,
  presence: Readonly<Record<'properties' | 'attributes', Presence>>,
  node: string,
): FileRecords {
  return {
    properties: new PropertiesTable(database, presence.properties),
    attributes: new AttributesTable(database, presence.attributes),
    folders: new FoldersTable(database),
    intents: new IntentsTable(database, node),
  }
}
