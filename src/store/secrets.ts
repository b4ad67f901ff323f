import type { Database } from './database.js'

interface SecretColumns {
  name: string
  value: string
}

export class SecretsTable {
  constructor(private readonly database: Database) {}

  async obtain(name: string, candidate: string): Promise<string> {
    return this.database.transaction(async (query) => {
      await query<SecretColumns>('secrets').insert({ name, value: candidate }).onConflict('name').ignore()
      const row = await query<SecretColumns>('secrets').where({ name }).first()
      return row?.value ?? candidate
    })
  }
}
