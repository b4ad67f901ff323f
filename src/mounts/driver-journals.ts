/**
 * The journals of the driver of a storage (`DriverState.journal`). Each entry is a row of its own, and belongs to a
 * node.
 */
import { randomBytes } from 'node:crypto'
import type { Journal, JournalEntry, LeftEntry } from '../contract/driver-env.js'
import type { JournalRow } from '../database/tables/storages.js'
import type { Store } from '../database/tables.js'

type Adopt = (left: readonly LeftEntry[]) => void

export class DriverJournals {
  readonly #opened: (readonly [key: string, adopt: Adopt])[] = []
  #ids = 0

  constructor(
    private readonly table: Store['driverState'],
    private readonly storageId: number,
  ) {}

  /** See `DriverState.journal`. */
  journal(key: string): Journal {
    return { entry: () => this.#entry(key, this.#newId()), adopt: (adopt) => this.#adopt(key, adopt) }
  }

  /** Passes on what nodes have left that have ended since. */
  async takeOver(): Promise<void> {
    for (const [key, adopt] of this.#opened) await this.#takeOver(key, adopt)
  }

  async #takeOver(key: string, adopt: Adopt): Promise<void> {
    const taken = await this.table.takeOver(this.storageId, key)
    if (taken.length > 0) adopt(this.#left(key, taken))
  }

  async #adopt(key: string, adopt: Adopt): Promise<void> {
    const { table, storageId } = this
    const list = await table.get(storageId, key)
    if (list !== undefined) await table.deleteAndAdd(storageId, key, this.#listed(list))
    await table.takeOver(storageId, key)
    adopt(this.#left(key, await table.entries(storageId, key)))
    this.#opened.push([key, adopt])
    // Takes over the entries of a node that has ended just now.
    await this.#takeOver(key, adopt)
  }

  #left(key: string, rows: readonly JournalRow[]): readonly LeftEntry[] {
    return rows.map(({ id, value }) => ({ entry: this.#entry(key, id), value: parsed(value) }))
  }

  #entry(key: string, id: string): JournalEntry {
    const { table, storageId } = this
    return {
      set: (value) =>
        table.setEntry(storageId, key, value === undefined ? { id } : { id, value: JSON.stringify(value) }),
    }
  }

  /** An id that sorts after earlier ones. */
  #newId(time = Date.now()): string {
    const [first, second] = [time, ++this.#ids].map((number) => number.toString(36).padStart(9, '0'))
    return `${first}-${second}-${randomBytes(6).toString('hex')}`
  }

  /** The entries of a list that an older version has stored. */
  #listed(text: string): readonly JournalRow[] {
    const list = parsed(text)
    return Array.isArray(list) ? list.map((value) => ({ id: this.#newId(0), value: JSON.stringify(value) })) : []
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
