/** What dead runs of the program have left in the staging folder. */
import { lstat, readdir, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { DriverLog, Instance } from '../../src/driver.js'
import { reservedName, type RootFolder } from './root-folder.js'
import type { RunFiles } from './run-files.js'

/** Milliseconds. */
const abandonedAfter = 24 * 3_600_000

export interface LeavingsParts {
  readonly root: RootFolder
  readonly files: RunFiles
  readonly instance: Instance
  readonly log: DriverLog
}

/** Removes all but what is `kept`, told as `<run>/<name>`. Rejects with nothing: what cannot be swept is told to the log. */
export async function sweepLeavings(parts: LeavingsParts, kept: ReadonlySet<string>): Promise<void> {
  const staging = join(parts.root.real, reservedName)
  for (const run of await readdir(staging).catch(() => [])) {
    try {
      await sweepIfDead(parts, run, kept)
    } catch (error) {
      parts.log.warn({ err: error }, 'what an earlier run staged could not be removed')
    }
  }
  await rmdir(staging).catch(() => undefined)
}

async function sweepIfDead(
  { root, files, instance }: LeavingsParts,
  run: string,
  kept: ReadonlySet<string>,
): Promise<void> {
  const host = join(root.real, reservedName, run)
  const folder = await root.openExactly(host)
  if (!folder) return
  let names: readonly string[]
  try {
    names = await readdir(folder.self)
    const times = await Promise.all(['.', ...names].map(async (name) => (await lstat(folder.at(name))).mtimeMs))
    // What another machine stages on a shared disk is left alone until nothing of it has changed for a day.
    if (!(instance.isOver(run) ?? Date.now() - Math.max(...times) > abandonedAfter)) return
  } finally {
    folder.close()
  }
  const left = names.filter((name) => !kept.has(`${run}/${name}`))
  for (const name of left) await files.remove({ run, name })
  if (names.length === 0) await rmdir(host)
}
