/** Folders of the server: what is shown of them, and what is swept out of them. */
import type { FileEntryWithStats, Stats } from 'ssh2'
import type { DriverEnv, Entry } from '../../src/driver.js'
import { isListableName, type Path } from '../../src/path.js'
import { isAbandoned, keptPaths, stagedBy } from '../lib/staged-names.js'
import { Sweep } from '../lib/sweep.js'
import type { Connection } from './connection.js'
import type { Connections } from './connections.js'
import { entryOf } from './entry.js'
import type { Places } from './places.js'
import type { Staging } from './staging.js'

/** Links of a folder that are looked behind at once. */
const lookupsAtOnce = 16
/** What dead runs have left in one folder: so much of it goes, if it is only that which keeps the folder from being removed. */
const sweptAtOnce = 1000

export interface FoldersOptions {
  readonly env: DriverEnv
  readonly places: Places
  readonly connections: Connections
  readonly staging: Staging
  /** Links that lead nowhere are entries too. */
  readonly showsDeadLinks: boolean
}

export class Folders {
  readonly #sweep: Sweep

  constructor(private readonly options: FoldersOptions) {
    this.#sweep = new Sweep(async (host) => {
      if (await this.#isKept(host)) return
      await options.connections.use((on) => on.unlink(host))
    })
  }

  /** Whether somebody may go on with this staged file. */
  async #isKept(host: string): Promise<boolean> {
    const { env, places } = this.options
    const kept = keptPaths(await env.uploads())
    return [...kept].some((path) => places.host(path) === host)
  }

  /** What is shown of these names of a folder. */
  async entries(on: Connection, folder: Path, names: readonly FileEntryWithStats[]): Promise<Entry[]> {
    const { places, showsDeadLinks } = this.options
    const known = names.filter(({ filename }) => this.#isShown(filename, folder))
    const entries: Entry[] = []
    for (let at = 0; at < known.length; at += lookupsAtOnce) {
      const some = known.slice(at, at + lookupsAtOnce).map(async ({ filename, attrs }) => {
        const stats: Stats = attrs
        // The core leaves out what it cannot name: nothing is asked of the server by such a name.
        if (!stats.isSymbolicLink() || !isListableName(filename)) return entryOf(filename, stats)
        const entry = await places.target(on, places.within(folder, filename), filename, stats)
        return entry.kind === 'link' && !showsDeadLinks ? undefined : entry
      })
      for (const entry of await Promise.all(some)) if (entry) entries.push(entry)
    }
    return entries
  }

  #isShown(name: string, folder: Path): boolean {
    const { env, places } = this.options
    if (name === '.' || name === '..') return false
    if (stagedBy(name) === undefined) return true
    if (isAbandoned(name, env.instance)) this.#sweep.soon(places.within(folder, name))
    return false
  }

  /** Removes what runs have left in a folder that is to go, also what somebody might go on with. Resolves to whether nothing else is in it. */
  async sweep(on: Connection, folder: Path): Promise<boolean> {
    const { env, places, staging } = this.options
    const handle = await on.openFolder(places.host(folder))
    const left: string[] = []
    try {
      for (let names = await on.readFolder(handle); names; names = await on.readFolder(handle)) {
        for (const { filename } of names) {
          const isLeft = isAbandoned(filename, env.instance) || staging.isLeft(places.within(folder, filename))
          if (isLeft) left.push(filename)
          else if (filename !== '.' && filename !== '..') return false
        }
        if (left.length >= sweptAtOnce) break
      }
    } finally {
      await on.closeHandle(handle).catch(() => undefined)
    }
    for (const name of left) await on.unlink(places.within(folder, name)).catch(() => undefined)
    return true
  }
}
