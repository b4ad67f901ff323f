/** Intents: operations of several steps that may have to be completed or undone. */
import { GatewayError } from '../base/errors.js'
import { under, type Path } from '../base/path.js'
import { moveAttributes } from './attributes.js'
import { bool, integer, path, readRow, word, writeRow, type Columns, type StoredRow } from './columns.js'
import type { Database } from './database.js'
import { moveFollowing } from './path-table.js'
import { moveProperties } from './properties.js'
import { subtree } from './ranges.js'
import type { Intent } from './tables/intents.js'

const columns: Columns<Intent> = {
  id: integer('id'),
  storageId: integer('storage_id'),
  kind: word('kind', { backup: 'aside' }),
  from: path('from_path'),
  to: path('to_path'),
  disposable: bool('spare'),
}

export class IntentsTable {
  /** `owner`: the id of this node. */
  constructor(
    private readonly database: Database,
    private readonly owner: string,
  ) {}

  async all(): Promise<Intent[]> {
    const rows = await this.database.read((query) => query<StoredRow>('intents').select().orderBy('id'))
    return rows.map(intentOf)
  }

  async ofStorage(storageId: number): Promise<Intent[]> {
    const rows = await this.database.read((query) =>
      query<StoredRow>('intents').where({ storage_id: storageId, owner: this.owner }).select().orderBy('id'),
    )
    return rows.map(intentOf)
  }

  async removals(storageId: number): Promise<Intent[]> {
    const row = writeRow(columns, { kind: 'removal', storageId })
    const rows = await this.database.read((query) => query<StoredRow>('intents').where(row).select())
    return rows.map(intentOf)
  }

  async endRemovals(to: Path, from?: Pick<Intent, 'storageId' | 'from'>): Promise<void> {
    await this.database.run((query) =>
      query('intents')
        .where(writeRow(columns, { kind: 'removal' }))
        .andWhere((either) => {
          void either.where(subtree(to, 'to_path'))
          if (!from) return
          const row = writeRow(columns, { storageId: from.storageId })
          void either.orWhere((moved) => void moved.where(row).andWhere(subtree(from.from, 'from_path')))
        })
        .delete(),
    )
  }

  async ofOthersAt(storageId: number, at: Path): Promise<Intent[]> {
    const rows = await this.database.read((query) =>
      query<StoredRow>('intents')
        .where({ storage_id: storageId })
        .andWhere((others) => void others.whereNull('owner').orWhereNot('owner', this.owner))
        .andWhere((touching) => {
          void touching
            .where((move) => void move.where(writeRow(columns, { kind: 'move' })).andWhere(subtree(at, 'to_path')))
            .orWhere(
              (backup) => void backup.where(writeRow(columns, { kind: 'backup' })).andWhere(subtree(at, 'from_path')),
            )
        })
        .orderBy('id'),
    )
    return rows.map(intentOf)
  }

  async take(id: number): Promise<void> {
    await this.database.run((query) => query('intents').where({ id }).update({ owner: this.owner }))
  }

  async supersede(id: number): Promise<void> {
    // The intent has the name of the backup, which exists until recovery deletes it as disposable.
    const row = writeRow(columns, { disposable: true })
    await this.database.run((query) =>
      query('intents')
        .where({ ...writeRow(columns, { kind: 'backup' }), id })
        .update({ ...row, from_path: query.raw('to_path') }),
    )
  }

  async get(id: number): Promise<Intent | undefined> {
    const row = await this.database.read((query) => query<StoredRow>('intents').where(this.#own(id)).first())
    return row && intentOf(row)
  }

  async insert(intent: Omit<Intent, 'id'>): Promise<number> {
    const row = { ...writeRow(columns, intent), owner: this.owner }
    const rows = await this.database.run((query) => query('intents').insert(row).returning<StoredRow[]>('id'))
    return Number(rows[0]?.id)
  }

  async setDisposable(id: number, disposable: boolean): Promise<void> {
    const row = writeRow(columns, { disposable })
    const changed = await this.database.run((query) => query('intents').where(this.#own(id)).update(row))
    if (changed === 0) throw new GatewayError('unavailable', { reason: 'another node has taken over this operation' })
  }

  /** An intent that was already applied or deleted, or that another node owns, is no error. */
  async apply(id: number, mountPoint: Path): Promise<void> {
    await this.database.transaction(async (query) => {
      // A transaction must write first (see `transaction`). Of two concurrent calls, the second finds no row.
      const [row] = await query('intents').where(this.#own(id)).update({ id }).returning<StoredRow[]>('*')
      if (row === undefined) return
      const intent = intentOf(row)
      const [from, to] = [under(mountPoint, intent.from), under(mountPoint, intent.to)]
      await moveFollowing(query, from, to)
      await moveProperties(query, from, to)
      await moveAttributes(query, from, to)
      await query('intents')
        .where(writeRow(columns, { kind: 'backup', storageId: intent.storageId, from: intent.to }))
        .update(writeRow(columns, { disposable: true }))
      await query('intents').where({ id }).delete()
    })
  }

  async drop(id: number): Promise<void> {
    await this.database.run((query) => query('intents').where(this.#own(id)).delete())
  }

  #own(id: number) {
    return { id, owner: this.owner }
  }
}

function intentOf(row: StoredRow): Intent {
  return readRow(columns, row)
}
