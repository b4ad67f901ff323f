/** Access to the database: reads, writes and transactions, in the order and with the durability that they need. */
import type { Knex } from 'knex'
import { toStoreError } from './errors.js'

/** Name of a lock that at most one transaction of all processes holds at a time. */
type Guard = 'users' | 'locks' | 'sign_ins' | 'pending_sign_ins'

/** Runs the statements of a connection or a pool, as the engine does it. */
export interface Runner {
  /** Runs work that only reads. It may be repeated. */
  read<T>(work: () => Promise<T>): Promise<T>
  /** Runs work that may write. It may be repeated if none of its statements took effect. */
  write<T>(work: () => Promise<T>): Promise<T>
}

const direct: Runner = { read: (work) => work(), write: (work) => work() }

/** Runs the statements of the tables, and translates database errors to `GatewayError`. */
export class Database {
  constructor(
    private readonly connection: Knex,
    private readonly runner: Runner = direct,
  ) {}

  /** Runs statements that only read. */
  async read<T>(work: (query: Knex) => Promise<T>): Promise<T> {
    return withStoreErrors(() => this.runner.read(() => work(this.connection)))
  }

  /** Runs one statement, or several that need not be atomic. */
  async run<T>(work: (query: Knex) => Promise<T>): Promise<T> {
    return withStoreErrors(() => this.runner.write(() => work(this.connection)))
  }

  /**
   * Runs `work` atomically. Its first statement must be a write: SQLite cannot upgrade a read transaction to a write
   * transaction after another connection has written (sqlite.org/lang_transaction.html). If `work` reads first, use
   * `guarded`. `work` is repeated if the engine has rolled back its transaction.
   */
  async transaction<T>(work: (query: Knex) => Promise<T>): Promise<T> {
    return this.run((query) => query.transaction(work))
  }

  /**
   * Runs a transaction that reads before it writes. It first locks the guard's row; other transactions with the same
   * guard, in this process or another, wait for it.
   */
  async guarded<T>(guard: Guard, work: (query: Knex) => Promise<T>): Promise<T> {
    return this.transaction(async (query) => {
      await query('guards').where({ name: guard }).update({ name: guard })
      return work(query)
    })
  }
}

async function withStoreErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw toStoreError(error)
  }
}
