import type { Knex } from 'knex'
import PQueue from 'p-queue'
import { toStoreError } from './errors.js'

/** Names of decisions that only one transaction, of all processes, takes at a time. */
export type Guard = 'users' | 'locks'

/**
 * FULL: a commit is on the medium when it resolves. NORMAL: a power cut may undo the last commits, the newest first and each as
 * a whole; the end of the process undoes none. A FULL commit brings all earlier commits to the medium too.
 */
type Synchronous = 'FULL' | 'NORMAL'

/**
 * Sets how the commits of a single connection, opened with FULL, are synced. SQLite refuses to change that within a
 * transaction, so statements that write take turns. (PostgreSQL has `SET LOCAL synchronous_commit` for the same.)
 */
export class Commits {
  readonly #turns = new PQueue({ concurrency: 1 })
  #synchronous: Synchronous = 'FULL'

  constructor(private readonly connection: Knex) {}

  /** Runs work whose commits are synced so. */
  at(synchronous: Synchronous): Commit {
    return (work) =>
      this.#turns.add(async () => {
        if (synchronous !== this.#synchronous) {
          await this.connection.raw(`PRAGMA synchronous = ${synchronous}`)
          this.#synchronous = synchronous
        }
        return work()
      })
  }
}

type Commit = <T>(work: () => Promise<T>) => Promise<T>

/** How the tables reach the database: every way in translates what goes wrong. */
export class Database {
  readonly #knex: Knex
  readonly #commit: Commit

  /** `commit`: runs what may write; absent where every commit of the connection is synced alike. */
  constructor(knex: Knex, commit: Commit = (work) => work()) {
    this.#knex = knex
    this.#commit = commit
  }

  /** Statements that only read. */
  async read<T>(work: (query: Knex) => Promise<T>): Promise<T> {
    return translated(() => work(this.#knex))
  }

  /** One statement, or several that need not agree with each other. */
  async run<T>(work: (query: Knex) => Promise<T>): Promise<T> {
    return translated(() => this.#commit(() => work(this.#knex)))
  }

  /**
   * All or nothing. The first statement of `work` must be one that writes: SQLite cannot turn a transaction that has read
   * into one that writes once somebody else has written. Where reading comes first, see `guarded`.
   */
  async transaction<T>(work: (query: Knex) => Promise<T>): Promise<T> {
    return this.run((query) => query.transaction(work))
  }

  /**
   * A transaction that reads, decides and writes, alone in its kind: it begins by taking the guard's row, for which the
   * next one waits, in this process or another.
   */
  async guarded<T>(guard: Guard, work: (query: Knex) => Promise<T>): Promise<T> {
    return this.transaction(async (query) => {
      await query('guards').where({ name: guard }).update({ name: guard })
      return work(query)
    })
  }
}

async function translated<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw toStoreError(error)
  }
}
