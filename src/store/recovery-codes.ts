/** Recovery codes of two-step verification: their table, and the step of the schema that adds it. */
import type { Knex } from 'knex'
import type { Database } from './database.js'
import { isPostgres } from './dialect.js'

/** A trigger deletes the codes of a secret that is replaced or removed, so that programs without this step do so too. */
export async function addRecoveryCodes(query: Knex): Promise<void> {
  await query.schema.createTable('recovery_codes', (table) => {
    table.integer('user_id').notNullable().references('id').inTable('users').onDelete('CASCADE')
    table.text('digest').notNullable()
    table.primary(['user_id', 'digest'])
  })
  const deletion = 'delete from recovery_codes where user_id = new.id;'
  if (isPostgres(query)) {
    await query.raw(
      `create function tidegate_delete_recovery_codes() returns trigger language plpgsql as $$
      begin ${deletion} return null; end $$`,
    )
  }
  await query.raw(
    'create trigger users_otp_secret_change after update of otp_secret on users ' +
      `for each row when (old.otp_secret <> new.otp_secret) ` +
      (isPostgres(query) ? 'execute function tidegate_delete_recovery_codes()' : `begin ${deletion} end`),
  )
}

export class RecoveryCodesTable {
  constructor(private readonly database: Database) {}

  async count(userId: number): Promise<number> {
    const codes = await this.database.read((query) =>
      query('recovery_codes').where({ user_id: userId }).select('digest'),
    )
    return codes.length
  }

  async replace(userId: number, otpSecret: string, digests: readonly string[]): Promise<boolean> {
    return this.database.guarded('users', async (query) => {
      const users = await query('users').where({ id: userId, otp_secret: otpSecret }).select('id')
      if (users.length === 0) return false
      await query('recovery_codes').where({ user_id: userId }).delete()
      await query('recovery_codes').insert(digests.map((digest) => ({ user_id: userId, digest })))
      return true
    })
  }

  async use(userId: number, digest: string): Promise<boolean> {
    const deleted = await this.database.run((query) =>
      query('recovery_codes').where({ user_id: userId, digest }).delete(),
    )
    return deleted > 0
  }
}
