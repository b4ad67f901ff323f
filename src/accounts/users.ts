/** The user accounts, cached in memory. */
import { isDeepStrictEqual } from 'node:util'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../base/errors.js'
import { cleanPath } from '../base/path.js'
import { isDecoded } from '../base/utf8.js'
import type { Role, UserRow, UserContents } from '../database/tables/accounts.js'
import type { Store } from '../database/tables.js'
import { checkNetworks } from './admission.js'
import type { FairQueue, Requester } from './fair-queue.js'
import type { Groups, StoredWith } from './groups.js'
import type { Identities } from './identities.js'
import { RecentCounts } from '../base/bounded-tables.js'
import { hashPassword, impossiblePassword, staticHash } from './passwords.js'
import { checkPermission } from './principal.js'
import type PQueue from 'p-queue'

export type { Role, UserRow } from '../database/tables/accounts.js'

export interface NewUser {
  readonly username: string
  /** The plain password. */
  readonly password: string
  readonly basePath: string
  readonly role: Role
  readonly permission: number
  readonly disabled: boolean
  readonly ssoId: string
  /** The user sees only what a grant allows. Default: false. */
  readonly grantedOnly?: boolean
  /** Addresses and networks in CIDR notation from which the account can be used. Default: none, which is everywhere. */
  readonly allowFrom?: readonly string[] | undefined
  /** When the account ends. Default: null, never. */
  readonly expires?: Date | null | undefined
}

/** Undefined fields are unchanged. */
export type UserChanges = { readonly [Field in keyof NewUser]?: NewUser[Field] | undefined } & {
  readonly otpSecret?: string | undefined
}

/** Groups and grants that are stored with a user; undefined ones are unchanged. */
export interface RightsOfUser {
  /** The ids of all its groups. */
  readonly groups?: readonly number[] | undefined
  readonly grants?: StoredWith | undefined
}

/** A user without a password, whom somebody else proves. */
export interface ProvidedUser extends Omit<NewUser, 'password'> {
  /** Stored with the user, in one transaction. */
  readonly identity: NonNullable<UserContents['identity']>
}

/** Called for each account that was changed, or deleted (`after` is undefined), by this or another process. */
type UserListener = (before: UserRow, after: UserRow | undefined) => void

interface UsersOptions {
  readonly store: Store
  /** Serializes reads and changes of the cached rows. */
  readonly queue: PQueue
  /** The queue in which slow hashes take their turns. */
  readonly hashes: FairQueue
  readonly groups: () => Pick<Groups, 'assertMayJoin' | 'evictUser' | 'reload'>
  readonly identities: Pick<Identities, 'reload'>
  readonly onChanged: UserListener
  readonly now: () => number
}

/**
 * Other names that a user can ask for, and the milliseconds after the last one until they are forgotten. In one
 * process.
 */
export const nameTries = { count: 10, time: 3600_000 }

export class Users {
  #byId = new Map<number, UserRow>()
  #byName = new Map<string, UserRow>()
  /** The names that each user has asked for, by user id. */
  readonly #nameTries: RecentCounts

  constructor(private readonly options: UsersOptions) {
    this.#nameTries = new RecentCounts(nameTries.time, options.now)
  }

  /** All accounts, ordered by id. */
  list(): readonly UserRow[] {
    return [...this.#byId.values()].sort((one, other) => one.id - other.id)
  }

  get(id: number): UserRow | undefined {
    return this.#byId.get(id)
  }

  byName(username: string): UserRow | undefined {
    return this.#byName.get(username)
  }

  /** The only account of the role. */
  byUniqueRole(role: Exclude<Role, 'general'>): UserRow | undefined {
    for (const user of this.#byId.values()) if (user.role === role) return user
    return undefined
  }

  /**
   * Creates a general user, with its groups and grants, which may deny something: it can be used when they are in
   * force. `invalid` for another role, invalid fields or as `Groups.assertMayJoin`, `exists` for a taken name or
   * identity, `throttled` if the requester has too many passwords to be hashed, `aborted`. `requester`: the account
   * itself if omitted.
   */
  async create(user: NewUser | ProvidedUser, requester?: Requester, rights: RightsOfUser = {}): Promise<UserRow> {
    if (user.role !== 'general') throw new GatewayError('invalid', { detail: 'built_in_role' })
    const assertMayJoin = () => this.options.groups().assertMayJoin(undefined, rights.groups ?? [])
    assertMayJoin()
    const fields = {
      username: checkUsername(user.username),
      passwordTime: 0,
      basePath: cleanPath(user.basePath),
      role: user.role,
      permission: checkPermission(user.permission),
      disabled: user.disabled,
      ssoId: user.ssoId,
      otpSecret: '',
      grantedOnly: user.grantedOnly === true,
      allowFrom: checkNetworks(user.allowFrom ?? []),
      expires: user.expires ?? undefined,
    }
    const password = 'password' in user ? checkPassword(user.password) : undefined
    this.#assertFree(fields.username)
    const passwordHash =
      password === undefined ? impossiblePassword() : await this.#hash(password, fields.username, requester)
    const contents = { ...contentsOf(rights), identity: 'identity' in user ? user.identity : undefined }
    return this.options.queue.add(async () => {
      assertMayJoin()
      const inserted = this.options.store.users.insert({ ...fields, passwordHash }, contents)
      const created = await withNameTakenReason(inserted)
      await rights.grants?.reload()
      if (rights.groups !== undefined) await this.options.groups().reload()
      if (contents.identity !== undefined) await this.options.identities.reload()
      this.#put(created)
      return created
    })
  }

  /**
   * Changes a user, with its groups and grants, in one transaction. A new password or name, and disabling, revoke all
   * tokens of the account; other groups and grants end no session. `not_found`, `exists` for a taken name, `invalid` as
   * `create` and for an end of the built-in admin, `throttled` and `aborted` as `create`.
   */
  async update(id: number, changes: UserChanges, requester?: Requester, rights: RightsOfUser = {}): Promise<UserRow> {
    const { username, password, basePath, role, permission, disabled, ssoId, otpSecret } = changes
    const { grantedOnly, allowFrom, expires } = changes
    const fields = {
      ...(username !== undefined && { username: checkUsername(username) }),
      ...(basePath !== undefined && { basePath: cleanPath(basePath) }),
      ...(permission !== undefined && { permission: checkPermission(permission) }),
      ...(disabled !== undefined && { disabled }),
      ...(ssoId !== undefined && { ssoId }),
      ...(otpSecret !== undefined && { otpSecret }),
      ...(grantedOnly !== undefined && { grantedOnly }),
      ...(allowFrom !== undefined && { allowFrom: checkNetworks(allowFrom) }),
      ...(expires !== undefined && { expires: expires ?? undefined }),
    }
    const assertAllowed = (stored: UserRow): void => {
      if (role !== undefined && role !== stored.role) {
        throw new GatewayError('invalid', { detail: 'role_changed' })
      }
      if (stored.role === 'admin' && disabled === true) {
        throw new GatewayError('invalid', { detail: 'admin_disabled' })
      }
      if (stored.role === 'admin' && expires) {
        throw new GatewayError('invalid', { reason: 'the built-in admin cannot have an end' })
      }
    }
    let passwordHash: string | undefined
    if (password !== undefined) {
      checkPassword(password)
      // A change that is refused must not cost a slow hash first.
      const user = this.#byId.get(id) ?? (await this.#change(id, () => ({})))
      assertAllowed(user)
      this.options.groups().assertMayJoin(user, rights.groups ?? [])
      if (username !== undefined && username !== user.username) this.#assertFree(username)
      passwordHash = await this.#hash(password, user.username, requester)
    }
    const decide = (stored: UserRow): Partial<UserRow> => {
      assertAllowed(stored)
      const changed = { ...fields, ...(passwordHash !== undefined && { passwordHash }) }
      const renamed = username !== undefined && username !== stored.username
      const revokesTokens = password !== undefined || renamed || (disabled === true && !stored.disabled)
      return revokesTokens ? { ...changed, passwordTime: this.#nextPasswordTime(stored) } : changed
    }
    return this.#change(id, decide, rights)
  }

  /**
   * Stores `hash`, another hash of the same password, in place of `old`; changes nothing if that is no longer stored.
   * Resolves to what is stored then; undefined if the account has been deleted.
   */
  async replaceHash(id: number, old: string, hash: string): Promise<UserRow | undefined> {
    const changed = this.#change(id, (stored) => (stored.passwordHash === old ? { passwordHash: hash } : {}))
    return undefinedIfMissing(changed)
  }

  #assertFree(username: string): void {
    if (this.#byName.has(username)) throw nameTaken()
  }

  async #hash(password: string, account: string, requester: Requester = { party: { account } }): Promise<string> {
    try {
      return await this.options.hashes.run(requester, () => hashPassword(staticHash(password)))
    } catch (error) {
      if (!isGatewayError(error, 'throttled')) throw error
      const reason = 'too many passwords are being set, try again later'
      throw new GatewayError('throttled', { reason, retryAfter: error.retryAfter, cause: error })
    }
  }

  /**
   * Like `update`, for what users change of their own accounts. A taken name is `invalid`, with the same reason as any
   * other that cannot be used, so that the answer does not say which users exist. That a name is free says so too:
   * `throttled` after `nameTries.count` names. A new name with an `@` is `invalid`: with `sso_link_by_email` a name
   * that is an e-mail address says whose account it is, so that an admin has to give it.
   */
  async updateOwn(
    id: number,
    changes: Pick<UserChanges, 'username' | 'password'>,
    requester: Requester,
  ): Promise<UserRow> {
    const { username } = changes
    const isRenamed = username !== undefined && username !== this.#byId.get(id)?.username
    if (!isRenamed) return this.update(id, changes, requester)
    // Before anything else, whose outcome or time could tell.
    this.#countNameTry(id)
    const isFaulty = nameFault(username) !== undefined || username.includes('@')
    if (isFaulty || this.#byName.has(username)) throw unusableName()
    try {
      return await this.update(id, changes, requester)
    } catch (error) {
      throw isGatewayError(error, 'exists') ? unusableName(error) : error
    }
  }

  #countNameTry(id: number): void {
    const key = String(id)
    if (this.#nameTries.count(key) >= nameTries.count) {
      const retryAfter = Math.max(1, Math.ceil(this.#nameTries.remaining(key) / 1000))
      throw new GatewayError('throttled', {
        reason: 'too many user names have been tried, try again later',
        retryAfter,
      })
    }
    this.#nameTries.add(key)
  }

  /** Revokes all tokens and ends all console sessions of a user. `not_found`. */
  async endSessions(id: number): Promise<void> {
    await this.#change(id, (stored) => ({ passwordTime: this.#nextPasswordTime(stored) }))
  }

  /** Strictly increasing, even if the clock is set back: a revoked token never becomes valid again. */
  #nextPasswordTime({ passwordTime }: UserRow): number {
    return Math.max(Math.floor(this.options.now() / 1000), passwordTime + 1)
  }

  #change(id: number, decide: (stored: UserRow) => Partial<UserRow>, rights: RightsOfUser = {}): Promise<UserRow> {
    return this.options.queue.add(async () => {
      const { store } = this.options
      const memberships = this.options.groups()
      if (rights.groups !== undefined) {
        memberships.assertMayJoin(this.#byId.get(id), rights.groups)
        // The user loses the rights of a group before the rest of the change is stored.
        memberships.evictUser(id, rights.groups)
      }
      const change = async () => {
        const changed = await withNameTakenReason(store.users.change(id, decide, contentsOf(rights)))
        await rights.grants?.reload()
        return changed
      }
      const updated = await change().finally(() => (rights.groups === undefined ? undefined : memberships.reload()))
      this.#put(updated)
      return updated
    })
  }

  /**
   * Deletes a user with its keys, app passwords and console sessions. `invalid` for the admin and the guest,
   * `not_found`.
   */
  async delete(id: number): Promise<void> {
    await this.options.queue.add(async () => {
      const user = this.#byId.get(id)
      if (user !== undefined && user.role !== 'general') {
        throw new GatewayError('invalid', { detail: 'built_in_deleted' })
      }
      const deleted = await this.options.store.users.delete(id)
      this.#replace([...this.#byId.values()].filter((other) => other.id !== id))
      if (!deleted) throw new GatewayError('not_found', { detail: 'account_missing' })
    })
  }

  /** Reads the stored accounts. Must be called through `queue`. */
  async reload(): Promise<void> {
    this.#replace(await this.options.store.users.all())
  }

  #put(user: UserRow): void {
    this.#replace([...[...this.#byId.values()].filter((other) => other.id !== user.id), user])
  }

  #replace(rows: readonly UserRow[]): void {
    const before = this.#byId
    // An unchanged account keeps its object: callers compare objects to detect changes.
    const merged = rows.map((row) => {
      const existing = before.get(row.id)
      return existing !== undefined && isDeepStrictEqual(existing, row) ? existing : row
    })
    this.#byId = new Map(merged.map((row) => [row.id, row]))
    this.#byName = new Map(merged.map((row) => [row.username, row]))
    for (const previous of before.values()) {
      const current = this.#byId.get(previous.id)
      if (current !== previous) this.options.onChanged(previous, current)
    }
  }
}

function contentsOf({ groups, grants }: RightsOfUser): UserContents {
  return { groups, grants: grants?.checked }
}

/** Adds a reason to the error for a taken name. */
async function withNameTakenReason(change: Promise<UserRow>): Promise<UserRow> {
  try {
    return await change
  } catch (error) {
    if (!isGatewayError(error, 'exists')) throw error
    throw nameTaken(error)
  }
}

function nameTaken(cause?: unknown): GatewayError {
  return new GatewayError('exists', { reason: 'a user of this name exists already', cause })
}

const forbiddenInNames = /[\u0000-\u001f\u007f:]/

/** Returns the reason for which no user can have this name; undefined if one can. */
export function nameFault(username: string): string | undefined {
  if (username === '') return 'a user needs a name'
  if (Buffer.byteLength(username) > 255) return 'the user name is too long'
  if (!isDecoded(username)) return 'a user name must be valid Unicode without U+FFFD'
  // Basic authentication ends the name at the first colon.
  return forbiddenInNames.test(username) ? 'a user name cannot hold control characters or colons' : undefined
}

function checkUsername(username: string): string {
  const reason = nameFault(username)
  if (reason !== undefined) throw new GatewayError('invalid', { reason })
  return username
}

function unusableName(cause?: unknown): GatewayError {
  const reason =
    'this user name cannot be used: choose another one, of at most 255 bytes, without control characters, colons and @'
  return new GatewayError('invalid', { reason, cause })
}

function checkPassword(password: string): string {
  if (password === '') throw new GatewayError('invalid', { reason: 'an empty password is not accepted' })
  if (!isDecoded(password))
    throw new GatewayError('invalid', { reason: 'a password must be valid Unicode without U+FFFD' })
  return password
}
