/**
 * App passwords: each is meant for one program, is valid for some protocols, and is revoked individually; see
 * docs/decisions/0008.
 */
import type PQueue from 'p-queue'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { cleanPath, root } from '../base/path.js'
import type { AppPasswordRow } from '../database/tables/accounts.js'
import type { Store } from '../database/tables.js'
import { RandomSecrets } from './random-secrets.js'

export type { AppPasswordRow } from '../database/tables/accounts.js'

export interface NewAppPassword {
  readonly name: string
  /** Names of the protocols that accept it. */
  readonly protocols: readonly string[]
  readonly readOnly: boolean
  /**
   * The folder that the app password opens, as a path of the user. It need not exist. Default: all that the user sees.
   */
  readonly folder?: string | undefined
  /** When it ends. Default: never. */
  readonly expires?: Date | undefined
}

const maxNameLength = 255
/** Maximum per account; bounds the memory. */
const maxPerUser = 100
/** Minimum milliseconds between two recorded uses: a WebDAV client sends its password with every request. */
const touchInterval = 60_000

const secrets = new RandomSecrets('tg')

export class AppPasswords {
  #byId = new Map<number, AppPasswordRow>()
  #byPrefix = new Map<string, AppPasswordRow>()

  /** `queue` serializes reads and changes of the cached rows. `onRemoved` is called for each removed app password. */
  constructor(
    private readonly store: Store,
    private readonly queue: PQueue,
    private readonly onRemoved: (row: AppPasswordRow) => void,
    private readonly now: () => number,
  ) {}

  /** The user's app passwords, ordered by id. */
  list(userId: number): readonly AppPasswordRow[] {
    return [...this.#byId.values()].filter((row) => row.userId === userId).sort((one, other) => one.id - other.id)
  }

  get(id: number): AppPasswordRow | undefined {
    return this.#byId.get(id)
  }

  /** The row of a presented app password; undefined if there is none. */
  find(presented: string): AppPasswordRow | undefined {
    return secrets.find(presented, (prefix) => this.#byPrefix.get(prefix))
  }

  /**
   * Creates an app password. Resolves to the row and the password, which cannot be retrieved later. `invalid` for
   * invalid fields or too many app passwords, `exists` for a taken name, `not_found` for an unknown user.
   */
  async add(
    userId: number,
    appPassword: NewAppPassword,
  ): Promise<{ readonly row: AppPasswordRow; readonly password: string }> {
    const { name, readOnly } = appPassword
    if (name === '' || Buffer.byteLength(name) > maxNameLength || !name.isWellFormed()) {
      throw new GatewayError('invalid', { reason: `an app password needs a name of at most ${maxNameLength} bytes` })
    }
    if (appPassword.protocols.length === 0)
      throw new GatewayError('invalid', { reason: 'an app password needs at least one protocol' })
    const folder = cleanPath(appPassword.folder ?? root)
    const { expires } = appPassword
    if (expires !== undefined && expires.getTime() <= this.now()) {
      throw new GatewayError('invalid', { reason: 'the end of an app password must be in the future' })
    }
    return this.queue.add(async () => {
      const { secret: password, ...stored } = secrets.create((prefix) => this.#byPrefix.has(prefix))
      const row = await this.#insert({
        ...stored,
        userId,
        name,
        protocols: appPassword.protocols,
        readOnly,
        folder,
        expires,
        added: new Date(this.now()),
        lastUsed: undefined,
      })
      return { row, password }
    })
  }

  /** Deletes an app password and revokes its sessions. `not_found` if it does not exist or belongs to another user. */
  async delete(userId: number, id: number): Promise<void> {
    await this.queue.add(async () => {
      const row = this.#byId.get(id)
      if (row?.userId !== userId) throw new GatewayError('not_found', { reason: 'app password not found' })
      await this.store.appPasswords.delete(id)
      this.#forget(row)
    })
  }

  /** Sets the time of last use, at most once a minute. */
  async touch({ id }: AppPasswordRow): Promise<void> {
    const row = this.#byId.get(id)
    const now = this.now()
    if (row === undefined || now - (row.lastUsed?.getTime() ?? -Infinity) < touchInterval) return
    const lastUsed = new Date(now)
    // Set before the write completes, so that concurrent requests do not write it too.
    this.#put({ ...row, lastUsed })
    await this.queue.add(() => this.store.appPasswords.touch(id, lastUsed))
  }

  /** Removes the rows of a deleted user from memory; the database has deleted them. */
  evictUser(userId: number): void {
    for (const row of this.list(userId)) this.#forget(row)
  }

  /** Reads the stored rows. Must be called through `queue`. */
  async reload(): Promise<void> {
    const before = this.#byId
    const rows = await this.store.appPasswords.all()
    this.#byId = new Map(rows.map((row) => [row.id, row]))
    this.#byPrefix = new Map(rows.map((row) => [row.prefix, row]))
    for (const row of before.values()) if (!this.#byId.has(row.id)) this.onRemoved(row)
  }

  async #insert(newRow: Omit<AppPasswordRow, 'id'>): Promise<AppPasswordRow> {
    try {
      const row = await this.store.appPasswords.add(newRow, maxPerUser)
      if (row === undefined) {
        throw new GatewayError('invalid', { reason: `an account can have at most ${maxPerUser} app passwords` })
      }
      this.#put(row)
      return row
    } catch (error) {
      throw isGatewayError(error, 'exists') ? nameTaken(error) : error
    }
  }

  #put(row: AppPasswordRow): void {
    this.#byId.set(row.id, row)
    this.#byPrefix.set(row.prefix, row)
  }

  #forget(row: AppPasswordRow): void {
    this.#byId.delete(row.id)
    this.#byPrefix.delete(row.prefix)
    this.onRemoved(row)
  }
}

function nameTaken(cause: unknown): GatewayError {
  return new GatewayError('exists', { reason: 'app password with the same name already exists', cause })
}
