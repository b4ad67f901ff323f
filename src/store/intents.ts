import { under, type Path } from '../contract/path.js'
import { moveAttributes } from './attributes.js'
import type { Database } from './database.js'
import { moveProperties } from './properties.js'
import type { Intent } from './rows.js'
import { moveRules } from './rules.js'

interface IntentColumns {
  id: number
  storage_id: number
  kind: Intent['kind']
  from_path: Path
  to_path: Path
  spare: boolean | number
}

export class IntentsTable {
  constructor(private readonly database: Database) {}

  async all(): Promise<Intent[]> {
    const rows = await this.database.read((query) => query<IntentColumns>('intents').select().orderBy('id'))
    return rows.map(intentOf)
  }

  async ofStorage(storageId: number): Promise<Intent[]> {
    const rows = await this.database.read((query) =>
      query<IntentColumns>('intents').where({ storage_id: storageId }).select().orderBy('id'),
    )
    return rows.map(intentOf)
  }

  async get(id: number): Promise<Intent | undefined> {
    const row = await this.database.read((query) => query<IntentColumns>('intents').where({ id }).first())
    return row && intentOf(row)
  }

  async insert(intent: Omit<Intent, 'id'>): Promise<number> {
    const { storageId, kind, from, to } = intent
    const row = { storage_id: storageId, kind, from_path: from, to_path: to, spare: intent.disposable }
    const rows = await this.database.run((query) => query<IntentColumns>('intents').insert(row).returning('id'))
    return Number(rows[0]?.id)
  }

  async setDisposable(id: number, disposable: boolean): Promise<void> {
    await this.database.run((query) => query<IntentColumns>('intents').where({ id }).update({ spare: disposable }))
  }

  /** An intent that was already applied or deleted is no error. */
  async apply(id: number, mount: Path): Promise<void> {
    await this.database.transaction(async (query) => {
      // A transaction must write first (see `transaction`). Of two concurrent calls, the second finds no row.
      const [intent]: readonly IntentColumns[] = await query<IntentColumns>('intents')
        .where({ id })
        .update({ id })
        .returning('*')
      if (intent === undefined) return
      const [from, to] = [under(mount, intent.from_path), under(mount, intent.to_path)]
      await moveRules(query, from, to)
      await moveProperties(query, from, to)
      await moveAttributes(query, from, to)
      await query<IntentColumns>('intents')
        .where({ kind: 'aside', storage_id: intent.storage_id, from_path: intent.to_path })
        .update({ spare: true })
      await query<IntentColumns>('intents').where({ id }).delete()
    })
  }

  async drop(id: number): Promise<void> {
    await this.database.run((query) => query<IntentColumns>('intents').where({ id }).delete())
  }
}

function intentOf(row: IntentColumns): Intent {
  const { id, storage_id: storageId, kind, from_path: from, to_path: to } = row
  return { id, storageId, kind, from, to, disposable: Boolean(row.spare) }
}
