/** The database of the configuration, with what the first run makes in it: a storage and the accounts. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { bootstrapAccounts, type FirstAdmin } from '../accounts/bootstrap.js'
import { root } from '../base/path.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import type { ProcessChannel } from '../database/engine.js'
import { newStorage } from '../database/new-storage.js'
import { openStore } from '../database/store.js'
import type { Store } from '../database/tables.js'
import { backupBeforeUpgrade } from '../installation/backup.js'
import { storeLocation, type Config } from '../installation/config.js'
import { firstStorageFolder } from '../installation/data-folder.js'
import type { ThisInstance } from '../installation/instance.js'
import { insertStorage } from '../mounts/storage-admin.js'

interface DatabaseOptions {
  readonly config: Config
  readonly drivers: readonly AnyDriverType[]
  /** The admin account that the first run makes. */
  readonly admin: FirstAdmin
  /** The channel to the other processes that serve the same data folder. Absent: there are none. */
  readonly channel?: ProcessChannel
}

/**
 * Opens the database, and creates it, its first storage and accounts if they do not exist. `run`: the node that uses
 * it. Rejects as `Gateway.open`.
 */
export async function openDatabase(options: DatabaseOptions, run?: ThisInstance): Promise<Store> {
  const { config, channel } = options
  await mkdir(config.data, { recursive: true, mode: 0o700 })
  const store = await openStore(storeLocation(config), {
    ...(run && { node: run.name, runs: run.runs }),
    connections: config.store_connections,
    beforeUpgrade: backupBeforeUpgrade(config),
    channel,
  })
  try {
    await firstRun(store, options)
    return store
  } catch (error) {
    await store.close().catch(() => undefined)
    throw error
  }
}

/** Creates what is missing in the database of the configuration. Rejects as `Gateway.open`. */
export async function prepareDatabase(options: DatabaseOptions): Promise<void> {
  await (await openDatabase(options)).close()
}

/** Creates a storage and the accounts in a new data folder. */
async function firstRun(store: Store, { config, drivers, admin }: DatabaseOptions): Promise<void> {
  // The accounts are created last: their existence marks a completed first run.
  // Only the admin knows whether the nodes that share a database see the same folder.
  const isFirst = store.shared?.spansMachines !== true && (await store.users.all()).length === 0
  if (isFirst && (await store.storages.all()).length === 0) await createFirstStorage(store, config.data, drivers)
  await bootstrapAccounts(store, admin)
}

/** Creates a folder in the data folder `data`, and mounts it at `/`. */
export async function createFirstStorage(store: Store, data: string, drivers: readonly AnyDriverType[]): Promise<void> {
  await mkdir(join(data, firstStorageFolder), { recursive: true, mode: 0o700 })
  // Relative: the data folder may be moved.
  const addition = JSON.stringify({ root_folder_path: firstStorageFolder })
  await insertStorage(newStorage({ mountPath: root, driver: 'Local', addition }), { store, driverTypes: drivers })
}
