/** Opens the database. The tables have their files in this folder; there is no SQL elsewhere. */
import knex, { type Knex } from 'knex'
import { GatewayError, isGatewayError } from '../contract/errors.js'
import { AppPasswordsTable, KeysTable, RevokedTokensTable, UsersTable } from './accounts.js'
import { AttributesTable } from './attributes.js'
import { ConsoleSessionsTable } from './console-sessions.js'
import { Commits, Database } from './database.js'
import { toStoreError } from './errors.js'
import { FoldersTable } from './folders.js'
import { ForeignChanges } from './foreign-changes.js'
import { IntentsTable } from './intents.js'
import { LocksTable } from './locks.js'
import { migrate, type Migration } from './migrations.js'
import { Presence } from './presence.js'
import { ensurePrivate } from './private-file.js'
import { PropertiesTable } from './properties.js'
import type { Topic } from './rows.js'
import type { FileRecords, Store } from './tables.js'
import { RulesTable } from './rules.js'
import { SecretsTable, SettingsTable } from './settings.js'
import { DriverStateTable, StoragesTable } from './storages.js'
import { TasksTable } from './tasks.js'
import { UploadsTable } from './uploads.js'

/**
 * Opens the database file, creates it if it is missing (its folder must exist), and migrates its schema. Only the owner
 * can read the file. Rejects with `unsupported` for a database of a newer program, and with `unavailable` if the file
 * cannot be used; the reason is a sentence for the admin.
 */
export async function openStore(file: string, steps?: readonly Migration[]): Promise<Store> {
  await ensurePrivate(file).catch((error: unknown) => {
    throw unusable(file, error)
  })
  const connection = connect(file)
  try {
    await migrate(connection, steps)
    const foreignChanges = await ForeignChanges.open({
      version: () => dataVersion(connection),
      counts: () => changeCounts(connection),
    })
    return tables(connection, foreignChanges)
  } catch (error) {
    await connection.destroy()
    throw isGatewayError(error) ? error : unusable(file, error)
  }
}

function connect(file: string): Knex {
  return knex({
    client: 'sqlite3',
    connection: { filename: file },
    useNullAsDefault: true,
    pool: {
      // A single permanent connection: `data_version` values are comparable only within one connection.
      min: 1,
      max: 1,
      afterCreate: (sqlite: { exec(sql: string, done: (error: Error | null) => void): void }, done: () => void) => {
        /*
         * WAL: other processes can read during a write. FULL: a completed write survives a power failure; otherwise a
         * revoked token or an old password could work again after one. FULL syncs every commit, so the
         * tables that are written for every file are in `Store.relaxed`, which does not.
         */
        sqlite.exec(
          'PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;',
          done,
        )
      },
    },
    log: { warn: () => undefined },
  })
}

async function dataVersion(connection: Knex): Promise<number> {
  const rows: readonly { data_version: number }[] = await connection.raw('PRAGMA data_version')
  return rows[0]?.data_version ?? 0
}

async function changeCounts(connection: Knex): Promise<ReadonlyMap<Topic, number>> {
  const rows = await connection<{ topic: Topic; count: number }>('change_counts').select()
  return new Map(rows.map(({ topic, count }) => [topic, count]))
}

function unusable(file: string, error: unknown): GatewayError {
  const why = error instanceof Error ? error.message : String(error)
  return new GatewayError('unavailable', { reason: `the database ${file} cannot be used: ${why}`, cause: error })
}

function tables(connection: Knex, foreignChanges: ForeignChanges): Store {
  const commits = new Commits(connection)
  const database = new Database(connection, commits.at('FULL'))
  const presence = { properties: new Presence('properties'), attributes: new Presence('attributes') }
  return {
    ...fileRecords(database, presence),
    relaxed: fileRecords(new Database(connection, commits.at('NORMAL')), presence),
    users: new UsersTable(database),
    keys: new KeysTable(database),
    appPasswords: new AppPasswordsTable(database),
    consoleSessions: new ConsoleSessionsTable(database),
    storages: new StoragesTable(database),
    settings: new SettingsTable(database),
    secrets: new SecretsTable(database),
    rules: new RulesTable(database),
    revokedTokens: new RevokedTokensTable(database),
    locks: new LocksTable(database),
    tasks: new TasksTable(database),
    uploads: new UploadsTable(database),
    driverState: new DriverStateTable(database),
    onForeignChange: (topic, listener) => foreignChanges.listen(topic, listener),
    ping: async () => {
      await database.run((query) => query.raw('select 1'))
    },
    close: async () => {
      await foreignChanges.close()
      try {
        await connection.destroy()
      } catch (error) {
        throw toStoreError(error)
      }
    },
  }
}

function fileRecords(
  database: Database,
  presence: Readonly<Record<'properties' | 'attributes', Presence>>,
): FileRecords {
  return {
    properties: new PropertiesTable(database, presence.properties),
    attributes: new AttributesTable(database, presence.attributes),
    folders: new FoldersTable(database),
    intents: new IntentsTable(database),
  }
}
