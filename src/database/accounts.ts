/** Accounts: users, SSH keys, app passwords, sessions of the console, revoked tokens and recovery codes. */
import { GatewayError } from '../base/errors.js'
import {
  bool,
  bytes,
  integer,
  numbered,
  optional,
  path,
  readRow,
  text,
  time,
  wordList,
  writeRow,
  type Columns,
  type StoredRow,
} from './columns.js'
import type { Database } from './database.js'
import { storeContentsOfUser } from './grants.js'
import { RowTable, CredentialsTable } from './row-table.js'
import type { AppPasswordRow, ConsoleSessionRow, KeyRow, Role, UserRow, UserContents } from './tables/accounts.js'
import type { Store } from './tables.js'

const userColumns: Columns<UserRow> = {
  id: integer('id'),
  username: text('username'),
  passwordHash: text('password_hash'),
  passwordTime: integer('password_time'),
  basePath: path('base_path'),
  role: numbered('role', ['general', 'guest', 'admin']),
  permission: integer('permission'),
  disabled: bool('disabled'),
  ssoId: text('sso_id'),
  otpSecret: text('otp_secret'),
  grantedOnly: bool('granted_only'),
  allowFrom: wordList('allow_from'),
  expires: optional(time('expires')),
}

export class UsersTable extends RowTable<UserRow> {
  constructor(database: Database) {
    super(database, 'users', userColumns)
  }

  override async insert(row: Omit<UserRow, 'id'>, contents?: UserContents): Promise<UserRow> {
    if (contents === undefined || Object.values(contents).every((each) => each === undefined)) return super.insert(row)
    return this.database.transaction(async (query) => {
      const inserted = await this.insertWith(query, row)
      await storeContentsOfUser(query, inserted.id, contents)
      return inserted
    })
  }

  async change(
    id: number,
    decide: (stored: UserRow) => Partial<Omit<UserRow, 'id'>>,
    contents: UserContents = {},
  ): Promise<UserRow> {
    return this.database.guarded('users', async (query) => {
      const stored = await query<StoredRow>(this.table).where({ id }).first()
      if (stored === undefined) throw new GatewayError('not_found', { reason: 'there is no such row' })
      const updated = await this.updateWith(query, id, decide(readRow(this.columns, stored)))
      if (updated.passwordTime !== Number(stored.password_time)) {
        await query('console_sessions')
          .where({ user_id: id })
          .whereNot({ password_time: updated.passwordTime })
          .delete()
      }
      await storeContentsOfUser(query, id, contents)
      return updated
    })
  }

  async addFirst(role: Role, make: () => Omit<UserRow, 'id'>): Promise<void> {
    await this.database.guarded('users', async (query) => {
      const present = await query<StoredRow>(this.table).where(writeRow(userColumns, { role })).first()
      if (present === undefined) await this.insertWith(query, make())
    })
  }

  async useOtpStep(id: number, step: number): Promise<boolean> {
    const changed = await this.database.run((query) =>
      query(this.table).where({ id }).andWhere('otp_step', '<', step).update({ otp_step: step }),
    )
    return changed > 0
  }
}

const keyColumns: Columns<KeyRow> = {
  id: integer('id'),
  userId: integer('user_id'),
  title: text('title'),
  type: text('type'),
  blob: bytes('blob'),
  fingerprint: text('fingerprint'),
  added: time('added'),
  lastUsed: time('last_used'),
}

export class KeysTable extends CredentialsTable<KeyRow> {
  constructor(database: Database) {
    super(database, 'ssh_keys', keyColumns)
  }
}

const appPasswordColumns: Columns<AppPasswordRow> = {
  id: integer('id'),
  userId: integer('user_id'),
  name: text('name'),
  prefix: text('prefix'),
  digest: text('digest'),
  protocols: wordList('protocols'),
  readOnly: bool('read_only'),
  folder: path('folder'),
  expires: optional(time('expires')),
  added: time('added'),
  lastUsed: optional(time('last_used')),
}

export class AppPasswordsTable extends CredentialsTable<AppPasswordRow> {
  constructor(database: Database) {
    super(database, 'app_passwords', appPasswordColumns)
  }
}

const sessionColumns: Columns<ConsoleSessionRow> = {
  id: integer('id'),
  userId: integer('user_id'),
  prefix: text('prefix'),
  digest: text('digest'),
  passwordTime: integer('password_time'),
  address: text('address'),
  userAgent: text('user_agent'),
  created: time('created'),
  confirmed: optional(time('confirmed')),
  twoStep: bool('two_step'),
  lastUsed: time('last_used'),
  expires: time('expires'),
}

export class ConsoleSessionsTable extends RowTable<ConsoleSessionRow> {
  constructor(database: Database) {
    super(database, 'console_sessions', sessionColumns)
  }

  async add(row: Omit<ConsoleSessionRow, 'id'>, max: number): ReturnType<Store['consoleSessions']['add']> {
    return this.database.guarded('users', async (query) => {
      const others: readonly { id: number }[] = await query(this.table)
        .where({ user_id: row.userId })
        .orderBy([
          { column: 'last_used', order: 'desc' },
          { column: 'id', order: 'desc' },
        ])
        .select('id')
      const ended = others.slice(max - 1).map(({ id }) => id)
      await query(this.table).whereIn('id', ended).delete()
      return { row: await this.insertWith(query, row), ended }
    })
  }

  async confirm(id: number, confirmed: Date): Promise<boolean> {
    const changed = await this.database.run((query) =>
      query(this.table).where({ id }).update({ confirmed: confirmed.getTime() }),
    )
    return changed > 0
  }

  async touch(id: number, lastUsed: Date): Promise<void> {
    await this.database.run((query) => query(this.table).where({ id }).update({ last_used: lastUsed.getTime() }))
  }

  async sweep(now: Date): Promise<void> {
    await this.database.run((query) => query(this.table).where('expires', '<=', now.getTime()).delete())
  }
}

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

  async has(id: string): Promise<boolean> {
    const rows = await this.database.read((query) => query<RevokedColumns>('revoked_tokens').where({ id }).select('id'))
    return rows.length > 0
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

/** Recovery codes of two-step verification. */
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
