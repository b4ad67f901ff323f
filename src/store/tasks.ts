/** Tasks, and the journal of their items. */
import type { Knex } from 'knex'
import { childOf, nameOf, parentOf, root, type Path } from '../contract/path.js'
import { integer, optional, readRow, text, time, word, writeRow, type Columns, type StoredRow } from './columns.js'
import type { Database } from './database.js'
import type { TaskItemRow, TaskRow } from './rows.js'

const columns: Columns<TaskRow> = {
  id: text('id'),
  kind: text('kind'),
  name: text('name'),
  userId: integer('user_id'),
  username: text('username'),
  role: text('role'),
  state: text('state'),
  status: text('status'),
  error: text('error'),
  totalBytes: integer('total_bytes'),
  doneBytes: integer('done_bytes'),
  plan: text('plan'),
  tries: integer('tries'),
  created: time('created'),
  started: optional(time('started')),
  ended: optional(time('ended')),
}

interface StoredItem extends Omit<TaskItemRow, 'path'> {
  /** Empty for the root of the tree, which has no parent. */
  readonly parent: Path | ''
  readonly name: string
}

const itemColumns: Columns<StoredItem> = {
  taskId: text('task_id'),
  parent: text('parent'),
  name: text('name'),
  state: word('state', { extraneous: 'surplus' }),
  source: text('source'),
  copy: text('copy'),
  size: integer('size'),
  error: text('error'),
}

/** Rows in one statement: databases limit the number of values. */
const batchSize = 100

export class TasksTable {
  constructor(private readonly database: Database) {}

  async all(): Promise<TaskRow[]> {
    const stored = await this.database.read((query) => query<StoredRow>('tasks').select().orderBy(['created', 'id']))
    return stored.map((row) => readRow(columns, row))
  }

  async put(row: TaskRow): Promise<void> {
    await this.database.run((query) => query('tasks').insert(writeRow(columns, row)).onConflict('id').merge())
  }

  async delete(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return
    await this.database.transaction(async (query) => {
      for (let at = 0; at < ids.length; at += batchSize) {
        const batch = ids.slice(at, at + batchSize)
        await query('task_items').whereIn('task_id', batch).delete()
        await query('tasks').whereIn('id', batch).delete()
      }
    })
  }

  async putItems(rows: readonly TaskItemRow[]): Promise<void> {
    if (rows.length === 0) return
    await this.database.transaction(async (query) => {
      const tasks = await existingTasks(query, new Set(rows.map(({ taskId }) => taskId)))
      const stored = rows.filter(({ taskId }) => tasks.has(taskId)).map((row) => writeRow(itemColumns, itemOf(row)))
      // An item that was verified remains verified if a later step fails, for example the removal of its source.
      for (const failed of [false, true]) {
        const matching = stored.filter(({ state }) => (state === 'failed') === failed)
        for (let at = 0; at < matching.length; at += batchSize) {
          const inserted = query('task_items')
            .insert(matching.slice(at, at + batchSize))
            .onConflict(['task_id', 'parent', 'name'])
          await (failed ? inserted.merge(['error']) : inserted.merge())
        }
      }
    })
  }

  itemsIn(taskId: string, folder: Path): Promise<TaskItemRow[]> {
    return this.#items({ task_id: taskId, parent: folder })
  }

  async item(taskId: string, at: Path): Promise<TaskItemRow | undefined> {
    const { parent, name } = splitPath(at)
    return (await this.#items({ task_id: taskId, parent, name }))[0]
  }

  async failed(taskId: string): Promise<TaskItemRow[]> {
    return (await this.#items({ task_id: taskId })).filter(({ error }) => error !== '')
  }

  async deleteItem(taskId: string, at: Path): Promise<void> {
    await this.database.run((query) =>
      query('task_items')
        .where({ task_id: taskId, ...splitPath(at) })
        .delete(),
    )
  }

  async deleteItems(taskId: string): Promise<void> {
    await this.database.run((query) => query('task_items').where({ task_id: taskId }).delete())
  }

  async clearFailures(taskId: string): Promise<void> {
    await this.database.transaction(async (query) => {
      await query('task_items').where({ task_id: taskId, state: 'failed' }).delete()
      await query('task_items').where({ task_id: taskId }).whereNot({ error: '' }).update({ error: '' })
    })
  }

  async #items(which: Readonly<Record<string, string>>): Promise<TaskItemRow[]> {
    const stored = await this.database.read((query) =>
      query<StoredRow>('task_items').where(which).select().orderBy(['parent', 'name']),
    )
    return stored.map((row) => {
      const { parent, name, ...item } = readRow(itemColumns, row)
      return { ...item, path: parent === '' ? root : childOf(parent, name) }
    })
  }
}

/**
 * The ids of the tasks that exist. Reads by an update, because a transaction must write first (see
 * `Database.transaction`).
 */
async function existingTasks(query: Knex, ids: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const found = new Set<string>()
  for (const id of ids) {
    if ((await query('tasks').where({ id }).update({ id })) > 0) found.add(id)
  }
  return found
}

function itemOf({ path: at, ...row }: TaskItemRow): StoredItem {
  return { ...row, ...splitPath(at) }
}

function splitPath(at: Path): Pick<StoredItem, 'parent' | 'name'> {
  return at === root ? { parent: '', name: '' } : { parent: parentOf(at), name: nameOf(at) }
}
