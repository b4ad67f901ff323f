/** The total size of a folder. Walks everything below it. */
import type { BigIntStats } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import { isReserved, type RootFolder } from './root-folder.js'
import { asyncSyscalls } from './syscalls.js'

/**
 * Sums the bytes of all regular files below `path`. Symlinks are neither followed nor counted. Rejects with `aborted`
 * when any of the signals aborts.
 */
export async function sizeOfTree(
  root: RootFolder,
  path: Path,
  signals: readonly (AbortSignal | undefined)[],
): Promise<number> {
  let total = 0
  const folders = [root.hostOf(path)]
  for (let host = folders.pop(); host !== undefined; host = folders.pop()) {
    if (signals.some((signal) => signal?.aborted === true)) throw new GatewayError('aborted')
    const folder = await root.openRealPath(host)
    if (!folder) continue
    try {
      for await (const { name } of await opendir(folder.selfPath)) {
        if (isReserved(name)) continue
        const stats: BigIntStats | undefined = await asyncSyscalls.lstat(folder.pathOf(name))
        if (stats?.isDirectory() === true) folders.push(join(host, name))
        else if (stats?.isFile() === true) total += Number(stats.size)
      }
    } finally {
      folder.close()
    }
  }
  return total
}
