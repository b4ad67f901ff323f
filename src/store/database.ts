/** Access to the database: reads, writes and transactions, in the order and with the durability that they need. */
import type { Knex } from 'knex'
import PQueue from 'p-queue'
import { toStoreError } from './errors.js'

/** Name of a lock that at most one transaction of all processes holds at a time. */
type Guard = 'users' | 'locks'

/**
 * FULL: a commit is on disk when it resolves. NORMAL: a power failure may lose the last commits, the newest first and
 * each as a whole; the end of the process loses none. A FULL commit also flushes all earlier commits.
 */
type Synchronous = 'FULL' | 'NORMAL'

/**
 * Sets how the commits of a single connection, opened with FULL, are synced. SQLite cannot change that within a
 * transaction (SQLite: src/pragma.c), so writes are serialized. (In PostgreSQL, `SET LOCAL synchronous_commit` serves
 * the same purpose.)
 */
export class Commits {
  readonly #queue = new PQueue({ concurrency: 1 })
  #synchronous: Synchronous = 'FULL'

  constructor(private readonly connection: Knex) {}

  /** Returns a function that runs work whose commits are synced this way. */
  at(synchronous: Synchronous): Commit {
    return (work) =>
      this.#queue.add(async () => {
        if (synchronous !== this.#synchronous) {
          await this.connection.raw(`PRAGMA synchronous = ${synchronous}`)
          this.#synchronous = synchronous
        }
        return work()
      })
  }
}

type Commit = <T>(work: () => Promise<T>) => Promise<T>

/** Runs the statements of the tables, and translates database errors to `GatewayError`. */
export class Database {
  readonly #knex: Knex
  readonly #commit: Commit

  /** `commit`: runs work that may write; omitted if all commits of the connection are synced alike. */
  constructor(knex: Knex, commit: Commit = (work) => work()) {
    this.#knex = knex
    this.#commit = commit
  }

  /** Runs statements that only read. */
  async read<T>(work: (query: Knex) => Promise<T>): Promise<T> {
    return withStoreErrors(() => work(this.#knex))
  }

  /** Runs one statement, or several that need not be atomic. */
  async run<T>(work: (query: Knex) => Promise<T>): Promise<T> {
    return withStoreErrors(() => this.#commit(() => work(this.#knex)))
  }

  /**
   * Runs `work` atomically. Its first statement must be a write: SQLite cannot upgrade a read transaction to a write
   * transaction after another connection has written (sqlite.org/lang_transaction.html). If `work` reads first, use
   * `guarded`.
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
