/** Backups of an installation: by an admin, and before an upgrade. */
import { readdir, readFile, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { makeFolders } from '../contract/make-folders.js'
import { version } from '../contract/version.js'
import type { BeforeUpgrade } from '../store/store.js'
import type { Manifest } from './backup-archive.js'
import type { Config } from './config.js'
import { backupFolder } from './data-folder.js'
import { writeAside } from './scratch-folder.js'

/** What no backup has, as a sentence for admins. */
export const leftOut = 'Not in a backup: the files of storages, and the search index.'

/** Backups before upgrades that are kept, of the newest schemas. */
const keptUpgrades = 3

interface Source {
  /** Writes a snapshot of the database to a new file, and resolves to the version of its schema. */
  readonly snapshot: (file: string) => Promise<number>
  readonly configFile: string | undefined
}

/**
 * Writes a backup to `file`, with mode 0600. It gets its name when it is complete and on the medium. Beside it, space for a copy of the database
 * is needed meanwhile. Rejects as `writeAside`, and with the errors of `snapshot`.
 */
export async function writeBackup(
  file: string,
  { snapshot, configFile }: Source,
  options?: { readonly replace: boolean },
): Promise<Manifest> {
  // A daemon that is not upgraded does not load it.
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
 * For `openStore`: writes a backup into the data folder before the schema is changed. There is one for each earlier version of the schema, and
 * those of the three newest are kept.
 */
export function backupBeforeUpgrade({ data, configFile }: Pick<Config, 'data' | 'configFile'>): BeforeUpgrade {
  return async (version, snapshot) => {
    const folder = join(data, backupFolder)
    await makeFolders(folder, 0o700)
    await writeBackup(join(folder, nameOf(version)), { snapshot, configFile }, { replace: true })
    const versions = (await readdir(folder)).flatMap((name) => {
      const version = Number(/^before-upgrade-from-schema-(\d{1,9})\.tar\.gz$/.exec(name)?.[1] ?? NaN)
      return Number.isNaN(version) ? [] : [version]
    })
    const old = versions.sort((one, other) => other - one).slice(keptUpgrades)
    for (const version of old) await rm(join(folder, nameOf(version)), { force: true })
  }
}

function nameOf(version: number): string {
  return `before-upgrade-from-schema-${version}.tar.gz`
}
