/** Identities of users at providers and directories, and what is known of the sessions that began there. */
import type { Knex } from 'knex'
import { bool, integer, optional, readRow, text, time, writeRow, type Columns, type StoredRow } from './columns.js'
import { Database } from './database.js'
import { CredentialsTable } from './row-table.js'

/** The account of a user at a provider (`oidc`, `oauth`) or in a directory (`ldap`). */
export interface IdentityRow {
  readonly id: number
  readonly userId: number
  readonly kind: 'oidc' | 'oauth' | 'ldap'
  /** The provider or directory: the issuer of OpenID Connect, or a URL. */
  readonly issuer: string
  /** Identifies the account there, for ever. With `issuer`, unique. */
  readonly subject: string
  /** The name of the account there when it was linked. */
  readonly name: string
  /** Whether the user was created at the first sign-in by this identity. */
  readonly provisioned: boolean
  readonly linked: Date
  /** The latest sign-in. */
  readonly lastUsed: Date
  /** When the provider or directory last confirmed that the account exists there: a sign-in, or a look-up. */
  readonly checked: Date
}

export const identityColumns: Columns<IdentityRow> = {
  id: integer('id'),
  userId: integer('user_id'),
  kind: text('kind'),
  issuer: text('issuer'),
  subject: text('subject'),
  name: text('name'),
  provisioned: bool('provisioned'),
  linked: time('linked'),
  lastUsed: time('last_used'),
  checked: time('checked'),
}

/** `add` rejects with `exists` if the identity is linked to any user. */
export class IdentitiesTable extends CredentialsTable<IdentityRow> {
  constructor(database: Database) {
    super(database, 'identities', identityColumns)
  }

  /** Deletes an identity. Resolves to the sessions that began by it, which are open; no other can be opened then. */
  async unlink(id: number): Promise<OpenProviderSession[]> {
    return this.database.guarded('users', async (query) => {
      // No session is reserved between both.
      await query(this.table).where({ id }).forUpdate().select('id')
      const open = await new ProviderSessionsTable(new Database(query)).ending({ identityId: id })
      await query(this.table).where({ id }).delete()
      return open
    })
  }

  /** Stores these times. A missing row is no error. */
  async see(id: number, times: Partial<Pick<IdentityRow, 'lastUsed' | 'checked'>>): Promise<void> {
    await this.database.run((query) => query(this.table).where({ id }).update(writeRow(this.columns, times)))
  }
}

/** A session that began at a provider. */
export interface ProviderSessionRow {
  readonly id: number
  readonly identityId: number
  /** The credential of the session, such as `console:5`. Unique. `reserved:` and a secret until it has been opened. */
  readonly credential: string
  /** The session of the provider (`sid` of OpenID Connect). */
  readonly sid: string | undefined
  /** The ID token, by which the provider recognizes the session when the user signs out. */
  readonly idToken: string | undefined
  /** When the session ends, at the latest. */
  readonly expires: Date
}

/** Which sessions: those of one identity, or those that a provider names, by the subject or its session or both. */
export type WhichSessions =
  | { readonly identityId: number }
  | { readonly issuer: string; readonly subject?: string | undefined; readonly sid?: string | undefined }

const sessionColumns: Columns<ProviderSessionRow> = {
  id: integer('id'),
  identityId: integer('identity_id'),
  credential: text('credential'),
  sid: optional(text('sid')),
  idToken: optional(text('id_token')),
  expires: time('expires'),
}

/** A session that is open, and its user. */
export interface OpenProviderSession {
  readonly userId: number
  readonly credential: `token:${string}` | `console:${number}`
  readonly expires: Date
}

const openSessionColumns: Columns<OpenProviderSession> = {
  userId: integer('user_id'),
  credential: text('credential'),
  expires: time('expires'),
}

export class ProviderSessionsTable {
  constructor(private readonly database: Database) {}

  async insert(row: Omit<ProviderSessionRow, 'id'>): Promise<void> {
    await this.database.run((query) => query('provider_sessions').insert(writeRow(sessionColumns, row)))
  }

  /** Gives a row the credential of the session, now that it is open. False if there is no such row any more. */
  async open(
    reserved: string,
    { credential, expires }: Pick<ProviderSessionRow, 'credential' | 'expires'>,
  ): Promise<boolean> {
    const changed = await this.database.run((query) =>
      query('provider_sessions')
        .where({ credential: reserved })
        .update(writeRow(sessionColumns, { credential, expires })),
    )
    return changed > 0
  }

  /** The open sessions, with their users. Those that are not open yet cannot be opened after that. */
  async ending(which: WhichSessions): Promise<OpenProviderSession[]> {
    const rows = await this.database.transaction(async (query) => {
      const sessions = query<StoredRow>('provider_sessions')
      if ('identityId' in which) void sessions.where({ identity_id: which.identityId })
      else {
        const { issuer, subject, sid } = which
        const identities = query('identities').where({ issuer, ...(subject !== undefined && { subject }) })
        void sessions.whereIn('identity_id', identities.select('id')).where({ ...(sid !== undefined && { sid }) })
      }
      await sessions.clone().where('credential', 'like', 'reserved:%').delete()
      return sessions.join('identities', 'identities.id', 'identity_id').select('user_id', 'credential', 'expires')
    })
    return rows.map((row: StoredRow) => readRow(openSessionColumns, row))
  }

  /** Returns the row of the session with this credential; undefined if there is none. */
  async ofCredential(credential: string): Promise<ProviderSessionRow | undefined> {
    return (await this.#where((query) => query<StoredRow>('provider_sessions').where({ credential })))[0]
  }

  async sweep(now: Date): Promise<void> {
    await this.database.run((query) => query('provider_sessions').where('expires', '<=', now.getTime()).delete())
  }

  async #where(select: (query: Knex) => PromiseLike<readonly StoredRow[]>): Promise<ProviderSessionRow[]> {
    const rows = await this.database.read(async (query) => select(query))
    return rows.map((row) => readRow(sessionColumns, row))
  }
}
