/** Identities of users at providers and directories, and what is known of the sessions that began there. */
import type { Knex } from 'knex'
import { bool, integer, optional, readRow, text, time, writeRow, type Columns, type StoredRow } from './columns.js'
import type { Database } from './database.js'
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

  /** Stores these times. A missing row is no error. */
  async see(id: number, times: Partial<Pick<IdentityRow, 'lastUsed' | 'checked'>>): Promise<void> {
    await this.database.run((query) => query(this.table).where({ id }).update(writeRow(this.columns, times)))
  }
}

/** What is known of a session that began at a provider. */
export interface ProviderSessionRow {
  readonly id: number
  readonly identityId: number
  /** The credential of the session, such as `console:5`. Unique. */
  readonly credential: string
  /** The session of the provider (`sid` of OpenID Connect). */
  readonly sid: string | undefined
  /** The ID token, by which the provider recognizes the session when the user signs out. */
  readonly idToken: string | undefined
  /** When the session ends, at the latest. */
  readonly expires: Date
}

const sessionColumns: Columns<ProviderSessionRow> = {
  id: integer('id'),
  identityId: integer('identity_id'),
  credential: text('credential'),
  sid: optional(text('sid')),
  idToken: optional(text('id_token')),
  expires: time('expires'),
}

export class ProviderSessionsTable {
  constructor(private readonly database: Database) {}

  async insert(row: Omit<ProviderSessionRow, 'id'>): Promise<void> {
    await this.database.run((query) => query('provider_sessions').insert(writeRow(sessionColumns, row)))
  }

  /** The sessions of an identity; with `sid`, only those that began in this session of the provider. */
  async of(identityId: number, sid?: string): Promise<ProviderSessionRow[]> {
    const fields = { identity_id: identityId, ...(sid !== undefined && { sid }) }
    return this.#where((query) => query<StoredRow>('provider_sessions').where(fields))
  }

  /** The sessions of all identities of the issuer that began in this session of the provider. */
  async ofSid(issuer: string, sid: string): Promise<ProviderSessionRow[]> {
    return this.#where((query) => {
      const identities = query('identities').where({ issuer }).select('id')
      return query<StoredRow>('provider_sessions').where({ sid }).whereIn('identity_id', identities)
    })
  }

  /** What is stored of the session with this credential. */
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
