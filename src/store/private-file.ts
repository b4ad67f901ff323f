import { chmod, open, stat } from 'node:fs/promises'

/**
 * Makes the file, or takes the rights of others away from it, before SQLite opens it: the `-wal` and `-shm` files beside it
 * get the rights that it has. One that is there is not opened for this, because closing it would drop the locks that
 * this process may hold on it already.
 */
export async function keepPrivate(file: string): Promise<void> {
  try {
    const handle = await open(file, 'ax', 0o600)
    await handle.close()
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  }
  for (const name of [file, `${file}-wal`, `${file}-shm`]) {
    try {
      if (((await stat(name)).mode & 0o077) !== 0) await chmod(name, 0o600)
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
    }
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
