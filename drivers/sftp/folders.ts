/** Folders of the server: converts their names to entries, and removes orphaned staged files. */
import type { FileEntryWithStats, Stats } from 'ssh2'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry } from '../../src/contract/entry.js'
import { childOf, isListableName, type Path } from '../../src/base/path.js'
import { BackgroundDeleter } from '../lib/staged-files/background-deleter.js'
import { isOrphan, resumablePaths, stagingRun } from '../lib/staged-files/staged-names.js'
import type { ServerConnection } from './connection.js'
import type { ServerConnections } from './connections.js'
import { entryOf } from './entry.js'
import type { SftpLocations } from './locations.js'
import type { SftpStaging } from './staging.js'

/** Concurrent lookups of symlink targets in a folder. */
const parallelLookups = 16
/** Orphans in a folder after which the search for further ones stops. */
const maxOrphans = 1000

interface FoldersOptions {
  readonly env: DriverEnv
  readonly locations: SftpLocations
  readonly connections: ServerConnections
  readonly staging: SftpStaging
  /** Whether dangling symlinks are listed. */
  readonly showsDanglingSymlinks: boolean
}

export class Folders {
  readonly #deleter: BackgroundDeleter

  constructor(private readonly options: FoldersOptions) {
    this.#deleter = new BackgroundDeleter(async (host) => {
      if (await this.#isResumable(host)) return
      await options.connections.use((on) => on.unlink(host))
    })
  }

  /** Whether this staged file belongs to a resumable upload. */
  async #isResumable(host: string): Promise<boolean> {
    const { env, locations: places } = this.options
    const resumable = resumablePaths(await env.resumableUploads())
    return [...resumable].some((path) => places.serverPath(path) === host)
  }

  /** The entries for these names, with symlinks resolved. Removes abandoned staged files in the background. */
  async entries(on: ServerConnection, folder: Path, names: readonly FileEntryWithStats[]): Promise<Entry[]> {
    const { locations: places, showsDanglingSymlinks } = this.options
    const visible = names.filter(({ filename }) => this.#isVisible(filename, folder))
    const entries: Entry[] = []
    for (let start = 0; start < visible.length; start += parallelLookups) {
      const batch = visible.slice(start, start + parallelLookups).map(async ({ filename, attrs }) => {
        const stats: Stats = attrs
        // Unrepresentable names are never sent to the server. The core leaves their entries out.
        if (!stats.isSymbolicLink() || !isListableName(filename)) return entryOf(filename, stats)
        const entry = await places.target(on, places.serverPathIn(folder, filename), filename, stats)
        return entry.kind === 'symlink' && !showsDanglingSymlinks ? undefined : entry
      })
      for (const entry of await Promise.all(batch)) if (entry) entries.push(entry)
    }
    return entries
  }

  #isVisible(name: string, folder: Path): boolean {
    const { env, locations: places, staging } = this.options
    const { replacements } = staging
    if (name === '.' || name === '..') return false
    if (stagingRun(name) === undefined) return !isListableName(name) || !replacements.isBackup(childOf(folder, name))
    if (isOrphan(name, env.instance) && !replacements.isNeeded(childOf(folder, name)))
      this.#deleter.enqueue(places.serverPathIn(folder, name))
    return false
  }

  /**
   * Removes orphaned staged files from a folder that is about to be removed, including those of resumable uploads.
   * Resolves to false, without removing any, if the folder has other members.
   */
  async removeOrphans(on: ServerConnection, folder: Path): Promise<boolean> {
    const { env, locations: places, staging } = this.options
    const handle = await on.openFolder(places.serverPath(folder))
    const orphans: string[] = []
    try {
      for (let names = await on.readFolder(handle); names; names = await on.readFolder(handle)) {
        for (const { filename } of names) {
          const isLeftover =
            isOrphan(filename, env.instance) || staging.isReleased(places.serverPathIn(folder, filename))
          if (isLeftover) orphans.push(filename)
          else if (filename !== '.' && filename !== '..') return false
        }
        if (orphans.length >= maxOrphans) break
      }
    } finally {
      await on.closeHandle(handle).catch(() => undefined)
    }
    for (const name of orphans) await on.unlink(places.serverPathIn(folder, name)).catch(() => undefined)
    return true
  }
}
