/**
 * The part of the whole tree that belongs in the index, as the storages report it. Permissions are not checked here.
 */
import type { Entry } from '../contract/entry.js'
import { isGatewayError, isWithoutStorage } from '../base/errors.js'
import { childOf, cleanPath, isWithin, parentOf, reservedPrefix, root, segmentsOf, type Path } from '../base/path.js'
import type { Settings } from '../settings/settings.js'
import type { MountedTree } from '../mounts/mounted-tree.js'
import { visiblePath, type Mounts, type MountedPath } from '../mounts/mounts.js'
import type { IndexedName } from '../database/search/names.js'

export class IndexedTree {
  #ignoreText = ''
  #ignored: readonly Path[] = []

  constructor(
    private readonly mounts: Mounts,
    private readonly tree: MountedTree,
    private readonly settings: Settings,
  ) {}

  /**
   * Folders that an admin has excluded from the index, with everything below them. The same array until the setting
   * changes.
   */
  ignoredPaths(): readonly Path[] {
    const text = this.settings.get('ignore_paths')
    if (text !== this.#ignoreText) {
      this.#ignoreText = text
      this.#ignored = text.split('\n').flatMap(ignoredPath)
    }
    return this.#ignored
  }

  /** Maximum number of path segments of an indexed entry. */
  get depth(): number {
    return Math.max(0, this.settings.number('max_index_depth'))
  }

  /** Whether the settings and the options of its storage include the path, regardless of its depth. */
  includes(path: Path): boolean {
    if (path.toLowerCase().includes(`/${reservedPrefix}`)) return false
    if (this.ignoredPaths().some((each) => isWithin(each, path))) return false
    return this.mounts.rowOf(path)?.disableIndex !== true
  }

  /** The entry of a path, for a symlink that of its target; undefined if none exists. Rejects if the storage fails. */
  async entry(path: Path, signal: AbortSignal): Promise<Entry | undefined> {
    try {
      // With `ofSymlink`, the backend is queried, not a cached listing, which may be outdated.
      const entry = await this.tree.entry(path, { signal, ofSymlink: true })
      return entry.kind === 'symlink' ? await this.tree.entry(path, { signal }) : entry
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'not_folder')) return undefined
      throw error
    }
  }

  /** All entries of the folder that belong in the index, in pages. Rejects if the listing is incomplete. */
  async *pages(folder: Path, signal: AbortSignal): AsyncGenerator<readonly IndexedName[]> {
    const mounted = this.mounts.foldersIn(folder)
    if (mounted.length > 0) yield this.#named(folder, mounted)
    const location = this.#locate(folder)
    if (!location) return
    const pages = location.storage.pages(location.inner, { signal, refresh: true })
    for await (const page of pages) yield this.#named(folder, page)
  }

  /** Like `pages`, for a complete listing that was already read. */
  named(folder: Path, entries: readonly Entry[]): readonly IndexedName[] {
    return this.#named(folder, [...this.mounts.foldersIn(folder), ...entries])
  }

  #named(folder: Path, entries: readonly Entry[]): IndexedName[] {
    return entries.filter(({ name }) => this.includes(childOf(folder, name))).map((entry) => indexedName(folder, entry))
  }

  /** Undefined for a folder that exists only because storages are mounted below it. */
  #locate(folder: Path): MountedPath | undefined {
    try {
      return this.mounts.find(folder)
    } catch (error) {
      if (isWithoutStorage(error) && this.mounts.isMountFolder(folder)) return undefined
      throw error
    }
  }

  /** Whether a storage is mounted below the folder. */
  isMountAncestor(folder: Path): boolean {
    return this.mounts.isMountAncestor(folder)
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

  /**
   * The start paths of a walk of `path`: `path` itself, and mount points below it whose ancestors are excluded from the
   * index.
   */
  walkRoots(path: Path): readonly Path[] {
    const unreachable = this.mountPoints(path).filter((point) => point !== path && !this.#isReachable(path, point))
    return this.includes(path) ? [path, ...unreachable] : unreachable
  }

  /** Whether every folder from `top` down to the parent of `path` is included. */
  #isReachable(top: Path, path: Path): boolean {
    for (let folder = parentOf(path); ; folder = parentOf(folder)) {
      if (!this.includes(folder)) return false
      if (folder === top || folder === root) return true
    }
  }
}

export function indexedName(parent: Path, { name, kind, isSymlink, size }: Entry): IndexedName {
  const folder = isSymlink === true ? 'symlink to folder' : 'folder'
  return { parent, name, kind: kind === 'folder' ? folder : 'file', size }
}

export function depthOf(path: Path): number {
  return segmentsOf(path).length
}

/** The path in a line of the setting; none for a line that is not a valid path. */
function ignoredPath(line: string): Path[] {
  if (line.trim() === '') return []
  try {
    return [cleanPath(line.trim())]
  } catch {
    return []
  }
}
