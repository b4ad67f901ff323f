import type { Database } from './database.js'

interface StateColumns {
  storage_id: number
  key: string
  value: string
}

export class DriverStateTable {
  constructor(private readonly database: Database) {}

  async get(storageId: number, key: string): Promise<string | undefined> {
    const row = await this.database.read((query) =>
      query<StateColumns>('driver_state').where({ storage_id: storageId, key }).first(),
    )
    return row?.value
  }

  /** Stores the value; undefined deletes it. `not_found` if the storage does not exist. */
  async set(storageId: number, key: string, value: string | undefined): Promise<void> {
    await this.database.run(async (query) => {
      const table = query<StateColumns>('driver_state')
      if (value === undefined) await table.where({ storage_id: storageId, key }).delete()
      else await table.insert({ storage_id: storageId, key, value }).onConflict(['storage_id', 'key']).merge()
    })
  }
}
