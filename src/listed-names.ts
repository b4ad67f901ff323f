/** The one check of the names that a driver reports: what no path of the tree can hold is left out of every listing. */
import type { DriverLog, Entry } from './driver.js'
import { GatewayError } from './errors.js'
import { isListableName, type Path } from './path.js'

/** Folders of one storage whose names are logged, and of which it is known what was left out. */
const maxLoggedFolders = 1000
/** Names of one folder that are reported beside their count. */
const maxReportedNames = 10
/** Characters of a name that are logged. */
const maxLoggedName = 255

/** What a listing left out of a folder. */
export interface LeftOut {
  readonly count: number
  /** The first of them, as the driver reported them. */
  readonly names: readonly string[]
}

export class ListedNames {
  readonly #logged = new Set<Path>()
  /** Of the folders that were listed last. */
  readonly #leftOut = new Map<Path, LeftOut>()

  constructor(private readonly log: DriverLog) {}

  /** The pages without entries whose names `isListableName` refuses. The first such name of a folder is logged once. */
  async *pages(folder: Path, pages: AsyncIterable<readonly Entry[]>): AsyncGenerator<readonly Entry[]> {
    let leftOut: LeftOut = { count: 0, names: [] }
    for await (const page of pages) {
      const refused = page.filter(({ name }) => !isListableName(name)).map(({ name }) => name.slice(0, maxLoggedName))
      const [first] = refused
      if (first !== undefined) {
        this.#log(folder, first)
        leftOut = {
          count: leftOut.count + refused.length,
          names: [...leftOut.names, ...refused].slice(0, maxReportedNames),
        }
      }
      yield first === undefined ? page : page.filter(({ name }) => isListableName(name))
    }
    this.#remember(folder, leftOut)
  }

  /** What the last whole listing of the folder left out; undefined for nothing. */
  leftOut(folder: Path): LeftOut | undefined {
    return this.#leftOut.get(folder)
  }

  #remember(folder: Path, leftOut: LeftOut): void {
    this.#leftOut.delete(folder)
    if (leftOut.count === 0) return
    this.#leftOut.set(folder, leftOut)
    const [oldest] = this.#leftOut.keys()
    if (oldest !== undefined && this.#leftOut.size > maxLoggedFolders) this.#leftOut.delete(oldest)
  }

  /** The entry at `path`. Throws `not_found` where a listing would leave it out. */
  checked(path: Path, entry: Entry): Entry {
    if (path === '/' || isListableName(entry.name)) return entry
    throw new GatewayError('not_found', { reason: 'the backend reports a name that no path can hold' })
  }

  #log(folder: Path, name: string): void {
    if (this.#logged.has(folder) || this.#logged.size >= maxLoggedFolders) return
    this.#logged.add(folder)
    this.log.warn({ folder, name: name.slice(0, maxLoggedName) }, 'a listing leaves out names that no path can hold')
  }
}
