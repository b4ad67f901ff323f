import type { Path } from '../path.js'
import { moveAttributes } from './attributes.js'
import type { Database } from './database.js'
import { moveProperties } from './properties.js'
import type { Intent } from './rows.js'
import { moveRules } from './rules.js'

interface IntentColumns {
  id: number
  kind: Intent['kind']
  from_path: Path
  to_path: Path
}

export class IntentsTable {
  constructor(private readonly database: Database) {}

  async all(): Promise<Intent[]> {
    const rows = await this.database.run((query) => query<IntentColumns>('intents').select().orderBy('id'))
    return rows.map((row) => ({ id: row.id, kind: row.kind, from: row.from_path, to: row.to_path }))
  }

  async insert({ kind, from, to }: Omit<Intent, 'id'>): Promise<number> {
    const rows = await this.database.run((query) =>
      query<IntentColumns>('intents').insert({ kind, from_path: from, to_path: to }).returning('id'),
    )
    return Number(rows[0]?.id)
  }

  /** One that was carried out or dropped already is no error. */
  async carryOut(id: number): Promise<void> {
    await this.database.transaction(async (query) => {
      // Written first, as a transaction must, so that of two that carry it out the second finds it gone.
      const [intent]: readonly IntentColumns[] = await query<IntentColumns>('intents')
        .where({ id })
        .update({ id })
        .returning('*')
      if (intent === undefined) return
      await moveRules(query, intent.from_path, intent.to_path)
      await moveProperties(query, intent.from_path, intent.to_path)
      await moveAttributes(query, intent.from_path, intent.to_path)
      await query<IntentColumns>('intents').where({ id }).delete()
    })
  }

  async drop(id: number): Promise<void> {
    await this.database.run((query) => query<IntentColumns>('intents').where({ id }).delete())
  }
}
