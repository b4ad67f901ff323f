import type { Database } from './database.js'

interface RevokedColumns {
  id: string
  /** Text if the database driver does not support 64-bit integers. */
  expires: number | string
}

export class RevokedTokensTable {
  constructor(private readonly database: Database) {}

  async all(): Promise<Map<string, Date>> {
    const rows = await this.database.read((query) =>
      query<RevokedColumns>('revoked_tokens').where('expires', '>', Date.now()).select('id', 'expires'),
    )
    return new Map(rows.map(({ id, expires }) => [id, new Date(Number(expires))]))
  }

  /** Inserting a token twice is no error. */
  async insert(id: string, expires: Date): Promise<void> {
    await this.database.run((query) =>
      query<RevokedColumns>('revoked_tokens').insert({ id, expires: expires.getTime() }).onConflict('id').ignore(),
    )
  }

  async sweep(now: Date): Promise<void> {
    await this.database.run((query) =>
      query<RevokedColumns>('revoked_tokens').where('expires', '<=', now.getTime()).delete(),
    )
  }
}
