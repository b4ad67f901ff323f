/** SSH keys of the accounts, mirrored in memory. */
import type PQueue from 'p-queue'
import { GatewayError, isGatewayError } from '../errors.js'
import type { KeyRow, Store } from '../store/rows.js'
import { fingerprintOf, parseKeyLine } from './public-keys.js'

const longestTitle = 255

export class Keys {
  #byId = new Map<number, KeyRow>()

  /** `order` takes what touches the mirror one by one; `ended` is told of each key that is gone. */
  constructor(
    private readonly store: Store,
    private readonly order: PQueue,
    private readonly ended: (key: KeyRow) => void,
    private readonly now: () => number,
  ) {}

  /** By id. */
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
   * One line of an authorized_keys file. `invalid` for anything but a key that is accepted, `exists` for a taken title,
   * `not_found` for an unknown user.
   */
  async add(userId: number, title: string, line: string): Promise<KeyRow> {
    if (title === '' || Buffer.byteLength(title) > longestTitle) {
      throw new GatewayError('invalid', { reason: `a key needs a title of at most ${longestTitle} bytes` })
    }
    const { type, blob } = parseKeyLine(line)
    const added = new Date(this.now())
    const row = { userId, title, type, blob, fingerprint: fingerprintOf(blob), added, lastUsed: added }
    return this.order.add(async () => {
      try {
        const key = await this.store.keys.insert(row)
        this.#byId.set(key.id, key)
        return key
      } catch (error) {
        if (!isGatewayError(error, 'exists')) throw error
        throw new GatewayError('exists', { reason: 'key with the same title already exists', cause: error })
      }
    })
  }

  /** `not_found` for a key of somebody else, too. */
  async delete(userId: number, id: number): Promise<void> {
    await this.order.add(async () => {
      const key = this.#byId.get(id)
      if (key?.userId !== userId) throw new GatewayError('not_found', { reason: 'failed to get public key' })
      await this.store.keys.delete(id)
      this.#byId.delete(id)
      this.ended(key)
    })
  }

  /** Sets the time of last use. */
  async touch(key: KeyRow): Promise<KeyRow> {
    return this.order.add(async () => {
      const touched = { ...key, lastUsed: new Date(this.now()) }
      await this.store.keys.touch(key.id, touched.lastUsed)
      if (this.#byId.has(key.id)) this.#byId.set(key.id, touched)
      return touched
    })
  }

  /** What the database did with the keys of a deleted user. */
  forget(userId: number): void {
    for (const key of this.list(userId)) {
      this.#byId.delete(key.id)
      this.ended(key)
    }
  }

  /** Reads what is stored. To be called in order. */
  async reload(): Promise<void> {
    const before = this.#byId
    this.#byId = new Map((await this.store.keys.all()).map((key) => [key.id, key]))
    for (const key of before.values()) if (!this.#byId.has(key.id)) this.ended(key)
  }
}
