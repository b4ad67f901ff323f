/**
 * Checks the names that a driver returns. Entries whose names cannot be part of a path are omitted from every listing.
 */
import { LRUCache } from 'lru-cache'
import type { Entry } from '../contract/entry.js'
import { GatewayError } from '../base/errors.js'
import type { DriverLog } from '../base/log.js'
import { isListableName, type Path } from '../base/path.js'

/** Maximum folders of one storage for which a name is logged, and for which omitted names are recorded. */
const maxLoggedFolders = 1000
/** Maximum names of one folder that are reported with their count. */
const maxReportedNames = 10
/** Maximum characters of a logged name. */
const maxLoggedName = 255

/** The entries that a listing omitted. */
export interface SkippedNames {
  readonly count: number
  /** The first of their names, as returned by the driver. */
  readonly names: readonly string[]
}

export class ListableNames {
  readonly #logged = new Set<Path>()
  /** The names that were skipped in the most recently listed folders. */
  readonly #skipped = new LRUCache<Path, SkippedNames>({ maxSize: maxLoggedFolders, sizeCalculation: () => 1 })

  constructor(private readonly log: DriverLog) {}

  /**
   * Returns the pages without entries whose names `isListableName` rejects. The first such name of a folder is logged
   * once.
   */
  async *filterPages(folder: Path, pages: AsyncIterable<readonly Entry[]>): AsyncGenerator<readonly Entry[]> {
    let skipped: SkippedNames = { count: 0, names: [] }
    for await (const page of pages) {
      const rejected = page.filter(({ name }) => !isListableName(name)).map(({ name }) => name.slice(0, maxLoggedName))
      const [first] = rejected
      if (first !== undefined) {
        this.#log(folder, first)
        skipped = {
          count: skipped.count + rejected.length,
          names: [...skipped.names, ...rejected].slice(0, maxReportedNames),
        }
      }
      yield first === undefined ? page : page.filter(({ name }) => isListableName(name))
    }
    this.#record(folder, skipped)
  }

  /** The entries that the last complete listing of the folder omitted; undefined for none. */
  skippedIn(folder: Path): SkippedNames | undefined {
    return this.#skipped.get(folder)
  }

  #record(folder: Path, skipped: SkippedNames): void {
    if (skipped.count === 0) this.#skipped.delete(folder)
    else this.#skipped.set(folder, skipped)
  }

  /** Returns the entry. Throws `not_found` if a listing would omit it. */
  check(path: Path, entry: Entry): Entry {
    if (path === '/' || isListableName(entry.name)) return entry
    throw new GatewayError('not_found', { reason: 'the backend returned a name that cannot be part of a path' })
  }

  #log(folder: Path, name: string): void {
    if (this.#logged.has(folder) || this.#logged.size >= maxLoggedFolders) return
    this.#logged.add(folder)
    this.log.warn({ folder, name: name.slice(0, maxLoggedName) }, 'skipped entries with unrepresentable names')
  }
}
