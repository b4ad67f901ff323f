/** What doors ask of the accounts. */
import type { DoorName, Principal } from '../principal.js'
import type { KeyRow, UserRow } from '../store/rows.js'

export interface Credentials {
  readonly username: string
  /** The plain password, or the wire's static hash of it (64 lower-case hex characters). */
  readonly password: { readonly plain: string } | { readonly hash: string }
  /** The one-time code, where one was sent. */
  readonly code?: string | undefined
  /** The client's address without port. */
  readonly address: string
}

export interface Accounts {
  /**
   * A token for the HTTP door. Rejects with `unauthenticated` (unknown name, wrong password: same words, same time),
   * `throttled` (with retryAfter), `CodeRequired` where the account has two-step verification, `denied` for a disabled one.
   */
  signIn(credentials: Credentials): Promise<string>
  /** A session token or the permanent token as a principal; `unauthenticated` with the reference's words. */
  byToken(token: string, door: DoorName): Promise<Principal>
  /** The guest, or `unauthenticated` with `Guest user is disabled, login please`. */
  guest(door: DoorName): Principal
  /** Ends a session token for good. The permanent token and dead ones are left alone. */
  signOut(token: string): Promise<void>
  /**
   * Basic authentication and SFTP passwords: verified ones are remembered for minutes under a keyed digest. `denied`
   * where the account has two-step verification (a plain password opens neither WebDAV nor SFTP then).
   */
  byPassword(credentials: Credentials, door: DoorName): Promise<Principal>
  /** Whether this key is one that `username` may use: nothing is recorded. */
  findKey(username: string, blob: Buffer): KeyRow | undefined
  /** Once the signature is proved: sets the time of last use. The principal ends when the key is deleted. */
  byKey(key: KeyRow, door: DoorName): Promise<Principal>

  readonly users: {
    list(): readonly UserRow[]
    get(id: number): UserRow | undefined
    byName(username: string): UserRow | undefined
    create(user: NewUser): Promise<UserRow>
    update(id: number, changes: Partial<NewUser> & { readonly otpSecret?: string }): Promise<UserRow>
    delete(id: number): Promise<void>
  }
  readonly keys: {
    /** By id. */
    list(userId: number): readonly KeyRow[]
    /** One line of an authorized_keys file. `invalid` for anything but a key we accept; `exists` for a taken title. */
    add(userId: number, title: string, line: string): Promise<KeyRow>
    /** `not_found` for a key of somebody else, too. */
    delete(userId: number, id: number): Promise<void>
  }
}

export interface NewUser {
  readonly username: string
  readonly password: string
  readonly basePath: string
  readonly role: 0 | 1 | 2
  readonly permission: number
  readonly disabled: boolean
  readonly ssoId: string
}
