/** Creates a folder of the local disk with its missing parents. */
import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Creates the folder and those above it that are missing, with this mode. An existing folder is not an error. `path`:
 * absolute. Rejects with the system's error. `mkdir` with `recursive` never ends where a file system reports a parent
 * as missing and does not let it be created, as below /proc (Node.js: src/node_file.cc, MKDirpAsync).
 */
export async function makeFolders(path: string, mode: number): Promise<void> {
  try {
    await makeFolder(path, mode)
  } catch (error) {
    const parent = dirname(path)
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === path) throw error
    await makeFolders(parent, mode)
    await makeFolder(path, mode)
  }
}

async function makeFolder(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode })
  } catch (error) {
    const found = await stat(path).catch(() => undefined)
    if (found?.isDirectory() !== true) throw error
  }
}
