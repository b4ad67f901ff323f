/** The user accounts, cached in memory. */
import { isDeepStrictEqual } from 'node:util'
import type PQueue from 'p-queue'
import { GatewayError, isGatewayError } from '../contract/errors.js'
import { cleanPath } from '../contract/path.js'
import type { UserRow } from '../store/rows.js'
import type { Store } from '../store/tables.js'
import { hashPassword, staticHash } from './passwords.js'
import { allPermissions } from './principal.js'

export type { UserRow } from '../store/rows.js'

export interface NewUser {
  readonly username: string
  /** The plain password. */
  readonly password: string
  readonly basePath: string
  readonly role: 0 | 1 | 2
  readonly permission: number
  readonly disabled: boolean
  readonly ssoId: string
}

/** Undefined fields are unchanged. */
type UserChanges = { readonly [Field in keyof NewUser]?: NewUser[Field] | undefined } & {
  readonly otpSecret?: string | undefined
}

/** Called for each account that was changed, or deleted (`after` is undefined), by this or another process. */
type UserListener = (before: UserRow, after: UserRow | undefined) => void

export class Users {
  #byId = new Map<number, UserRow>()
  #byName = new Map<string, UserRow>()

  /** `queue` serializes reads and changes of the cached rows. */
  constructor(
    private readonly store: Store,
    private readonly queue: PQueue,
    private readonly onChanged: UserListener,
    private readonly now: () => number,
  ) {}

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

  /** The only account with role 1 (guest) or 2 (admin). */
  byUniqueRole(role: 1 | 2): UserRow | undefined {
    for (const user of this.#byId.values()) if (user.role === role) return user
    return undefined
  }

  /** Creates a user of role 0. `invalid` for another role or invalid fields, `exists` for a taken name. */
  async create(user: NewUser): Promise<UserRow> {
    if (user.role !== 0) throw new GatewayError('invalid', { detail: 'built_in_role' })
    const row = {
      username: checkUsername(user.username),
      passwordHash: await hashPassword(staticHash(checkPassword(user.password))),
      passwordTime: 0,
      basePath: cleanPath(user.basePath),
      role: user.role,
      permission: checkPermission(user.permission),
      disabled: user.disabled,
      ssoId: user.ssoId,
      otpSecret: '',
    }
    return this.queue.add(async () => {
      const created = await withNameTakenReason(this.store.users.insert(row))
      this.#put(created)
      return created
    })
  }

  /**
   * Changes a user. A new password or name, and disabling, revoke all tokens of the account. `not_found`, `exists` for
   * a taken name, `invalid` for invalid fields.
   */
  async update(id: number, changes: UserChanges): Promise<UserRow> {
    const { username, password, basePath, role, permission, disabled, ssoId, otpSecret } = changes
    const plain = {
      ...(username !== undefined && { username: checkUsername(username) }),
      ...(password !== undefined && { passwordHash: await hashPassword(staticHash(checkPassword(password))) }),
      ...(basePath !== undefined && { basePath: cleanPath(basePath) }),
      ...(permission !== undefined && { permission: checkPermission(permission) }),
      ...(disabled !== undefined && { disabled }),
      ...(ssoId !== undefined && { ssoId }),
      ...(otpSecret !== undefined && { otpSecret }),
    }
    const decide = (stored: UserRow): Partial<UserRow> => {
      if (role !== undefined && role !== stored.role) {
        throw new GatewayError('invalid', { detail: 'role_changed' })
      }
      if (stored.role === 2 && disabled === true) {
        throw new GatewayError('invalid', { detail: 'admin_disabled' })
      }
      const renamed = username !== undefined && username !== stored.username
      const revokesTokens = password !== undefined || renamed || (disabled === true && !stored.disabled)
      return revokesTokens ? { ...plain, passwordTime: this.#nextPasswordTime(stored) } : plain
    }
    return this.#change(id, decide)
  }

  /** Revokes all tokens and ends all console sessions of a user. `not_found`. */
  async endSessions(id: number): Promise<void> {
    await this.#change(id, (stored) => ({ passwordTime: this.#nextPasswordTime(stored) }))
  }

  /** Strictly increasing, even if the clock is set back: a revoked token never becomes valid again. */
  #nextPasswordTime({ passwordTime }: UserRow): number {
    return Math.max(Math.floor(this.now() / 1000), passwordTime + 1)
  }

  #change(id: number, decide: (stored: UserRow) => Partial<UserRow>): Promise<UserRow> {
    return this.queue.add(async () => {
      const updated = await withNameTakenReason(this.store.users.change(id, decide))
      this.#put(updated)
      return updated
    })
  }

  /** Deletes a user with its keys, app passwords and console sessions. `invalid` for the admin and the guest, `not_found`. */
  async delete(id: number): Promise<void> {
    await this.queue.add(async () => {
      const user = this.#byId.get(id)
      if (user !== undefined && user.role !== 0) {
        throw new GatewayError('invalid', { detail: 'built_in_deleted' })
      }
      const deleted = await this.store.users.delete(id)
      this.#replace([...this.#byId.values()].filter((other) => other.id !== id))
      if (!deleted) throw new GatewayError('not_found', { detail: 'account_missing' })
    })
  }

  /** Reads the stored accounts. Must be called through `queue`. */
  async reload(): Promise<void> {
    this.#replace(await this.store.users.all())
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
      if (current !== previous) this.onChanged(previous, current)
    }
  }
}

/** Adds a reason to the error for a taken name. */
async function withNameTakenReason(change: Promise<UserRow>): Promise<UserRow> {
  try {
    return await change
  } catch (error) {
    if (!isGatewayError(error, 'exists')) throw error
    throw new GatewayError('exists', { reason: 'a user of this name exists already', cause: error })
  }
}

const forbiddenInNames = /[\u0000-\u001f\u007f:]/

function checkUsername(username: string): string {
  const refuse = (reason: string): never => {
    throw new GatewayError('invalid', { reason })
  }
  if (username === '') refuse('a user needs a name')
  if (Buffer.byteLength(username) > 255) refuse('the user name is too long')
  if (!username.isWellFormed()) refuse('a user name must be valid Unicode')
  // Basic authentication ends the name at the first colon.
  if (forbiddenInNames.test(username)) refuse('a user name cannot hold control characters or colons')
  return username
}

function checkPassword(password: string): string {
  if (password === '') throw new GatewayError('invalid', { reason: 'an empty password is not accepted' })
  return password
}

function checkPermission(permission: number): number {
  if (!Number.isInteger(permission) || permission < 0 || permission > allPermissions) {
    throw new GatewayError('invalid', { reason: `a permission is a number from 0 to ${allPermissions}` })
  }
  return permission
}
