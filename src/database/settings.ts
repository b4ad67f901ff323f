/** Settings, and secrets that the gateway generates. */
import type { Database } from './database.js'

interface SettingColumns {
  key: string
  value: string
}

export class SettingsTable {
  constructor(private readonly database: Database) {}

  async all(): Promise<Map<string, string>> {
    const rows = await this.database.read((query) => query<SettingColumns>('settings').select('key', 'value'))
    return new Map(rows.map(({ key, value }) => [key, value]))
  }

  async set(values: ReadonlyMap<string, string>): Promise<void> {
    await this.database.transaction(async (query) => {
      for (const [key, value] of values) {
        await query<SettingColumns>('settings').insert({ key, value }).onConflict('key').merge()
      }
    })
  }

  async delete(key: string): Promise<boolean> {
    return (await this.database.run((query) => query<SettingColumns>('settings').where({ key }).delete())) > 0
  }
}

interface SecretColumns {
  name: string
  value: string
}

export class SecretsTable {
  constructor(private readonly database: Database) {}

  async get(name: string): Promise<string | undefined> {
    const row = await this.database.read((query) => query<SecretColumns>('secrets').where({ name }).first())
    return row?.value
  }

  async obtain(name: string, candidate: string): Promise<string> {
    return this.database.transaction(async (query) => {
      await query<SecretColumns>('secrets').insert({ name, value: candidate }).onConflict('name').ignore()
      const row = await query<SecretColumns>('secrets').where({ name }).first()
      return row?.value ?? candidate
    })
  }

  async replace(values: ReadonlyMap<string, string>): Promise<void> {
    await this.database.transaction(async (query) => {
      for (const [name, value] of values) {
        await query<SecretColumns>('secrets').insert({ name, value }).onConflict('name').merge()
      }
    })
  }
}
