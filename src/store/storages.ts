/** Storages, and the state that their drivers store. */
import { integer, path, text, time, bool, type Columns } from './columns.js'
import type { Database } from './database.js'
import { RowTable } from './row-table.js'
import type { StorageRow } from './rows.js'

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
}

interface StateColumns {
  storage_id: number
  key: string
  value: string
}

export class DriverStateTable {
  constructor(private readonly database: Database) {}

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
}
