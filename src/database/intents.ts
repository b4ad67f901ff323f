/** Intents: operations of several steps that may have to be completed or undone. */
import { GatewayError } from '../base/errors.js'
import { under, type Path } from '../base/path.js'
import { moveAttributes } from './attributes.js'
import { integer, path, readRow, writeRow, type Columns, type StoredRow } from './columns.js'
import type { Database } from './database.js'
import { moveFollowing } from './path-table.js'
import { moveProperties } from './properties.js'
import { subtree } from './ranges.js'
import type { Intent, IntentKind } from './tables/intents.js'

const columns: Columns<Omit<Intent, 'kind'>> = {
  id: integer('id'),
  storageId: integer('storage_id'),
  from: path('from_path'),
  to: path('to_path'),
}

/** The two columns in which a kind is stored. */
const stored: Readonly<Record<IntentKind, { readonly kind: string; readonly spare: boolean }>> = {
  move: { kind: 'move', spare: false },
  backup: { kind: 'aside', spare: false },
  'spare backup': { kind: 'aside', spare: true },
  'new target': { kind: 'removal', spare: true },
  removal: { kind: 'removal', spare: false },
}
const kinds = Object.keys(stored) as readonly IntentKind[]

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
    const row = { ...writeRow(columns, { storageId }), kind: stored.removal.kind }
    const rows = await this.database.read((query) => query<StoredRow>('intents').where(row).select())
    return rows.map(intentOf)
  }

  async endRemovals(to: Path, from?: Pick<Intent, 'storageId' | 'from'>): Promise<void> {
    await this.database.run((query) =>
      query('intents')
        .where({ kind: stored.removal.kind })
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
            .where((move) => void move.where({ kind: stored.move.kind }).andWhere(subtree(at, 'to_path')))
            .orWhere((backup) => void backup.where({ kind: stored.backup.kind }).andWhere(subtree(at, 'from_path')))
        })
        .orderBy('id'),
    )
    return rows.map(intentOf)
  }

  async take(id: number): Promise<void> {
    await this.database.run((query) => query('intents').where({ id }).update({ owner: this.owner }))
  }

  async supersede(id: number): Promise<void> {
    // With the path of the backup as that of the original, recovery finds something there, and deletes the backup.
    await this.database.run((query) =>
      query('intents')
        .where({ kind: stored.backup.kind, id })
        .update({ ...stored['spare backup'], from_path: query.raw('to_path') }),
    )
  }

  async get(id: number): Promise<Intent | undefined> {
    const row = await this.database.read((query) => query<StoredRow>('intents').where(this.#own(id)).first())
    return row && intentOf(row)
  }

  async insert(intent: Omit<Intent, 'id'>): Promise<number> {
    const { kind, ...others } = intent
    const row = { ...writeRow(columns, others), ...stored[kind], owner: this.owner }
    const rows = await this.database.run((query) => query('intents').insert(row).returning<StoredRow[]>('id'))
    return Number(rows[0]?.id)
  }

  async setKind(id: number, kind: 'backup' | 'spare backup'): Promise<void> {
    const changed = await this.database.run((query) => query('intents').where(this.#own(id)).update(stored[kind]))
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
        .where({ ...writeRow(columns, { storageId: intent.storageId, from: intent.to }), kind: stored.backup.kind })
        .update(stored['spare backup'])
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
  const isSpare = Boolean(row.spare)
  const kind = kinds.find((each) => stored[each].kind === row.kind && stored[each].spare === isSpare)
  if (kind === undefined) throw new GatewayError('internal', { reason: `intent ${String(row.id)} has no known kind` })
  return { ...readRow(columns, row), kind }
}
