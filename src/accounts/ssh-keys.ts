/** SSH keys of the accounts, cached in memory. */
import type PQueue from 'p-queue'
import { GatewayError, isGatewayError } from '../base/errors.js'
import type { KeyRow } from '../database/tables/accounts.js'
import type { Store } from '../database/tables.js'
import { fingerprintOf, parseKeyLine } from './public-keys.js'

export type { KeyRow } from '../database/tables/accounts.js'

const maxTitleLength = 255
/** Maximum per account: all keys are in memory, and those of the user are compared at sign-in. */
const maxPerUser = 100

export class SshKeys {
  #byId = new Map<number, KeyRow>()

  /** `queue` serializes reads and changes of the cached rows. `onRemoved` is called for each removed key. */
  constructor(
    private readonly store: Store,
    private readonly queue: PQueue,
    private readonly onRemoved: (key: KeyRow) => void,
    private readonly now: () => number,
  ) {}

  /** The user's keys, ordered by id. */
  list(userId: number): readonly KeyRow[] {
    return [...this.#byId.values()].filter((key) => key.userId === userId).sort((one, other) => one.id - other.id)
  }

  get(id: number): KeyRow | undefined {
    return this.#byId.get(id)
  }

  find(userId: number, blob: Buffer): KeyRow | undefined {
    return this.list(userId).find((key) => key.blob.equals(blob))
  }

  /**
   * Adds the key of a line of an authorized_keys file. `invalid` if it is not an accepted key, `too_large` if the user
   * has too many, `exists` for a taken title, `not_found` for an unknown user.
   */
  async add(userId: number, title: string, line: string): Promise<KeyRow> {
    if (title === '' || Buffer.byteLength(title) > maxTitleLength) {
      throw new GatewayError('invalid', { reason: `a key needs a title of at most ${maxTitleLength} bytes` })
    }
    const { type, blob } = parseKeyLine(line)
    const added = new Date(this.now())
    const row = { userId, title, type, blob, fingerprint: fingerprintOf(blob), added, lastUsed: added }
    return this.queue.add(async () => {
      try {
        const key = await this.store.keys.add(row, maxPerUser)
        if (!key) throw new GatewayError('too_large', { reason: `an account can have at most ${maxPerUser} keys` })
        this.#byId.set(key.id, key)
        return key
      } catch (error) {
        if (!isGatewayError(error, 'exists')) throw error
        throw new GatewayError('exists', { reason: 'key with the same title already exists', cause: error })
      }
    })
  }

  /** Deletes a key. `not_found` if it does not exist or belongs to another user. */
  async delete(userId: number, id: number): Promise<void> {
    await this.queue.add(async () => {
      const key = this.#byId.get(id)
      if (key?.userId !== userId) throw new GatewayError('not_found', { reason: 'there is no such key' })
      await this.store.keys.delete(id)
      this.#byId.delete(id)
      this.onRemoved(key)
    })
  }

  /** Sets the time of last use. */
  async touch(key: KeyRow): Promise<void> {
    await this.queue.add(async () => {
      const touched = { ...key, lastUsed: new Date(this.now()) }
      await this.store.keys.touch(key.id, touched.lastUsed)
      if (this.#byId.has(key.id)) this.#byId.set(key.id, touched)
    })
  }

  /** Removes the keys of a deleted user from memory; the database has deleted them. */
  evictUser(userId: number): void {
    for (const key of this.list(userId)) {
      this.#byId.delete(key.id)
      this.onRemoved(key)
    }
  }

  /** Reads the stored keys. Must be called through `queue`. */
  async reload(): Promise<void> {
    const before = this.#byId
    this.#byId = new Map((await this.store.keys.all()).map((key) => [key.id, key]))
    for (const key of before.values()) if (!this.#byId.has(key.id)) this.onRemoved(key)
  }
}
