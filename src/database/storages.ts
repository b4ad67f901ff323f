/** Storages, and the state that their drivers store. */
import type { Path } from '../base/path.js'
import { moveAttributes } from './attributes.js'
import { integer, path, text, time, bool, type Columns } from './columns.js'
import type { Database } from './database.js'
import { moveFolders } from './folders.js'
import { moveProperties } from './properties.js'
import { RowTable } from './row-table.js'
import type { JournalRow, StorageRow } from './tables/storages.js'

const columns: Columns<StorageRow> = {
  id: integer('id'),
  mountPath: path('mount_path'),
  order: integer('order'),
  driver: text('driver'),
  cacheExpiration: integer('cache_expiration'),
  customCachePolicies: text('custom_cache_policies'),
  status: text('status'),
  addition: text('addition'),
  remark: text('remark'),
  modified: time('modified'),
  disabled: bool('disabled'),
  disableIndex: bool('disable_index'),
  enableSign: bool('enable_sign'),
  orderBy: text<StorageRow['orderBy']>('order_by'),
  orderDirection: text<StorageRow['orderDirection']>('order_direction'),
  extractFolder: text<StorageRow['extractFolder']>('extract_folder'),
  webProxy: bool('web_proxy'),
  webdavPolicy: text<StorageRow['webdavPolicy']>('webdav_policy'),
  proxyRange: bool('proxy_range'),
  downProxyUrl: text('down_proxy_url'),
  disableProxySign: bool('disable_proxy_sign'),
}

export class StoragesTable extends RowTable<StorageRow> {
  constructor(database: Database) {
    super(database, 'storages', columns)
  }

  async updateAndMove(id: number, changes: Partial<Omit<StorageRow, 'id'>>, from: Path, to: Path): Promise<StorageRow> {
    return this.database.transaction(async (query) => {
      const row = await this.updateWith(query, id, changes)
      await moveProperties(query, from, to)
      await moveAttributes(query, from, to)
      await moveFolders(query, from, to)
      return row
    })
  }

  async deleteWithUploads(id: number): Promise<string[] | undefined> {
    return this.database.transaction(async (query) => {
      // Locks the row: an upload is inserted before this, or not at all.
      if ((await query('storages').where({ id }).update({ id })) === 0) return undefined
      const uploads = await query<{ storage_id: number; token: string }>('uploads')
        .where({ storage_id: id })
        .select('token')
      await query('storages').where({ id }).delete()
      return uploads.map(({ token }) => token)
    })
  }
}

interface StateColumns {
  storage_id: number
  key: string
  value: string
}

/** An entry of a journal has the key `<journal>@<node> <id>`. */
export class DriverStateTable {
  /** `node`: the id of this node. */
  constructor(
    private readonly database: Database,
    private readonly node: string,
  ) {}

  async get(storageId: number, key: string): Promise<string | undefined> {
    const row = await this.database.read((query) =>
      query<StateColumns>('driver_state').where({ storage_id: storageId, key }).first(),
    )
    return row?.value
  }

  /** Stores the value; undefined deletes it. `not_found` if the storage does not exist. */
  async set(storageId: number, key: string, value: string | undefined): Promise<void> {
    await this.database.run(async (query) => {
      const table = query<StateColumns>('driver_state')
      if (value === undefined) await table.where({ storage_id: storageId, key }).delete()
      else await table.insert({ storage_id: storageId, key, value }).onConflict(['storage_id', 'key']).merge()
    })
  }

  async setEntry(
    storageId: number,
    journal: string,
    { id, value }: Partial<JournalRow> & { id: string },
  ): Promise<void> {
    await this.set(storageId, keyOf(journal, this.node, id), value)
  }

  async entries(storageId: number, journal: string): Promise<JournalRow[]> {
    const all = await this.#entries(storageId, journal)
    return all.filter(({ node }) => node === this.node)
  }

  async takeOver(storageId: number, journal: string): Promise<JournalRow[]> {
    const found = await this.#entries(storageId, journal)
    // Read afterwards: a node has its row before it adds entries.
    const living: readonly string[] = await this.database.read((query) =>
      query<{ id: string; ended: unknown }>('nodes').whereNull('ended').pluck('id'),
    )
    const taken: JournalRow[] = []
    for (const { node, id, value } of found) {
      if (node === this.node || living.includes(node)) continue
      const changed = await this.database.run((query) =>
        query<StateColumns>('driver_state')
          .where({ storage_id: storageId, key: keyOf(journal, node, id) })
          .update({ key: keyOf(journal, this.node, id) }),
      )
      if (changed > 0) taken.push({ id, value })
    }
    return taken
  }

  async deleteAndAdd(storageId: number, key: string, rows: readonly JournalRow[]): Promise<void> {
    await this.database.transaction(async (query) => {
      const deleted = await query<StateColumns>('driver_state').where({ storage_id: storageId, key }).delete()
      if (deleted === 0 || rows.length === 0) return
      await query<StateColumns>('driver_state').insert(
        rows.map(({ id, value }) => ({ storage_id: storageId, key: keyOf(key, this.node, id), value })),
      )
    })
  }

  /** The entries of a journal, of all nodes, the oldest first. */
  async #entries(storageId: number, journal: string): Promise<(JournalRow & { readonly node: string })[]> {
    const prefix = `${journal}@`
    const rows = await this.database.read((query) =>
      query<StateColumns>('driver_state')
        .where({ storage_id: storageId })
        .andWhere('key', '>=', prefix)
        // `A` follows `@` in byte order.
        .andWhere('key', '<', `${journal}A`)
        .select(),
    )
    const entries = rows.map(({ key, value }) => {
      const [node = '', id = ''] = key.slice(prefix.length).split(' ')
      return { node, id, value }
    })
    return entries.sort((one, other) => (one.id < other.id ? -1 : 1))
  }
}

function keyOf(journal: string, node: string, id: string): string {
  return `${journal}@${node} ${id}`
}
