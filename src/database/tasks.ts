/** Tasks, and the journal of their items. */
import type { Knex } from 'knex'
import { childOf, nameOf, parentOf, root, type Path } from '../base/path.js'
import {
  integer,
  json,
  optional,
  readRow,
  text,
  time,
  word,
  writeRow,
  type Columns,
  type StoredRow,
} from './columns.js'
import type { Database } from './database.js'
import type { Role } from './tables/accounts.js'
import type { TaskAction, TaskItemRow, TaskRequestRow, TaskRow, UnfinishedTasks } from './tables/tasks.js'

const columns: Columns<TaskRow> = {
  id: text('id'),
  kind: text('kind'),
  subject: text('name'),
  userId: integer('user_id'),
  username: text('username'),
  role: text<Role>('role'),
  state: text('state'),
  status: text('status'),
  error: text('error'),
  errorName: optional(text('error_name')),
  totalBytes: integer('total_bytes'),
  doneBytes: integer('done_bytes'),
  phase: optional(json('phase')),
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
  errorName: optional(text('error_name')),
}

const requestColumns: Columns<TaskRequestRow> = {
  id: integer('id'),
  taskId: text('task_id'),
  action: text<TaskAction>('action'),
}

/** Rows in one statement: databases limit the number of values. */
const batchSize = 100

export class TasksTable {
  /** `owner`: the id of this node. */
  constructor(
    private readonly database: Database,
    private readonly owner: string,
  ) {}

  all(which: Partial<Pick<TaskRow, 'kind' | 'userId'>> = {}): Promise<TaskRow[]> {
    return this.#tasks(writeRow(columns, which))
  }

  owned(): Promise<TaskRow[]> {
    return this.#tasks({ owner: this.owner })
  }

  async get(id: string): Promise<TaskRow | undefined> {
    return (await this.#tasks({ id }))[0]
  }

  async unfinished(): Promise<UnfinishedTasks[]> {
    const rows = await this.database.read((query) =>
      query<StoredRow>('tasks')
        .whereNull('ended')
        .groupBy('user_id')
        .select<StoredRow[]>('user_id', query.raw('count(*) as count, sum(length(name) + length(plan)) as size')),
    )
    return rows.map((row) => ({ userId: Number(row.user_id), count: Number(row.count), size: Number(row.size) }))
  }

  async endOfOlder(count: number): Promise<Date | undefined> {
    const row = await this.database.read((query) =>
      query<StoredRow>('tasks').whereNotNull('ended').select('ended').orderBy('ended', 'desc').offset(count).first(),
    )
    return row && columns.ended.read(row.ended)
  }

  async insert(row: TaskRow): Promise<void> {
    const stored = { ...writeRow(columns, row), owner: this.owner }
    await this.database.run((query) => query('tasks').insert(stored))
  }

  async update(row: TaskRow): Promise<boolean> {
    const stored = writeRow(columns, row)
    const changed = await this.database.run((query) => query('tasks').where(this.#own(row.id)).update(stored))
    return changed > 0
  }

  async setProgress({ id, ...progress }: Pick<TaskRow, 'id' | 'totalBytes' | 'doneBytes' | 'phase'>): Promise<void> {
    const stored = writeRow(columns, progress)
    // The end of the task may be stored already.
    const running = { ...this.#own(id), ...writeRow(columns, { state: 'running' }) }
    await this.database.run((query) => query('tasks').where(running).update(stored))
  }

  async delete(ids: readonly string[]): Promise<number> {
    if (ids.length === 0) return 0
    return this.database.transaction(async (query) => {
      let deleted = 0
      for (let at = 0; at < ids.length; at += batchSize) {
        const batch = ids.slice(at, at + batchSize)
        deleted += await query('tasks').where({ owner: this.owner }).whereIn('id', batch).delete()
      }
      return deleted
    })
  }

  async putItems(rows: readonly TaskItemRow[]): Promise<ReadonlySet<string>> {
    const ids = new Set(rows.map(({ taskId }) => taskId))
    if (rows.length === 0) return ids
    const stored = await this.database.transaction(async (query) => {
      const tasks = await this.#lockOwned(query, ids)
      const items = rows.filter(({ taskId }) => tasks.has(taskId)).map((row) => writeRow(itemColumns, itemOf(row)))
      // An item that was verified remains verified if a later step fails, for example the removal of its source.
      for (const failed of [false, true]) {
        const matching = items.filter(({ state }) => (state === 'failed') === failed)
        for (let at = 0; at < matching.length; at += batchSize) {
          const inserted = query('task_items')
            .insert(matching.slice(at, at + batchSize))
            .onConflict(['task_id', 'parent', 'name'])
          await (failed ? inserted.merge(['error', 'error_name']) : inserted.merge())
        }
      }
      return tasks
    })
    return new Set([...ids].filter((id) => !stored.has(id)))
  }

  itemsIn(taskId: string, folder: Path): Promise<TaskItemRow[]> {
    return this.#items({ task_id: taskId, parent: folder })
  }

  async item(taskId: string, at: Path): Promise<TaskItemRow | undefined> {
    const { parent, name } = splitPath(at)
    return (await this.#items({ task_id: taskId, parent, name }))[0]
  }

  async failed(taskId: string): Promise<TaskItemRow[]> {
    return this.#items({ task_id: taskId }, { onlyFailed: true })
  }

  async deleteItem(taskId: string, at: Path): Promise<void> {
    await this.database.run((query) => this.#ownItems(query, taskId).where(splitPath(at)).delete())
  }

  async deleteItems(taskId: string): Promise<void> {
    await this.database.run((query) => this.#ownItems(query, taskId).delete())
  }

  async clearFailures(taskId: string): Promise<void> {
    await this.database.transaction(async (query) => {
      await this.#ownItems(query, taskId).where({ state: 'failed' }).delete()
      await this.#ownItems(query, taskId).whereNot({ error: '' }).update({ error: '', error_name: null })
    })
  }

  async request(taskIds: readonly string[], action: TaskAction): Promise<void> {
    for (let at = 0; at < taskIds.length; at += batchSize) {
      const batch = taskIds.slice(at, at + batchSize)
      await this.database.run((query) =>
        query.into(query.raw('?? (??, ??)', ['task_requests', 'task_id', 'action'])).insert(
          query('tasks')
            .whereIn('id', batch)
            .select('id', query.raw('cast(? as text)', [action])),
        ),
      )
    }
  }

  async requests(): Promise<TaskRequestRow[]> {
    const rows = await this.database.read((query) =>
      query<StoredRow>('task_requests')
        .whereIn('task_id', query('tasks').where({ owner: this.owner }).select('id'))
        .select()
        .orderBy('id'),
    )
    return rows.map((row) => readRow(requestColumns, row))
  }

  async hasRequests(taskIds: readonly string[], action: TaskAction): Promise<boolean> {
    const found = await this.database.read((query) =>
      query<StoredRow>('task_requests').where({ action }).whereIn('task_id', taskIds).first(),
    )
    return found !== undefined
  }

  async deleteRequest(id: number): Promise<void> {
    await this.database.run((query) => query('task_requests').where({ id }).delete())
  }

  #own(id: string) {
    return { id, owner: this.owner }
  }

  #ownItems(query: Knex, taskId: string) {
    return query('task_items').whereIn('task_id', query('tasks').where(this.#own(taskId)).select('id'))
  }

  /**
   * The ids of the tasks that this node owns, which no other node can take over before the end of the transaction.
   * Reads by an update, because a transaction must write first (see `Database.transaction`).
   */
  async #lockOwned(query: Knex, ids: ReadonlySet<string>): Promise<ReadonlySet<string>> {
    const found = new Set<string>()
    for (const id of ids) {
      if ((await query('tasks').where(this.#own(id)).update({ id })) > 0) found.add(id)
    }
    return found
  }

  async #tasks(which: Readonly<Record<string, unknown>>): Promise<TaskRow[]> {
    const stored = await this.database.read((query) =>
      query<StoredRow>('tasks').where(which).select().orderBy(['created', 'id']),
    )
    return stored.map((row) => readRow(columns, row))
  }

  async #items(which: Readonly<Record<string, string>>, { onlyFailed = false } = {}): Promise<TaskItemRow[]> {
    const stored = await this.database.read((query) => {
      const items = query<StoredRow>('task_items').where(which).select().orderBy(['parent', 'name'])
      return onlyFailed ? items.whereNot({ error: '' }) : items
    })
    return stored.map((row) => {
      const { parent, name, ...item } = readRow(itemColumns, row)
      return { ...item, path: parent === '' ? root : childOf(parent, name) }
    })
  }
}

function itemOf({ path: at, ...row }: TaskItemRow): StoredItem {
  return { ...row, ...splitPath(at) }
}

function splitPath(at: Path): Pick<StoredItem, 'parent' | 'name'> {
  return at === root ? { parent: '', name: '' } : { parent: parentOf(at), name: nameOf(at) }
}
