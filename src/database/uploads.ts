/** Resumable uploads: the tokens by which they are resumed or discarded. */
import { GatewayError } from '../base/errors.js'
import type { Path } from '../base/path.js'
import { integer, optional, path, readRow, text, writeRow, type Columns, type StoredRow } from './columns.js'
import type { Database } from './database.js'
import type { UploadRow } from './tables/uploads.js'

const columns: Columns<UploadRow> = {
  id: integer('id'),
  taskId: optional(text('task_id')),
  path: path('path'),
  source: text('source'),
  storageId: integer('storage_id'),
  token: text('token'),
}

export class UploadsTable {
  /** `owner`: the id of this node. */
  constructor(
    private readonly database: Database,
    private readonly owner: string,
  ) {}

  async of(taskId: string, at: Path): Promise<UploadRow | undefined> {
    const row = await this.database.read((query) =>
      query<StoredRow>('uploads').where({ task_id: taskId, path: at }).first(),
    )
    return row && readRow(columns, row)
  }

  async insert(row: Omit<UploadRow, 'id'>): Promise<number> {
    const { owner } = this
    const stored = await this.database.transaction(async (query) => {
      const { taskId } = row
      // Another node must not find the path of its task taken.
      if (taskId !== undefined && (await query('tasks').where({ id: taskId, owner }).update({ id: taskId })) === 0) {
        throw new GatewayError('not_found', { reason: 'this node has no such task' })
      }
      return query('uploads')
        .insert({ ...writeRow(columns, row), owner })
        .returning<{ id: number }[]>('id')
    })
    return Number(stored[0]?.id)
  }

  async setToken(id: number, token: string): Promise<void> {
    await this.database.run((query) => query('uploads').where(this.#own(id)).update({ token }))
  }

  async orphan(id: number): Promise<void> {
    await this.database.run((query) => query('uploads').where(this.#own(id)).update({ task_id: null }))
  }

  async orphanAll(taskId: string): Promise<void> {
    const own = { task_id: taskId, owner: this.owner }
    await this.database.run((query) => query('uploads').where(own).update({ task_id: null }))
  }

  async orphaned(): Promise<UploadRow[]> {
    const rows = await this.database.read((query) =>
      query<StoredRow>('uploads').whereNull('task_id').andWhere({ owner: this.owner }).select().orderBy('id'),
    )
    return rows.map((row) => readRow(columns, row))
  }

  async tokens(): Promise<string[]> {
    const rows = await this.database.read((query) =>
      query<{ token: string }>('uploads').whereNotNull('task_id').select('token'),
    )
    return rows.map(({ token }) => token)
  }

  async tasksWithUploads(): Promise<string[]> {
    const rows = await this.database.read((query) =>
      query<{ task_id: string }>('uploads').whereNotNull('task_id').distinct('task_id'),
    )
    return rows.map(({ task_id: taskId }) => taskId)
  }

  async delete(id: number): Promise<void> {
    await this.database.run((query) => query('uploads').where(this.#own(id)).delete())
  }

  #own(id: number) {
    return { id, owner: this.owner }
  }
}
