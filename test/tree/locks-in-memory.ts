/** The locks of a store, in memory. */
import type { Lock } from '../../src/database/tables/locks.js'
import type { Store } from '../../src/database/tables.js'

type LocksTable = Store['locks']

export class LocksInMemory implements LocksTable {
  readonly rows = new Map<string, Lock>()

  async all(): Promise<Lock[]> {
    return [...this.rows.values()]
  }

  async get(token: string): Promise<Lock | undefined> {
    return this.rows.get(token)
  }

  async grant(lock: Lock, conflict: (standing: readonly Lock[]) => Lock | undefined): Promise<Lock | undefined> {
    const refused = conflict([...this.rows.values()])
    if (!refused) this.rows.set(lock.token, lock)
    return refused
  }

  async refresh(token: string, expires: Date): Promise<boolean> {
    const lock = this.rows.get(token)
    if (lock) this.rows.set(token, { ...lock, expires })
    return lock !== undefined
  }

  async delete(token: string): Promise<boolean> {
    return this.rows.delete(token)
  }

  async sweep(now: Date): Promise<void> {
    for (const lock of this.rows.values()) if (lock.expires <= now) this.rows.delete(lock.token)
  }
}
