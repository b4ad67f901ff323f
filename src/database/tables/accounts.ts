/** Accounts, and what they sign in with. */
import type { Path } from '../../base/path.js'
import type { IdentityRow } from '../identities.js'
import type { GroupContents } from './groups.js'
import type { New } from './path-rows.js'

/** There is one guest, whose requests have not signed in, and one admin. */
export type Role = 'general' | 'guest' | 'admin'

export interface UserRow {
  readonly id: number
  readonly username: string
  /**
   * scrypt hash of the static hash of the password, with parameters and salt; or an imported one
   * (accounts/passwords.ts).
   */
  readonly passwordHash: string
  /**
   * Unix time in seconds of the last event that ended this account's sessions (a new password, a new name, being
   * disabled, signing out everywhere); 0 for never. Part of every token; never decreases.
   */
  readonly passwordTime: number
  readonly basePath: Path
  readonly role: Role
  readonly permission: number
  readonly disabled: boolean
  readonly ssoId: string
  /** Base32; empty while two-step verification is off. */
  readonly otpSecret: string
  /** The user sees only what a grant allows. */
  readonly grantedOnly: boolean
  /** Addresses and networks in CIDR notation from which the account can be used. Empty: from everywhere. */
  readonly allowFrom: readonly string[]
  /** When the account ends. Undefined: never. */
  readonly expires: Date | undefined
}

export interface KeyRow {
  readonly id: number
  readonly userId: number
  readonly title: string
  /** `ssh-ed25519` and so on. */
  readonly type: string
  /** The public key blob of RFC 4253 §6.6. */
  readonly blob: Buffer
  /** `SHA256:` and unpadded base64. */
  readonly fingerprint: string
  readonly added: Date
  readonly lastUsed: Date
}

/** A password for one program of an account, valid for some protocols. */
export interface AppPasswordRow {
  readonly id: number
  readonly userId: number
  /** The name that its owner chose. */
  readonly name: string
  /** The unique readable prefix of the password, used to look it up. */
  readonly prefix: string
  /** SHA-256 of the whole password, in hexadecimal. */
  readonly digest: string
  /** Names of the protocols that accept it. */
  readonly protocols: readonly string[]
  readonly readOnly: boolean
  /** The folder that the app password opens, at or below the base folder of its user, as a path of the user. */
  readonly folder: Path
  /** When it ends. Undefined: never. */
  readonly expires: Date | undefined
  readonly added: Date
  /** Undefined if it was never used. */
  readonly lastUsed: Date | undefined
}

/** A sign-in to the console by one browser. */
export interface ConsoleSessionRow {
  readonly id: number
  readonly userId: number
  /** The unique readable prefix of its secret, used to look it up. */
  readonly prefix: string
  /** SHA-256 of its secret, in hexadecimal. */
  readonly digest: string
  /** The user's `passwordTime` at the sign-in. The session is valid while they are equal. */
  readonly passwordTime: number
  /** The client's address at the sign-in, without port. */
  readonly address: string
  readonly userAgent: string
  readonly created: Date
  /** When the user last sent password and code again (docs/decisions/0042). */
  readonly confirmed?: Date | undefined
  /** Whether what proved the user at the sign-in counts as two-step verification, as at a provider. */
  readonly twoStep: boolean
  readonly lastUsed: Date
  readonly expires: Date
}

/** The stored fields of a user; undefined fields are unchanged. */
export interface UserContents extends Pick<GroupContents, 'grants'> {
  /** The ids of the user's groups. */
  readonly groups?: readonly number[] | undefined
  /** An identity of the user that is added. */
  readonly identity?: Omit<IdentityRow, 'id' | 'userId'> | undefined
}

export interface UserRows {
  all(): Promise<UserRow[]>
  /** Adds a user in one transaction. `exists` for a taken name or identity, `not_found` if a group does not exist. */
  insert(row: New<UserRow>, contents?: UserContents): Promise<UserRow>
  /**
   * Inserts what `make` returns unless a user has this role, in one transaction, during which no other process does.
   * An error of `make` cancels it. `exists` for a taken name.
   */
  addFirst(role: Role, make: () => New<UserRow>): Promise<void>
  /**
   * Updates the row with what `decide` returns for the stored row, in one transaction. An error of `decide` cancels
   * the update. A new `passwordTime` deletes the console sessions of the user. `not_found`, also if a group does not
   * exist, `exists`.
   */
  change(id: number, decide: (stored: UserRow) => Partial<New<UserRow>>, contents?: UserContents): Promise<UserRow>
  /** Marks the one-time code of this time step as used: false if that step, or a later one, was used before. */
  useOtpStep(id: number, step: number): Promise<boolean>
  delete(id: number): Promise<boolean>
}

export interface KeyRows {
  all(): Promise<KeyRow[]>
  /**
   * Inserts the row, unless the user has `max` of them; then resolves to undefined. `exists` for a taken title of the
   * same user.
   */
  add(row: New<KeyRow>, max: number): Promise<KeyRow | undefined>
  touch(id: number, lastUsed: Date): Promise<void>
  delete(id: number): Promise<boolean>
}

/**
 * Recovery codes of two-step verification, as digests. Deleted when the secret of their user changes, and with the
 * user.
 */
export interface RecoveryCodeRows {
  count(userId: number): Promise<number>
  /** Replaces all codes of the user in one transaction. False, without a change, if the user has another secret. */
  replace(userId: number, otpSecret: string, digests: readonly string[]): Promise<boolean>
  /** Deletes a code: false if there is none. Of concurrent calls, one resolves to true. */
  use(userId: number, digest: string): Promise<boolean>
}

export interface AppPasswordRows {
  all(): Promise<AppPasswordRow[]>
  /**
   * Inserts the row, unless the user has `max` of them; then resolves to undefined. `exists` for a taken prefix, or a
   * taken name of the same user.
   */
  add(row: New<AppPasswordRow>, max: number): Promise<AppPasswordRow | undefined>
  touch(id: number, lastUsed: Date): Promise<void>
  delete(id: number): Promise<boolean>
}

export interface ConsoleSessionRows {
  all(): Promise<ConsoleSessionRow[]>
  /**
   * Inserts the row, and deletes the least recently used ones of the user beyond `max`. Resolves to the row and their
   * ids. `exists` for a taken prefix.
   */
  add(
    row: New<ConsoleSessionRow>,
    max: number,
  ): Promise<{ readonly row: ConsoleSessionRow; readonly ended: readonly number[] }>
  /** False if the session has ended. */
  confirm(id: number, confirmed: Date): Promise<boolean>
  touch(id: number, lastUsed: Date): Promise<void>
  delete(id: number): Promise<boolean>
  /** Deletes those that have expired. */
  sweep(now: Date): Promise<void>
}

export interface RevokedTokenRows {
  /** Tokens that have not expired yet: when they expire, by id. */
  all(): Promise<Map<string, Date>>
  has(id: string): Promise<boolean>
  insert(id: string, expires: Date): Promise<void>
  sweep(now: Date): Promise<void>
}
