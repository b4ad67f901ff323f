/** Opens a database of either engine. */
import { randomBytes } from 'node:crypto'
import type { Knex } from 'knex'
import { GatewayError, isGatewayError } from '../contract/errors.js'
import type { Engine, ProcessChannel } from './engine.js'
import { openPostgres } from './postgres.js'
import { openSqlite } from './sqlite.js'
import { connectionLimits, isPostgresUrl, withoutPassword } from './store-url.js'

const noPassword =
  'no password was found: set PGPASSWORD, or PGPASSFILE to a file of mode 0600 with a line for this host, port, database and user'

/** A random id for a process that is not a daemon. */
export function newNode(): string {
  return `tidegate-${randomBytes(8).toString('hex')}`
}

export interface EngineOptions {
  /** To the other processes that use the same file of SQLite for the same tree. Absent: there are none. */
  readonly channel?: ProcessChannel | undefined
  /** The largest number of connections to PostgreSQL, at least `connectionLimits.min`. */
  readonly connections?: number
}

/**
 * Opens the database, and calls `prepare`, which migrates its schema. `location` and `node`: as for `openStore`. Rejects with the GatewayErrors of `prepare`, with `unsupported` if the server is too old, and with `unavailable` if the database cannot
 * be used; the reason is a sentence for the admin.
 */
export async function openEngine(
  location: string,
  node: string,
  prepare: (connection: Knex) => Promise<void>,
  { channel, connections = connectionLimits.default }: EngineOptions = {},
): Promise<Engine> {
  try {
    return isPostgresUrl(location)
      ? await openPostgres({ url: location, session: node, connections }, prepare)
      : await openSqlite(location, prepare, channel)
  } catch (error) {
    if (isGatewayError(error)) throw error
    const text = error instanceof Error ? error.message || error.name : String(error)
    // The library reports so that it has none.
    const why = text.includes('client password must be a string') ? noPassword : text
    const reason = `the database ${withoutPassword(location)} cannot be used: ${why}`
    throw new GatewayError('unavailable', { reason, cause: error })
  }
}
