/** What one node at a time does for all of them: each has a name, and the node that does it. */
import type { Database } from './database.js'

export class LeasesTable {
  /** `owner`: the id of this node. */
  constructor(
    private readonly database: Database,
    private readonly owner: string,
  ) {}

  async obtain(name: string): Promise<boolean> {
    const { owner } = this
    const taken = await this.database.run((query) => {
      const living = query('nodes').whereNull('ended').select('id')
      return query('leases')
        .where({ name })
        .andWhere((lease) => void lease.where({ owner }).orWhereNotIn('owner', living))
        .update({ owner })
    })
    if (taken > 0) return true
    const inserted: readonly unknown[] = await this.database.run((query) =>
      query('leases').insert({ name, owner }).onConflict('name').ignore().returning('name'),
    )
    return inserted.length > 0
  }

  async release(name: string): Promise<void> {
    await this.database.run((query) => query('leases').where({ name, owner: this.owner }).delete())
  }
}
