/** Passkeys: public keys of authenticators (WebAuthn). */
import {
  bool,
  bytes,
  integer,
  optional,
  readRow,
  text,
  time,
  wordList,
  writeRow,
  type Columns,
  type StoredRow,
} from './columns.js'
import type { Database } from './database.js'
import { CredentialsTable } from './row-table.js'

export interface PasskeyRow {
  readonly id: number
  readonly userId: number
  /** The id that the authenticator has given it, in base64url. Unique. */
  readonly credentialId: string
  /** In the form of COSE (RFC 9052). */
  readonly publicKey: Buffer
  /** Signatures that the authenticator had made at the latest sign-in; 0 if it does not count them. */
  readonly counter: number
  /** Whether it can be stored elsewhere too, such as in the account of a password manager: so it was registered. */
  readonly backupEligible: boolean
  /** The transports by which clients reach the authenticator (WebAuthn §5.8.4). */
  readonly transports: readonly string[]
  /** The model of the authenticator, as a UUID. */
  readonly aaguid: string
  readonly name: string
  readonly created: Date
  /** Undefined if it was never used. */
  readonly lastUsed: Date | undefined
}

const passkeyColumns: Columns<PasskeyRow> = {
  id: integer('id'),
  userId: integer('user_id'),
  credentialId: text('credential_id'),
  publicKey: bytes('public_key'),
  counter: integer('counter'),
  backupEligible: bool('backup_eligible'),
  transports: wordList('transports'),
  aaguid: text('aaguid'),
  name: text('name'),
  created: time('created'),
  lastUsed: optional(time('last_used')),
}

/** `add` rejects with `exists` if the credential id is taken by any user. */
export class PasskeysTable extends CredentialsTable<PasskeyRow> {
  constructor(database: Database) {
    super(database, 'passkeys', passkeyColumns)
  }

  /** The passkeys of the user, in the order in which they were added. */
  async of(userId: number): Promise<PasskeyRow[]> {
    return this.#where({ user_id: userId })
  }

  async withCredentialId(credentialId: string): Promise<PasskeyRow | undefined> {
    return (await this.#where({ credential_id: credentialId }))[0]
  }

  /** Stores what a sign-in has shown. False if the passkey was deleted, or its counter is another one by now. */
  async use(
    { id, counter }: Pick<PasskeyRow, 'id' | 'counter'>,
    shown: Pick<PasskeyRow, 'counter' | 'lastUsed'>,
  ): Promise<boolean> {
    const changed = await this.database.run((query) =>
      query(this.table).where({ id, counter }).update(writeRow(this.columns, shown)),
    )
    return changed > 0
  }

  async #where(fields: Readonly<Record<string, string | number>>): Promise<PasskeyRow[]> {
    const rows = await this.database.read((query) => query<StoredRow>(this.table).where(fields).orderBy('id'))
    return rows.map((row) => readRow(this.columns, row))
  }
}
