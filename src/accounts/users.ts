/** The accounts themselves, mirrored in memory. */
import type PQueue from 'p-queue'
import { isDeepStrictEqual } from 'node:util'
import { GatewayError, isGatewayError } from '../errors.js'
import { cleanPath } from '../path.js'
import { allPermissions } from '../principal.js'
import type { Store, UserRow } from '../store/rows.js'
import { hashPassword, staticHash } from './passwords.js'

export interface NewUser {
  readonly username: string
  /** Plain. */
  readonly password: string
  readonly basePath: string
  readonly role: 0 | 1 | 2
  readonly permission: number
  readonly disabled: boolean
  readonly ssoId: string
}

/** What is left out stays as it is. */
export type UserChanges = { readonly [Field in keyof NewUser]?: NewUser[Field] | undefined } & {
  readonly otpSecret?: string | undefined
}

/** Told of each account that changed (`before` and `after`) or went (`before` alone), here or in another process. */
export type UserListener = (before: UserRow, after: UserRow | undefined) => void

export class Users {
  #byId = new Map<number, UserRow>()
  #byName = new Map<string, UserRow>()

  /** `order` takes what touches the mirror one by one. */
  constructor(
    private readonly store: Store,
    private readonly order: PQueue,
    private readonly changed: UserListener,
    private readonly now: () => number,
  ) {}

  /** By id. */
  list(): readonly UserRow[] {
    return [...this.#byId.values()].sort((one, other) => one.id - other.id)
  }

  get(id: number): UserRow | undefined {
    return this.#byId.get(id)
  }

  byName(username: string): UserRow | undefined {
    return this.#byName.get(username)
  }

  /** The only one with role 1 (guest) or 2 (admin). */
  single(role: 1 | 2): UserRow | undefined {
    for (const user of this.#byId.values()) if (user.role === role) return user
    return undefined
  }

  /** Of role 0: there is one guest and one admin from the start. `invalid` for what does not fit, `exists` for a taken name. */
  async create(user: NewUser): Promise<UserRow> {
    if (user.role !== 0) throw new GatewayError('invalid', { reason: 'admin or guest user can not be created' })
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
    return this.order.add(async () => {
      const created = await named(this.store.users.insert(row))
      this.#put(created)
      return created
    })
  }

  /**
   * A new password, a new name, and being disabled end the account's sessions for good. `not_found`, `exists` for a taken
   * name, `invalid` for what does not fit.
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
        throw new GatewayError('invalid', { reason: 'role can not be changed' })
      }
      if (stored.role === 2 && disabled === true) {
        throw new GatewayError('invalid', { reason: 'admin user can not be disabled' })
      }
      const renamed = username !== undefined && username !== stored.username
      const ends = password !== undefined || renamed || (disabled === true && !stored.disabled)
      // Strictly later, whatever the clock says: a token that died once never fits again.
      const passwordTime = Math.max(Math.floor(this.now() / 1000), stored.passwordTime + 1)
      return ends ? { ...plain, passwordTime } : plain
    }
    return this.order.add(async () => {
      const updated = await named(this.store.users.change(id, decide))
      this.#put(updated)
      return updated
    })
  }

  /** With its keys. `invalid` for the admin and the guest, `not_found`. */
  async delete(id: number): Promise<void> {
    await this.order.add(async () => {
      const user = this.#byId.get(id)
      if (user !== undefined && user.role !== 0) {
        throw new GatewayError('invalid', { reason: 'cannot delete admin or guest' })
      }
      const deleted = await this.store.users.delete(id)
      this.#replace([...this.#byId.values()].filter((other) => other.id !== id))
      if (!deleted) throw new GatewayError('not_found', { reason: 'record not found' })
    })
  }

  /** Reads what is stored. To be called in order. */
  async reload(): Promise<void> {
    this.#replace(await this.store.users.all())
  }

  #put(user: UserRow): void {
    this.#replace([...[...this.#byId.values()].filter((other) => other.id !== user.id), user])
  }

  #replace(rows: readonly UserRow[]): void {
    const before = this.#byId
    // An account that is as it was keeps its object: others tell by it that nothing changed.
    const kept = rows.map((row) => {
      const known = before.get(row.id)
      return known !== undefined && isDeepStrictEqual(known, row) ? known : row
    })
    this.#byId = new Map(kept.map((row) => [row.id, row]))
    this.#byName = new Map(kept.map((row) => [row.username, row]))
    for (const old of before.values()) {
      const next = this.#byId.get(old.id)
      if (next !== old) this.changed(old, next)
    }
  }
}

/** A taken name, in words. */
async function named(change: Promise<UserRow>): Promise<UserRow> {
  try {
    return await change
  } catch (error) {
    if (!isGatewayError(error, 'exists')) throw error
    throw new GatewayError('exists', { reason: 'a user of this name exists already', cause: error })
  }
}

// eslint-disable-next-line no-control-regex -- refusing control characters is the point
const unfitForNames = /[\u0000-\u001f\u007f:]/

function checkUsername(username: string): string {
  const refuse = (reason: string): never => {
    throw new GatewayError('invalid', { reason })
  }
  if (username === '') refuse('a user needs a name')
  if (Buffer.byteLength(username) > 255) refuse('the user name is too long')
  if (!username.isWellFormed()) refuse('a user name must be valid Unicode')
  // Basic authentication ends the name at the first colon.
  if (unfitForNames.test(username)) refuse('a user name cannot hold control characters or colons')
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
