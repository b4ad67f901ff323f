/** Removes staged files of runs that have ended. */
import { lstat, readdir, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Instance } from '../../src/contract/driver-env.js'
import type { DriverLog } from '../../src/contract/log.js'
import { reservedName, type RootFolder } from './root-folder.js'
import type { StagingRegistry } from './staging-registry.js'

/** Milliseconds without a change after which the files of a run on another machine count as orphaned. */
const orphanedAfter = 24 * 3_600_000

interface OrphanSweepOptions {
  readonly root: RootFolder
  readonly files: StagingRegistry
  readonly instance: Instance
  readonly log: DriverLog
}

/** Removes all orphans except `retained`, given as `<run>/<name>`. Never rejects: errors are logged. */
export async function sweepOrphans(options: OrphanSweepOptions, retained: ReadonlySet<string>): Promise<void> {
  const staging = join(options.root.real, reservedName)
  for (const run of await readdir(staging).catch(() => [])) {
    try {
      await sweepIfEnded(options, run, retained)
    } catch (error) {
      options.log.warn({ err: error }, 'cannot remove staged files of an earlier run')
    }
  }
  await rmdir(staging).catch(() => undefined)
}

async function sweepIfEnded(
  { root, files, instance }: OrphanSweepOptions,
  run: string,
  retained: ReadonlySet<string>,
): Promise<void> {
  const host = join(root.real, reservedName, run)
  const folder = await root.openRealPath(host)
  if (!folder) return
  let names: readonly string[]
  try {
    names = await readdir(folder.selfPath)
    const times = await Promise.all(['.', ...names].map(async (name) => (await lstat(folder.pathOf(name))).mtimeMs))
    // The state of a run on another machine is unknown. Its files are removed when none of them has changed for a day.
    if (!(instance.isOver(run) ?? Date.now() - Math.max(...times) > orphanedAfter)) return
  } finally {
    folder.close()
  }
  const orphans = names.filter((name) => !retained.has(`${run}/${name}`))
  for (const name of orphans) await files.remove({ run, name })
  if (names.length === 0) await rmdir(host)
}
