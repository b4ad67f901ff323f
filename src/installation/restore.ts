/** Restores an installation from a backup. */
import { access, constants, mkdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError, isGatewayError, toGatewayError } from '../base/errors.js'
import { copyDatabase, type CopyResult } from '../database/copy.js'
import { checkSnapshot } from '../database/snapshot.js'
import { openStore } from '../database/store.js'
import { unpackArchive, type Manifest } from './backup-archive.js'
import { storeLocation, type Config } from './config.js'
import { firstStorageFolder, lockDataFolder } from './data-folder.js'
import { inScratchFolder, publish } from './scratch-folder.js'

interface Restored {
  readonly manifest: Manifest
  readonly tables: readonly CopyResult[]
  /**
   * The path at which the configuration file of the backup was written; undefined if the backup has none, or the file
   * exists.
   */
  readonly configuration: string | undefined
}

/**
 * Restores a backup into the data folder and the database of this configuration, in one transaction: if it fails or is
 * killed, the database has no rows. The folder of the first storage is made if it is missing. Nothing is changed until
 * the whole backup was checked. Rejects with
 *
 * - `busy` if a daemon uses the data folder or the database,
 * - `exists` if the database has rows,
 * - `invalid` if the backup is damaged or none,
 * - `unsupported` if a newer program has written it.
 */
export async function restoreBackup(file: string, config: Pick<Config, 'data' | 'store'>): Promise<Restored> {
  await assertReadable(file)
  const release = await lockDataFolder(config.data)
  try {
    return await inScratchFolder(config.data, async (folder) => {
      const [manifest, database] = await checked(file, folder)
      await mkdir(join(config.data, firstStorageFolder), { recursive: true, mode: 0o700 })
      // Before the database: a restore that is killed between them can be repeated.
      const configuration = await placeConfiguration(folder, config.data)
      try {
        return { manifest, configuration, tables: await copyDatabase(database, storeLocation(config)) }
      } catch (error) {
        if (configuration !== undefined) await rm(configuration)
        throw error
      }
    })
  } finally {
    await release()
  }
}

/** Rejects before the data folder is created. */
async function assertReadable(file: string): Promise<void> {
  try {
    await access(file, constants.R_OK)
    if (!(await stat(file)).isFile()) throw new Error('it is no file')
  } catch (error) {
    const reason = `the backup ${file} cannot be read: ${(error as Error).message}`
    throw new GatewayError('invalid', { reason, cause: error })
  }
}

async function checked(file: string, folder: string): Promise<readonly [manifest: Manifest, database: string]> {
  const database = join(folder, 'data.db')
  try {
    const manifest = await unpackArchive(file, folder)
    await checkSnapshot(database)
    await assertUsable(database)
    return [manifest, database]
  } catch (error) {
    if (!isGatewayError(error)) throw error
    const { code, reason } = error
    throw new GatewayError(code, { reason: `the backup ${file} cannot be restored: ${reason}`, cause: error })
  }
}

/** Rejects with `invalid` if the daemon could not start with these rows. Upgrades the copy. */
async function assertUsable(database: string): Promise<void> {
  const store = await openStore(database)
  try {
    const { users, storages, rules, settings } = store
    for (const [what, table] of Object.entries({ users, storages, 'folder rules': rules, settings })) {
      await table.all().catch((error: unknown) => {
        throw new GatewayError('invalid', {
          reason: `its ${what} cannot be read: ${toGatewayError(error).message}`,
          cause: error,
        })
      })
    }
  } finally {
    await store.close()
  }
}

async function placeConfiguration(folder: string, data: string): Promise<string | undefined> {
  const [file, target] = [join(folder, 'tidegate.json'), join(data, 'tidegate.json')]
  try {
    await publish(file, target)
    return target
  } catch (error) {
    if (isGatewayError(error, 'exists') || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
