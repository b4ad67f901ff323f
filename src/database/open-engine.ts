/** Opens a database of either engine. */
import { randomBytes } from 'node:crypto'
import type { Knex } from 'knex'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { Engine, ProcessChannel } from './engine.js'
import { connectSqlite, openSqlite } from './sqlite.js'
import { connectionLimits, isPostgresUrl, withoutPassword } from './store-url.js'

const noPassword =
  'no password was found: set PGPASSWORD, or PGPASSFILE to a file of mode 0600 with a line for this host, port, database and user'

/** Imported lazily: most installations have no PostgreSQL, and each command would wait for its client. */
const postgres = () => import('./postgres.js')

/** A random id for a process that is not a daemon. */
export function newNode(): string {
  return `tidegate-${randomBytes(8).toString('hex')}`
}

export interface EngineOptions {
  /** The channel to the other processes that use the same file of SQLite for the same tree. Absent: there are none. */
  readonly channel?: ProcessChannel | undefined
  /** The largest number of connections to PostgreSQL, at least `connectionLimits.min`. */
  readonly connections?: number
}

/**
 * Opens the database, and calls `prepare`, which migrates its schema. `location` and `node`: as for `openStore`.
 * Rejects with the GatewayErrors of `prepare`, with `unsupported` if the server is too old, and with `unavailable` if
 * the database cannot be used; the reason is a sentence for the admin.
 */
export async function openEngine(
  location: string,
  node: string,
  prepare: (connection: Knex) => Promise<void>,
  { channel, connections = connectionLimits.default }: EngineOptions = {},
): Promise<Engine> {
  return explained(location, async () => {
    if (!isPostgresUrl(location)) return openSqlite(location, prepare, channel)
    const { openPostgres } = await postgres()
    return openPostgres({ url: location, session: node, connections }, prepare)
  })
}

/**
 * Calls `work` with one connection of its own, whatever schema the database has. `location`: as for `openStore`.
 * Rejects with the GatewayErrors of `work`, and with `unavailable` if the database cannot be used; the reason is a
 * sentence for the admin.
 */
export async function withConnection<T>(location: string, work: (connection: Knex) => Promise<T>): Promise<T> {
  return explained(location, async () => {
    const connection = isPostgresUrl(location)
      ? (await postgres()).connectPostgres({ url: location, session: newNode() }, 1)
      : connectSqlite(location)
    try {
      return await work(connection)
    } finally {
      await connection.destroy()
    }
  })
}

async function explained<T>(location: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isGatewayError(error)) throw error
    const text = error instanceof Error ? error.message || error.name : String(error)
    // The library reports so that it has none.
    const why = text.includes('client password must be a string') ? noPassword : text
    const reason = `the database ${withoutPassword(location)} cannot be used: ${why}`
    throw new GatewayError('unavailable', { reason, cause: error })
  }
}
