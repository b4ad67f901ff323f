/** Backups of an installation: by an admin, and before an upgrade. */
import { readdir, readFile, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { makeFolders } from '../base/make-folders.js'
import { version } from '../base/version.js'
import type { BeforeUpgrade } from '../database/store.js'
import type { Manifest } from './backup-archive.js'
import type { Config } from './config.js'
import { backupFolder } from './data-folder.js'
import { writeAside } from './scratch-folder.js'

/** What no backup has, as a sentence for admins. */
export const leftOut = 'Not in a backup: the files of storages, and the search index.'

/** Backups before upgrades that are kept: the last one, and those of the newest other schemas. */
const keptUpgrades = 3

interface Source {
  /** Writes a snapshot of the database to a new file, and resolves to the version of its schema. */
  readonly snapshot: (file: string) => Promise<number>
  readonly configFile: string | undefined
}

/**
 * Writes a backup to `file`, with mode 0600. It gets its name when it is complete and on the medium. Beside it, space
 * for a copy of the database is needed meanwhile. Rejects as `writeAside`, and with the errors of `snapshot`.
 */
export async function writeBackup(
  file: string,
  { snapshot, configFile }: Source,
  options?: { readonly replace: boolean },
): Promise<Manifest> {
  // Loaded only when a backup is written: the daemon writes one only before an upgrade.
  const { archiveFormat, packArchive } = await import('./backup-archive.js')
  const write = async (archive: string, folder: string) => {
    const configuration = configFile === undefined ? undefined : await readFile(configFile)
    const database = join(folder, 'snapshot.db')
    const time = new Date().toISOString()
    const manifest = { format: archiveFormat, program: version, schema: await snapshot(database), time }
    await packArchive(archive, { manifest, configuration, database })
    return manifest
  }
  return writeAside(resolve(file), write, options)
}

/**
 * For `openStore`: writes a backup into the data folder before the schema is changed. There is one for each earlier
 * version of the schema, of which `keptUpgrades` are kept. None is written if another process has upgraded the database
 * meanwhile.
 */
export function backupBeforeUpgrade({ data, configFile }: Pick<Config, 'data' | 'configFile'>): BeforeUpgrade {
  return async (version, snapshot) => {
    const folder = join(data, backupFolder)
    await makeFolders(folder, 0o700)
    const ofThisVersion = async (file: string) => {
      if ((await snapshot(file)) === version) return version
      throw new GatewayError('precondition_failed', { reason: 'another process has upgraded the database' })
    }
    try {
      await writeBackup(join(folder, nameOf(version)), { snapshot: ofThisVersion, configFile }, { replace: true })
    } catch (error) {
      if (isGatewayError(error, 'precondition_failed')) return
      throw error
    }
    const others = (await readdir(folder)).flatMap((name) => {
      const other = Number(/^before-upgrade-from-schema-(\d{1,9})\.tar\.gz$/.exec(name)?.[1] ?? version)
      return other === version ? [] : [other]
    })
    const old = others.sort((one, other) => other - one).slice(keptUpgrades - 1)
    for (const other of old) await rm(join(folder, nameOf(other)), { force: true })
  }
}

function nameOf(version: number): string {
  return `before-upgrade-from-schema-${version}.tar.gz`
}
