/**
 * The table of mounts: which storage a path of the tree belongs to, and which folders exist only because a storage is
 * mounted below them. No look-up asks a backend. `MountSupervisor` fills the table, and starts and closes the storages.
 */
import type { CallOptions } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import { settlesWithin, untilAborted } from '../base/cancellation.js'
import { GatewayError, isGatewayError, isWithoutStorage } from '../base/errors.js'
import {
  asPath,
  cleanPath,
  maxDepthOf,
  foldCase,
  isWithin,
  nameOf,
  parentOf,
  root,
  under,
  selfAndAncestors,
  within,
  type Path,
} from '../base/path.js'
import type { StorageRow } from '../database/tables/storages.js'
import { concernedPath } from '../storage/events.js'
import type { Storage } from '../storage/storage.js'

/** The state of a storage. 'starting': no attempt to start it has ended since it was mounted. */
export const mountStates = ['working', 'starting', 'failed', 'disabled'] as const
type MountState = (typeof mountStates)[number]

/**
 * How the state is stored in a row, for the admin; `workingStatus` adds warnings. Any other text is why it did not
 * start, or why its backend does not answer. 'removing': a command asks the daemon to delete it.
 */
export const storedStatus = { working: 'work', starting: '', disabled: 'disabled', removing: 'removing' } as const

/** The text before the warnings of a working storage. */
const workingWithWarnings = `${storedStatus.working}, but `

/** The stored status of a working storage with these warnings. */
export function workingStatus(warnings: readonly string[]): string {
  return warnings.length === 0 ? storedStatus.working : workingWithWarnings + warnings.join('; ')
}

/** The state that is stored in a row. For a process that does not run the storages itself. */
export function storedStateOf({ status }: Pick<StorageRow, 'status'>): MountState {
  if (status.startsWith(workingWithWarnings)) return 'working'
  return mountStates.find((state) => state !== 'failed' && storedStatus[state] === status) ?? 'failed'
}

/** A path of the tree that a driver shows in its own storage. */
export interface ShownPath {
  readonly path: Path
  /** As given to `DriverEnv.tree`. */
  readonly shownAt: (member: Path) => readonly Path[]
}

/** A configured storage and its state. The state changes while the mount is in the table. */
export interface Mount {
  readonly row: StorageRow
  /** The path of the tree where the storage appears: `visiblePath` of the row's mount path. */
  readonly mountPoint: Path
  /** Undefined while the storage does not run. */
  readonly storage: Storage | undefined
  /** Whether the backend of a running storage did not answer when it was asked last. */
  readonly isGone?: boolean
  /** The paths of the tree that its driver shows, if it is based on other storages. */
  readonly shows: readonly ShownPath[]
  /** Resolves when the first attempt to start the storage has ended. Undefined from then on, or if it is disabled. */
  readonly starting: Promise<void> | undefined
  /** The reason for which the storage does not run, in words for all users. The row's status is for the admin. */
  readonly reason: string
}

/** The location of a path of the tree. */
export interface MountedPath {
  readonly storage: Storage
  /** The path within the storage. */
  readonly inner: Path
}

/** Milliseconds that a request waits for a storage that is being started. */
const startPatience = 5000

export class Mounts {
  /** All mounts, including disabled ones, by storage id. */
  #mounts: ReadonlyMap<number, Mount> = new Map()
  /** Mounts that are not disabled. Several mounts of one mount point serve requests in turn. */
  #byMountPoint: ReadonlyMap<Path, readonly Mount[]> = new Map()
  /** Number of segments of the deepest mount point. */
  #deepest = 0
  /** For each folder above a mount point, the entries that lead to mount points. */
  #ancestors: ReadonlyMap<Path, ReadonlyMap<string, Entry>> = new Map()
  /** Number of the last turn, by mount point. */
  readonly #turns = new Map<Path, number>()

  /** Replaces the whole table. */
  replace(mounts: Iterable<Mount>): void {
    const byMountPoint = new Map<Path, Mount[]>()
    this.#mounts = new Map([...mounts].map((mount) => [mount.row.id, mount]))
    for (const mount of this.#mounts.values()) {
      if (mount.row.disabled) continue
      byMountPoint.set(mount.mountPoint, [...(byMountPoint.get(mount.mountPoint) ?? []), mount])
    }
    this.#byMountPoint = byMountPoint
    this.#deepest = maxDepthOf(byMountPoint.keys())
    this.#ancestors = ancestorsOf([...byMountPoint.values()].flat())
  }

  // Storages

  /** The rows of all storages, with their current status, sorted by order, then mount path. */
  rows(): readonly StorageRow[] {
    return [...this.#mounts.values()]
      .map(({ row }) => row)
      .sort((one, other) => one.order - other.order || compare(one.mountPath, other.mountPath))
  }

  /** The states of all storages. */
  states(): readonly MountState[] {
    return [...this.#mounts.values()].map(stateOf)
  }

  /** Undefined if the storage does not run. */
  storageOf(id: number): Storage | undefined {
    return this.#mounts.get(id)?.storage
  }

  /** The row of the storage that `path` belongs to, even if it does not run. */
  rowOf(path: Path): StorageRow | undefined {
    return this.#mountsOver(path)[0]?.row
  }

  /** Whether `path` would belong to another storage if that storage were not disabled. */
  isDisabled(path: Path): boolean {
    const current = this.mountPointOf(path)
    const isNearer = (point: Path) => current === undefined || (point !== current && isWithin(current, point))
    return [...this.#mounts.values()].some(
      ({ row, mountPoint }) => row.disabled && isWithin(mountPoint, path) && isNearer(mountPoint),
    )
  }

  // Paths

  /**
   * The location of `path`. If several storages share the mount point: `preferred` if it is one of them, otherwise the
   * next running one. Throws `not_found` if `path` belongs to no storage, and `unavailable` if the storage does not
   * run.
   */
  find(path: Path, preferred?: Storage): MountedPath {
    const mount = this.#choose(this.#mountsOver(path), preferred)
    if (!mount) {
      const detail = this.#byMountPoint.size === 0 ? 'nothing_mounted' : 'no_storage'
      throw new GatewayError('not_found', { detail, path })
    }
    if (!mount.storage) {
      throw mount.starting
        ? new GatewayError('unavailable', { detail: 'storage_starting' })
        : new GatewayError('unavailable', { detail: 'storage_failed', subject: mount.mountPoint, reason: mount.reason })
    }
    return { storage: mount.storage, inner: within(mount.mountPoint, path) ?? root }
  }

  /** Finds the storage of a path, as `find` does; undefined if no storage runs there. */
  findIfRunning(path: Path, preferred?: Storage): MountedPath | undefined {
    try {
      return this.find(path, preferred)
    } catch (error) {
      if (isWithoutStorage(error) || isGatewayError(error, 'unavailable')) return undefined
      throw error
    }
  }

  #choose(mounts: readonly Mount[], preferred: Storage | undefined): Mount | undefined {
    const [first, second] = mounts
    if (!first || !second) return first
    const running = mounts.filter(({ storage }) => storage)
    const match = running.find(({ storage }) => storage === preferred)
    if (match) return match
    const candidates = running.length > 0 ? running : mounts
    const turn = (this.#turns.get(first.mountPoint) ?? -1) + 1
    if (candidates.length > 1) this.#turns.set(first.mountPoint, turn)
    return candidates[turn % candidates.length]
  }

  /** The mount point that `path` belongs to: the nearest one at or above it. */
  mountPointOf(path: Path): Path | undefined {
    return this.#mountsOver(path)[0]?.mountPoint
  }

  /** The running storages of a mount point. */
  storagesAt(mountPoint: Path): readonly Storage[] {
    return (this.#byMountPoint.get(mountPoint) ?? []).flatMap(({ storage }) => storage ?? [])
  }

  /** The running storage that `path` belongs to; undefined if there is none, or more than one. */
  onlyStorageOf(path: Path): Storage | undefined {
    let only: Storage | undefined
    for (const { storage } of this.#mountsOver(path)) {
      if (storage && only) return undefined
      only ??= storage
    }
    return only
  }

  /**
   * The first attempt to start the storage that `path` belongs to. Undefined if a storage runs there, or none is being
   * started for the first time.
   */
  startOf(path: Path): Promise<void> | undefined {
    let starting: Promise<void> | undefined
    for (const mount of this.#mountsOver(path)) {
      if (mount.storage) return undefined
      starting ??= mount.starting
    }
    return starting
  }

  /**
   * If the storage that `path` belongs to is being started for the first time: resolves when it has started or failed,
   * or after some seconds. Rejects with `aborted`. Undefined if there is nothing to wait for.
   */
  whenStarted(path: Path, { signal }: CallOptions = {}): Promise<void> | undefined {
    return this.startOf(path) && this.#untilStarted(path, signal)
  }

  async #untilStarted(path: Path, signal: AbortSignal | undefined): Promise<void> {
    const deadline = Date.now() + startPatience
    // A storage that is replaced while it starts is started once more.
    for (let start = this.startOf(path); start; start = this.startOf(path)) {
      if (!(await untilAborted(settlesWithin(start, deadline - Date.now()), signal))) return
    }
  }

  /** Whether neither a start has to be waited for nor a backend asked before the spelling of `path` is known. */
  isAsNamed(path: Path): boolean {
    let isRunning = false
    let isStarting = false
    for (const { storage, starting } of this.#mountsOver(path)) {
      if (storage?.traits.caseSensitive === false) return false
      isRunning ||= storage !== undefined
      isStarting ||= starting !== undefined
    }
    return isRunning || !isStarting
  }

  /** The location of `path` if its storage ignores case or Unicode normalization; otherwise undefined. */
  caseInsensitivePath(path: Path): MountedPath | undefined {
    for (const { storage, mountPoint } of this.#mountsOver(path)) {
      if (storage?.traits.caseSensitive === false) return { storage, inner: within(mountPoint, path) ?? root }
    }
    return undefined
  }

  /** A key that all spellings of `path` share; undefined for a path with only one spelling. */
  caseFoldedPath(path: Path): Path | undefined {
    const location = this.caseInsensitivePath(path)
    return location && under(location.storage.mountPoint, foldCase(location.inner))
  }

  #mountsOver(path: Path): readonly Mount[] {
    if (this.#deepest === 0) return this.#byMountPoint.get(root) ?? []
    for (const at of selfAndAncestors(path, this.#deepest)) {
      const mounts = this.#byMountPoint.get(at)
      if (mounts) return mounts
    }
    return []
  }

  // Mount points, and the folders above them

  /** Whether `path` is a mount point, or a folder that exists only because a storage is mounted below it. */
  isMountFolder(path: Path): boolean {
    return this.#byMountPoint.has(path) || this.#ancestors.has(path)
  }

  isMountPoint(path: Path): boolean {
    return this.#byMountPoint.has(path)
  }

  /** Whether a storage is mounted below `path`. */
  isMountAncestor(path: Path): boolean {
    return this.#ancestors.has(path)
  }

  /**
   * Whether the storages at this mount point show a folder that contains the mount point itself, directly or by way of
   * other storages.
   */
  isCircular(mountPoint: Path): boolean {
    const reached = new Set<Path>()
    const next = [mountPoint]
    for (let at = next.pop(); at !== undefined; at = next.pop()) {
      for (const { path: shown } of (this.#byMountPoint.get(at) ?? []).flatMap(({ shows }) => shows)) {
        const over = this.mountPointOf(shown)
        const below = [...this.#byMountPoint.keys()].filter((point) => isWithin(shown, point))
        const found = [...(over === undefined ? [] : [over]), ...below].filter((point) => !reached.has(point))
        for (const point of found) reached.add(point)
        next.push(...found)
      }
    }
    return reached.has(mountPoint)
  }

  /**
   * The paths at which storages that are based on others may show what is at `path` of the tree, directly or by way of
   * other storages; of a storage that contains `path` as a whole, its mount point.
   */
  alsoShownAt(path: Path): readonly Path[] {
    const found = new Set<Path>()
    const next = [path]
    for (let at = next.pop(); at !== undefined; at = next.pop()) {
      for (const { mountPoint, shows } of [...this.#byMountPoint.values()].flat()) {
        for (const { path: shown, shownAt } of shows) {
          const member = concernedPath(shown, at)
          if (member === undefined || isWithin(mountPoint, at)) continue
          const paths = shownAt(member).map((inner) => under(mountPoint, inner))
          const added = paths.filter((each) => each !== path && !found.has(each))
          for (const each of added) found.add(each)
          // In a circle of storages it would be shown without end.
          if (!this.isCircular(mountPoint)) next.push(...added)
        }
      }
    }
    return [...found]
  }

  /**
   * The entries of `folder` that lead to mount points, each name once, sorted by the storages' order, then mount point.
   */
  foldersIn(folder: Path): readonly Entry[] {
    return [...(this.#ancestors.get(folder)?.values() ?? [])]
  }

  /** The entry of a mount point, or of a folder above one; otherwise undefined. The root always has an entry. */
  mountFolderEntry(path: Path): Entry | undefined {
    if (path === root) return mountFolder('', this.#byMountPoint.get(root)?.[0]?.row.modified ?? new Date(0))
    return this.#ancestors.get(parentOf(path))?.get(nameOf(path))
  }
}

function stateOf({ row, storage, isGone, starting }: Mount): MountState {
  if (row.disabled) return 'disabled'
  if (storage) return isGone === true ? 'failed' : 'working'
  return starting ? 'starting' : 'failed'
}

function compare(one: Path, other: Path): number {
  return one < other ? -1 : 1
}

function ancestorsOf(mounts: readonly Mount[]): Map<Path, Map<string, Entry>> {
  const ancestors = new Map<Path, Map<string, Entry>>()
  const sorted = [...mounts].sort(
    (one, other) => one.row.order - other.row.order || compare(one.mountPoint, other.mountPoint),
  )
  for (const { mountPoint, row } of sorted) {
    for (let at = mountPoint; at !== root; at = parentOf(at)) {
      const names = ancestors.get(parentOf(at)) ?? new Map<string, Entry>()
      ancestors.set(parentOf(at), names)
      if (!names.has(nameOf(at))) names.set(nameOf(at), mountFolder(nameOf(at), row.modified))
    }
  }
  return ancestors
}

function mountFolder(name: string, modified: Date): Entry {
  return { name, kind: 'folder', size: 0, modified }
}

/** `/a.balance1` appears as `/a`: several such storages serve requests in turn. */
export function visiblePath(mountPath: Path): Path {
  const at = mountPath.lastIndexOf('.balance')
  return at > mountPath.lastIndexOf('/') + 1 ? asPath(mountPath.slice(0, at)) : cleanPath(mountPath)
}
