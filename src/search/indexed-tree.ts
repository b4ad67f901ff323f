/** The part of the whole tree that is to be in the index, as its storages have it. Nothing is judged here. */
import type { Entry } from '../driver.js'
import { isGatewayError, NoStorageError } from '../errors.js'
import type { Log } from '../log.js'
import { visiblePath, type Mounts, type Place } from '../mounts.js'
import { childOf, cleanPath, isWithin, parentOf, reservedPrefix, root, segmentsOf, type Path } from '../path.js'
import type { Settings } from '../settings.js'
import type { IndexedName } from '../store/search/names.js'
import { WholeTree } from '../whole-tree.js'

export class IndexedTree {
  readonly #tree: WholeTree
  #ignoreText = ''
  #ignored: readonly Path[] = []

  constructor(
    private readonly mounts: Mounts,
    private readonly settings: Settings,
    log: Log,
  ) {
    this.#tree = new WholeTree(mounts, log)
  }

  /** Folders that an admin keeps out of the index, with everything below them. */
  ignored(): readonly Path[] {
    const text = this.settings.get('ignore_paths')
    if (text !== this.#ignoreText) {
      this.#ignoreText = text
      this.#ignored = text.split('\n').flatMap(ignoredPath)
    }
    return this.#ignored
  }

  /** How many segments the path of something in the index has at the most. */
  get depth(): number {
    return Math.max(0, this.settings.number('max_index_depth'))
  }

  /** Whether the settings and the options of its storage let it into the index; how deep it lies is another matter. */
  includes(path: Path): boolean {
    if (path.toLowerCase().includes(`/${reservedPrefix}`)) return false
    if (this.ignored().some((each) => isWithin(each, path))) return false
    return this.mounts.rowOf(path)?.disableIndex !== true
  }

  /** What stands there, a link as its target; undefined for nothing. Rejects where its storage does not tell. */
  async entry(path: Path, signal: AbortSignal): Promise<Entry | undefined> {
    try {
      // Of a link itself only the backend knows; of other things a kept listing might tell what another program changed.
      const entry = await this.#tree.entry(path, { signal, link: true })
      return entry.kind === 'link' ? await this.#tree.entry(path, { signal }) : entry
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'not_dir')) return undefined
      throw error
    }
  }

  /** Everything in the folder that is to be in the index, in pages. Rejects where the storage does not tell all of it. */
  async *pages(folder: Path, signal: AbortSignal): AsyncGenerator<readonly IndexedName[]> {
    const mounted = this.mounts.foldersIn(folder)
    if (mounted.length > 0) yield this.#named(folder, mounted)
    const place = this.#place(folder)
    if (!place) return
    for await (const page of place.storage.pages(place.inner, { signal, fresh: true })) yield this.#named(folder, page)
  }

  /** The same of entries that somebody has read already. */
  named(folder: Path, entries: readonly Entry[]): readonly IndexedName[] {
    return this.#named(folder, [...this.mounts.foldersIn(folder), ...entries])
  }

  #named(folder: Path, entries: readonly Entry[]): IndexedName[] {
    return entries.filter(({ name }) => this.includes(childOf(folder, name))).map((entry) => indexedName(folder, entry))
  }

  /** Undefined for a folder that exists only because something is mounted below it. */
  #place(folder: Path): Place | undefined {
    try {
      return this.mounts.find(folder)
    } catch (error) {
      if (error instanceof NoStorageError && this.mounts.isVirtual(folder)) return undefined
      throw error
    }
  }

  /** Whether the way to something mounted leads through the folder. */
  leadsToMounts(folder: Path): boolean {
    return this.mounts.hasMountsBelow(folder)
  }

  isMountPoint(path: Path): boolean {
    return this.mounts.isMountPoint(path)
  }

  /** The mount points at or below `path` that are in the index. */
  mountPoints(path: Path): readonly Path[] {
    const visible = this.mounts.rows().filter(({ disabled }) => !disabled)
    const points = new Set(visible.map(({ mountPath }) => visiblePath(mountPath)))
    return [...points].filter((point) => isWithin(path, point) && this.includes(point))
  }

  /** Where a walk of everything at and below `path` has to begin: `path`, and mounts that lie in what is left out. */
  beginnings(path: Path): readonly Path[] {
    const cutOff = this.mountPoints(path).filter((point) => point !== path && !this.#isReached(path, point))
    return this.includes(path) ? [path, ...cutOff] : cutOff
  }

  /** Whether every folder from `top` down to the one that holds `path` is in the index. */
  #isReached(top: Path, path: Path): boolean {
    for (let folder = parentOf(path); ; folder = parentOf(folder)) {
      if (!this.includes(folder)) return false
      if (folder === top || folder === root) return true
    }
  }
}

export function indexedName(parent: Path, { name, kind, isLink, size }: Entry): IndexedName {
  const folder = isLink === true ? 'linked folder' : 'folder'
  return { parent, name, kind: kind === 'folder' ? folder : 'file', size }
}

export function depthOf(path: Path): number {
  return segmentsOf(path).length
}

/** A line that is no path of the tree leaves nothing out. */
function ignoredPath(line: string): Path[] {
  if (line.trim() === '') return []
  try {
    return [cleanPath(line.trim())]
  } catch {
    return []
  }
}
