import { GatewayError } from '../contract/errors.js'
import { integer, path, readRow, text, bool, type Columns, type StoredRow } from './columns.js'
import type { Database } from './database.js'
import { RowTable } from './row-table.js'
import type { UserRow } from './rows.js'

const columns: Columns<UserRow> = {
  id: integer('id'),
  username: text('username'),
  passwordHash: text('password_hash'),
  passwordTime: integer('password_time'),
  basePath: path('base_path'),
  role: integer<UserRow['role']>('role'),
  permission: integer('permission'),
  disabled: bool('disabled'),
  ssoId: text('sso_id'),
  otpSecret: text('otp_secret'),
}

export class UsersTable extends RowTable<UserRow> {
  constructor(database: Database) {
    super(database, 'users', columns)
  }

  async change(id: number, decide: (stored: UserRow) => Partial<Omit<UserRow, 'id'>>): Promise<UserRow> {
    return this.database.guarded('users', async (query) => {
      const stored = await query<StoredRow>(this.table).where({ id }).first()
      if (stored === undefined) throw new GatewayError('not_found', { reason: 'there is no such row' })
      return this.updateWith(query, id, decide(readRow(this.columns, stored)))
    })
  }

  async useOtpStep(id: number, step: number): Promise<boolean> {
    const changed = await this.database.run((query) =>
      query(this.table).where({ id }).andWhere('otp_step', '<', step).update({ otp_step: step }),
    )
    return changed > 0
  }
}
