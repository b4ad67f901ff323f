/** Files of the database that only their owner can read. */
import { chmod, open, stat } from 'node:fs/promises'

/**
 * Creates the file with mode 0600, or removes the permissions of group and others from it. Must be called before SQLite
 * opens the file: the `-wal` and `-shm` files get the same mode. An existing file is not opened, because closing it
 * would release the POSIX locks that this process may hold on it (fcntl(2), sqlite.org/howtocorrupt.html §2.2).
 */
export async function ensurePrivate(file: string): Promise<void> {
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
