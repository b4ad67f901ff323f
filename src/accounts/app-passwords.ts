/**
 * App passwords: each is for one program of its owner, at some doors, and is taken back alone. They are 160 random bits, so
 * that a fast hash is as good as a slow one and nothing needs to slow down those who try; see docs/decisions/0008.
 */
import { createHash, randomBytes } from 'node:crypto'
import type PQueue from 'p-queue'
import { GatewayError, isGatewayError } from '../errors.js'
import type { AppPasswordDoor, AppPasswordRow, Store } from '../store/rows.js'
import { isSameText } from './same-text.js'

export interface NewAppPassword {
  readonly name: string
  readonly doors: readonly AppPasswordDoor[]
  readonly readOnly: boolean
}

export const appPasswordDoors = ['webdav', 'sftp'] as const satisfies readonly AppPasswordDoor[]

const longestName = 255
/** Of one account: enough for every program, and a bound for what is kept in memory. */
const mostOfOne = 100
/** Milliseconds between two uses that are recorded: a WebDAV client presents its password with every request. */
const touchInterval = 60_000

/** 32 characters of five bits each; none is mistaken for another. */
const alphabet = 'abcdefghijkmnpqrstuvwxyz23456789'
const prefixLength = 8
const secretLength = 32
const shape = new RegExp(`^tg-([${alphabet}]{${prefixLength}})-[${alphabet}]{${secretLength}}$`)

export class AppPasswords {
  #byId = new Map<number, AppPasswordRow>()
  #byPrefix = new Map<string, AppPasswordRow>()

  /** `order` takes what touches the mirror one by one; `ended` is told of each one that is gone. */
  constructor(
    private readonly store: Store,
    private readonly order: PQueue,
    private readonly ended: (row: AppPasswordRow) => void,
    private readonly now: () => number,
  ) {}

  /** By id. */
  list(userId: number): readonly AppPasswordRow[] {
    return [...this.#byId.values()].filter((row) => row.userId === userId).sort((one, other) => one.id - other.id)
  }

  get(id: number): AppPasswordRow | undefined {
    return this.#byId.get(id)
  }

  /** The one that was presented; undefined for what is none of them. */
  find(presented: string): AppPasswordRow | undefined {
    const prefix = shape.exec(presented)?.[1]
    const row = prefix === undefined ? undefined : this.#byPrefix.get(prefix)
    return row !== undefined && isSameText(digestOf(presented), row.digest) ? row : undefined
  }

  /**
   * Resolves to the password as well, which nobody can show again. `invalid` for what does not fit, `exists` for a taken name,
   * `not_found` for an unknown user.
   */
  async add(
    userId: number,
    { name, doors, readOnly }: NewAppPassword,
  ): Promise<{ readonly row: AppPasswordRow; readonly password: string }> {
    if (name === '' || Buffer.byteLength(name) > longestName || !name.isWellFormed()) {
      throw new GatewayError('invalid', { reason: `an app password needs a name of at most ${longestName} bytes` })
    }
    if (doors.length === 0) throw new GatewayError('invalid', { reason: 'an app password needs a door to open' })
    return this.order.add(async () => {
      const others = this.list(userId)
      if (others.length >= mostOfOne) {
        throw new GatewayError('invalid', { reason: `an account has ${mostOfOne} app passwords at most` })
      }
      if (others.some((other) => other.name === name)) throw nameTaken()
      const prefix = this.#freePrefix()
      const password = `tg-${prefix}-${random(secretLength)}`
      const row = await this.#insert({
        userId,
        name,
        prefix,
        digest: digestOf(password),
        doors: appPasswordDoors.filter((door) => doors.includes(door)),
        readOnly,
        added: new Date(this.now()),
        lastUsed: undefined,
      })
      return { row, password }
    })
  }

  /** `not_found` for one of somebody else, too. What came in with it ends. */
  async delete(userId: number, id: number): Promise<void> {
    await this.order.add(async () => {
      const row = this.#byId.get(id)
      if (row?.userId !== userId) throw new GatewayError('not_found', { reason: 'app password not found' })
      await this.store.appPasswords.delete(id)
      this.#forget(row)
    })
  }

  /** Sets the time of last use, once a minute at most. */
  async touch({ id }: AppPasswordRow): Promise<void> {
    const row = this.#byId.get(id)
    const now = this.now()
    if (row === undefined || now - (row.lastUsed?.getTime() ?? -Infinity) < touchInterval) return
    const lastUsed = new Date(now)
    // At once, so that the other requests of a client do not write it too.
    this.#put({ ...row, lastUsed })
    await this.order.add(() => this.store.appPasswords.touch(id, lastUsed))
  }

  /** What the database did with those of a deleted user. */
  forget(userId: number): void {
    for (const row of this.list(userId)) this.#forget(row)
  }

  /** Reads what is stored. To be called in order. */
  async reload(): Promise<void> {
    const before = this.#byId
    const rows = await this.store.appPasswords.all()
    this.#byId = new Map(rows.map((row) => [row.id, row]))
    this.#byPrefix = new Map(rows.map((row) => [row.prefix, row]))
    for (const row of before.values()) if (!this.#byId.has(row.id)) this.ended(row)
  }

  async #insert(fresh: Omit<AppPasswordRow, 'id'>): Promise<AppPasswordRow> {
    try {
      const row = await this.store.appPasswords.insert(fresh)
      this.#put(row)
      return row
    } catch (error) {
      // By another process, meanwhile.
      throw isGatewayError(error, 'exists') ? nameTaken(error) : error
    }
  }

  #freePrefix(): string {
    let prefix = random(prefixLength)
    while (this.#byPrefix.has(prefix)) prefix = random(prefixLength)
    return prefix
  }

  #put(row: AppPasswordRow): void {
    this.#byId.set(row.id, row)
    this.#byPrefix.set(row.prefix, row)
  }

  #forget(row: AppPasswordRow): void {
    this.#byId.delete(row.id)
    this.#byPrefix.delete(row.prefix)
    this.ended(row)
  }
}

function nameTaken(cause?: unknown): GatewayError {
  return new GatewayError('exists', { reason: 'app password with the same name already exists', cause })
}

function digestOf(password: string): string {
  return createHash('sha256').update(password).digest('hex')
}

/** So many characters, five random bits in each. */
function random(length: number): string {
  return Array.from(randomBytes(length), (byte) => alphabet.charAt(byte & 31)).join('')
}
