import type { Knex } from 'knex'
import { toStoreError } from './errors.js'

/** Names of decisions that only one transaction, of all processes, takes at a time. */
export type Guard = 'users' | 'locks'

/** How the tables reach the database: every way in translates what goes wrong. */
export class Database {
  readonly #knex: Knex

  constructor(knex: Knex) {
    this.#knex = knex
  }

  /** One statement, or several that need not agree with each other. */
  async run<T>(work: (query: Knex) => Promise<T>): Promise<T> {
    try {
      return await work(this.#knex)
    } catch (error) {
      throw toStoreError(error)
    }
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
