/** What storages of the driver Local have, as this process sees the disk. */
import { lstat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { isWithin, root, within, type Path } from '../base/path.js'
import type { Config } from '../installation/config.js'
import { parseAddition } from '../mounts/fields.js'
import type { StorageRow } from '../database/tables/storages.js'
import type { KnownKind } from '../shares/by-database.js'

/** The folder of a storage of the driver Local; undefined for another driver. */
export function localFolderOf(config: Pick<Config, 'data'>, { driver, addition }: StorageRow): string | undefined {
  return driver === 'Local' ? resolve(config.data, String(parseAddition(addition).root_folder_path)) : undefined
}

/** Returns the kind of the entry at a path of the whole tree; undefined where only the daemon can find it out. */
export async function kindOnDisk(
  config: Pick<Config, 'data'>,
  storages: readonly StorageRow[],
  path: Path,
): Promise<KnownKind> {
  const enabled = storages.filter(({ disabled }) => !disabled)
  if (path === root || enabled.some(({ mountPath }) => isWithin(path, mountPath))) return 'folder'
  const [nearest] = enabled
    .filter(({ mountPath }) => isWithin(mountPath, path))
    .sort((one, other) => other.mountPath.length - one.mountPath.length)
  if (nearest === undefined) return 'missing'
  const [folder, inner] = [localFolderOf(config, nearest), within(nearest.mountPath, path)]
  if (folder === undefined || inner === undefined) return undefined
  try {
    const found = await lstat(join(folder, inner))
    if (found.isFile()) return 'file'
    return found.isDirectory() ? 'folder' : undefined
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : undefined
  }
}
