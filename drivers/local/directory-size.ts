/** What a folder holds, in bytes. Costs a look at everything below it. */
import type { BigIntStats } from 'node:fs'
import { opendir } from 'node:fs/promises'
import { join } from 'node:path'
import { GatewayError } from '../../src/errors.js'
import type { Path } from '../../src/path.js'
import { patientCalls } from './calls.js'
import { isReserved, type RootFolder } from './root-folder.js'

/** All files below `path`; links are not entered and count nothing. Stops with any of the signals. */
export async function sizeOfTree(
  root: RootFolder,
  path: Path,
  signals: readonly (AbortSignal | undefined)[],
): Promise<number> {
  let total = 0
  const folders = [root.hostOf(path)]
  for (let host = folders.pop(); host !== undefined; host = folders.pop()) {
    if (signals.some((signal) => signal?.aborted === true)) throw new GatewayError('aborted')
    const folder = await root.openExactly(host)
    if (!folder) continue
    try {
      for await (const { name } of await opendir(folder.self)) {
        if (isReserved(name)) continue
        const stats: BigIntStats | undefined = await patientCalls.lstat(folder.at(name))
        if (stats?.isDirectory() === true) folders.push(join(host, name))
        else if (stats?.isFile() === true) total += Number(stats.size)
      }
    } finally {
      folder.close()
    }
  }
  return total
}
