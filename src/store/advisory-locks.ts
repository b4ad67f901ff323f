/**
 * Locks that exclude the other nodes: transactions of PostgreSQL that hold advisory locks, on connections of their own.
 * Locks of a session would be re-entrant, and a lock that waits blocks everything else on its connection.
 */
import pg from 'pg'
import { toStoreError, isRolledBack } from './errors.js'
import { fileChannel } from './change-notices.js'
import { isTopic, type Topic } from './rows.js'

export type LockMode = 'shared' | 'exclusive'

/** Locks that are held until they are released, or the connection is lost. */
export interface HeldLocks {
  /** The numbers of changes of each topic, when the locks were granted. */
  readonly counts: ReadonlyMap<Topic, number>
  /**
   * Sends the notices to the other nodes, and releases the locks. Resolves to whether the notices were sent. A lost
   * connection releases the locks too.
   */
  release(notices: readonly string[]): Promise<boolean>
}

export class AdvisoryLocks {
  readonly #pool: pg.Pool

  /** `connections`: the number of changes that can hold locks at a time. `timeout`: milliseconds to wait for locks. */
  constructor(connection: pg.ClientConfig, connections: number, timeout: number) {
    const options = `-c lock_timeout=${timeout} -c idle_in_transaction_session_timeout=0`
    this.#pool = new pg.Pool({ ...connection, options, max: connections, connectionTimeoutMillis: timeout })
    // A lost connection: the pool opens another one, and the next statement of a client that holds it fails.
    this.#pool.on('error', () => undefined)
    this.#pool.on('connect', (client) => client.on('error', () => undefined))
  }

  /** Acquires all locks in one message. Rejects with `busy` after the timeout, and with `unavailable`. */
  async acquire(modes: ReadonlyMap<bigint, LockMode>): Promise<HeldLocks> {
    // All nodes lock in the same order, so that two of them do not wait for each other.
    const keys = [...modes].sort(([one], [other]) => (one < other ? -1 : 1))
    const calls = keys.map(([key, mode]) => `pg_advisory_xact_lock${mode === 'shared' ? '_shared' : ''}(${key})`)
    const message = `begin; select ${calls.join(', ')}; select topic, count from change_counts`
    for (let attempt = 1; ; attempt++) {
      const client = await this.#pool.connect().catch((error: unknown) => {
        throw toStoreError(error)
      })
      try {
        // The result of a message with several statements is an array, which the types of pg lack.
        const results = (await client.query(message)) as unknown as readonly pg.QueryResult<ChangeCount>[]
        const rows = results.at(-1)?.rows ?? []
        const counts = rows.flatMap(({ topic, count }) => (isTopic(topic) ? [[topic, Number(count)] as const] : []))
        return { counts: new Map(counts), release: (notices) => release(client, notices) }
      } catch (error) {
        // Closing the connection ends its transaction.
        client.release(true)
        if (!isRolledBack(error) || attempt > 1) throw toStoreError(error)
      }
    }
  }

  /** Sends notices to the other nodes. */
  async notify(notices: readonly string[]): Promise<void> {
    await this.#pool.query(notify(notices))
  }

  close(): Promise<void> {
    return this.#pool.end()
  }
}

interface ChangeCount {
  readonly topic: string
  /** A 64-bit integer, which the driver returns as text. */
  readonly count: string
}

async function release(client: pg.PoolClient, notices: readonly string[]): Promise<boolean> {
  try {
    await client.query(`${notify(notices)}commit`)
    client.release()
    return true
  } catch {
    client.release(true)
    return false
  }
}

function notify(notices: readonly string[]): string {
  const payloads = notices.map((notice) => `current_setting('application_name') || ' ' || ${pg.escapeLiteral(notice)}`)
  return payloads.map((payload) => `select pg_notify('${fileChannel}', ${payload});`).join('')
}
