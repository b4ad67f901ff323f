/** The table of storages: which one owns a path, the virtual folders between mounts, and their life. */
import { settlesWithin, sharedController } from '../contract/cancellation.js'
import type { LookupResult } from '../contract/capabilities.js'
import type { CallOptions, Driver } from '../contract/driver.js'
import type { DriverEnv, Egress, GatewayFolders, Instance } from '../contract/driver-env.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError, toGatewayError } from '../contract/errors.js'
import type { Log } from '../contract/log.js'
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
} from '../contract/path.js'
import type { StorageRow, Store } from '../store/rows.js'
import type { Bandwidth } from './bandwidth.js'
import type { Events } from './events.js'
import { mergeAddition, checkOptions, parseAddition } from './fields.js'
import { ListingBudget } from './listing-cache.js'
import type { Spool } from './spool.js'
import { StorageStart } from './storage-start.js'
import { Storage } from './storage.js'

/** What has to be put right on a storage before it is used, and after. */
export interface StorageRecovery {
  /** Completes or undoes what was interrupted on a storage that is about to be used. Resolves after some seconds in any case. */
  recover(storage: Storage): Promise<void>
  /** Discards uploads that no task will resume on a storage that now runs. Never rejects. */
  discardUnused(storage: Storage): Promise<void>
  /** Tokens of the uploads that a task may resume, of all storages. */
  tokens(): Promise<readonly string[]>
  /** Nothing is tried again from now on. */
  close(): void
}

export interface MountParts {
  readonly store: Store
  readonly events: Events
  readonly spool: Spool
  readonly bandwidth: Bandwidth
  readonly log: Log
  readonly driverTypes: readonly AnyDriverType[]
  readonly instance: Instance
  readonly own: GatewayFolders
  /** The view of a path of the tree for drivers that stand on others. */
  readonly tree: (path: Path) => Driver
  readonly egress: Egress
  readonly recovery: StorageRecovery
}

/** Where a path of the tree lives. */
export interface MountedPath {
  readonly storage: Storage
  /** As the storage sees it. */
  readonly inner: Path
}

interface Mount {
  row: StorageRow
  readonly visible: Path
  storage: Storage | undefined
  /** The first try to start it; it ends with that, or when the mount is taken away. */
  starting: StorageStart | undefined
  controller: AbortController
  retry: NodeJS.Timeout | undefined
  failures: number
  /** Why nothing can be asked of it now, in words for everybody; the row's status is for the admin. */
  reason: string
}

/** Milliseconds for which a request waits for a storage that is starting. */
const requestPatience = 5000

/** Seconds until a storage that could not start is tried again, by the number of failures. */
const retryAfter = [5, 15, 60, 300]

/** How long start-up waits for storages; slower ones go on by themselves. */
const startPatience = 1500

/** Milliseconds that the storages have to close when the program stops. */
const closeTimeout = 6000

export class Mounts {
  readonly #mounts = new Map<number, Mount>()
  /** Mounts by visible path; several take turns. */
  #visible = new Map<Path, Mount[]>()
  /** Segments of the longest of these. */
  #deepest = 0
  /** What mounts put into the folders that lead to them. */
  #leading = new Map<Path, Map<string, Entry>>()
  readonly #turns = new Map<Path, number>()
  readonly #listings = new ListingBudget()

  constructor(readonly parts: MountParts) {}

  /** Starts every storage that is not disabled, all at once; a broken one keeps its row and says why. */
  async start(): Promise<void> {
    const rows = await this.parts.store.storages.all()
    const starting = Promise.all(rows.map((row) => this.#begin(this.#attach(row))))
    await Promise.race([starting, new Promise((resolve) => setTimeout(resolve, startPatience).unref())])
  }

  /** Closes every storage. One that does not close in time is logged and left. */
  async stop(): Promise<void> {
    this.parts.recovery.close()
    const closing = new Set(this.#mounts.values())
    const closed = [...closing].map((mount) => this.remove(mount.row.id).finally(() => closing.delete(mount)))
    if (await settlesWithin(Promise.all(closed), closeTimeout)) return
    const storages = [...closing].map(({ row }) => row.mountPath)
    this.parts.log.warn({ storages }, 'storages did not close in time')
  }

  /**
   * Adds or replaces a storage by its row: at once, though the old one may take its time to close and the new one to start.
   * Rejects with what kept it from starting; its row stays mounted and says so.
   */
  async apply(row: StorageRow): Promise<void> {
    const old = this.#detach(row.id)
    const mount = this.#attach(row)
    await this.#end(old)
    await this.#begin(mount)
    // Where it was changed again meanwhile, the later change answers for what stands now.
    const changedAgain = this.#mounts.get(row.id) !== mount && this.#mounts.has(row.id)
    if (row.disabled || mount.storage || changedAgain) return
    throw new GatewayError('unavailable', { reason: mount.row.status || 'the storage was removed meanwhile' })
  }

  /** The path is free at once. Resolves to what went wrong when the storage closed. */
  async remove(id: number): Promise<GatewayError | undefined> {
    return this.#end(this.#detach(id))
  }

  #attach(row: StorageRow): Mount {
    const mount: Mount = {
      row,
      visible: visiblePath(row.mountPath),
      storage: undefined,
      starting: row.disabled ? undefined : new StorageStart(),
      controller: sharedController(),
      retry: undefined,
      failures: 0,
      reason: 'it is disabled',
    }
    this.#mounts.set(row.id, mount)
    this.#arrange()
    return mount
  }

  #detach(id: number): Mount | undefined {
    const mount = this.#mounts.get(id)
    if (!mount) return undefined
    this.#mounts.delete(id)
    this.#arrange()
    clearTimeout(mount.retry)
    mount.controller.abort()
    endStarting(mount)
    return mount
  }

  async #end(mount: Mount | undefined): Promise<GatewayError | undefined> {
    try {
      await mount?.storage?.close()
      return undefined
    } catch (error) {
      this.parts.log.warn({ err: error, storage: mount?.row.mountPath }, 'a storage did not close well')
      return toGatewayError(error)
    }
  }

  /** Takes up what another process changed. */
  async reload(): Promise<void> {
    const before = new Map(this.#mounts)
    const rows = new Map((await this.parts.store.storages.all()).map((row) => [row.id, row]))
    // All in one go: while one of them is waited for, others may change again. What this process applied while the rows
    // were read is newer than they are.
    const gone = [...before.keys()].filter((id) => !rows.has(id)).map((id) => this.remove(id))
    const changed = [...rows.values()].filter((row) => {
      const mount = this.#mounts.get(row.id)
      return mount === before.get(row.id) && (!mount || !sameConfiguration(mount.row, row))
    })
    const applied = changed.map((row) =>
      this.apply(row).catch((error: unknown) =>
        this.parts.log.warn({ err: error, storage: row.mountPath }, 'a storage did not start'),
      ),
    )
    await Promise.all([...gone, ...applied])
  }

  /** By order, then mount path, with the status in force. */
  rows(): readonly StorageRow[] {
    return [...this.#mounts.values()]
      .map((mount) => mount.row)
      .sort((one, other) => one.order - other.order || (one.mountPath < other.mountPath ? -1 : 1))
  }

  async #begin(mount: Mount): Promise<void> {
    if (mount.controller.signal.aborted) return
    if (mount.row.disabled) await this.#status(mount, 'disabled')
    else await this.#open(mount).finally(() => endStarting(mount))
  }

  async #open(mount: Mount): Promise<void> {
    const { row, controller } = mount
    try {
      const type = this.parts.driverTypes.find((each) => each.name === row.driver)
      if (!type) throw new GatewayError('invalid', { reason: `no driver named: ${row.driver}` })
      const options = checkOptions(type.fields, parseAddition(row.addition))
      const driver = await type.open(options as never, this.#env(mount))
      if (controller.signal.aborted) {
        await driver.close?.()
        return
      }
      const { events, spool, bandwidth, store, log } = this.parts
      const storage = new Storage({
        row,
        mount: mount.visible,
        driver,
        traits: type.traits,
        events,
        spool,
        bandwidth,
        store,
        log: log.child({ storage: row.mountPath }),
        listings: this.#listings,
        isMountAncestor: (path) => this.isMountAncestor(path),
      })
      // Before anybody takes the name of what was set aside.
      await this.parts.recovery.recover(storage)
      if (mount.controller.signal.aborted) {
        await storage.close()
        return
      }
      mount.storage = storage
      mount.failures = 0
      void this.parts.recovery.discardUnused(storage)
      await this.#status(mount, 'work')
    } catch (error) {
      if (controller.signal.aborted) return
      const failure = toGatewayError(error)
      // What is wrong with an option may name a folder of this machine: that is for the admin.
      mount.reason = failure.code === 'invalid' ? 'its options are not valid' : failure.reason
      this.parts.log.warn({ err: failure, storage: row.mountPath }, 'a storage did not start')
      await this.#status(
        mount,
        failure.code === 'internal' && failure.cause instanceof Error ? failure.cause.message : failure.reason,
      )
      this.#retryLater(mount)
    }
  }

  #retryLater(mount: Mount): void {
    if (mount.controller.signal.aborted) return
    const seconds = retryAfter[Math.min(mount.failures++, retryAfter.length - 1)] ?? 300
    mount.retry = setTimeout(() => void this.#open(mount), seconds * 1000).unref()
  }

  async #status(mount: Mount, status: string): Promise<void> {
    if (mount.row.status === status) return
    mount.row = { ...mount.row, status }
    if (this.#mounts.get(mount.row.id) !== mount) return
    await this.parts.store.storages.update(mount.row.id, { status }).catch((error: unknown) => {
      this.parts.log.warn({ err: error, storage: mount.row.mountPath }, 'a status could not be stored')
    })
  }

  #env(mount: Mount): DriverEnv {
    const { store, log, instance, own, tree, egress, recovery } = this.parts
    const { id } = mount.row
    return {
      log: log.child({ storage: mount.row.mountPath }),
      signal: mount.controller.signal,
      instance,
      own,
      save: async (options) => {
        // One that was replaced has nothing to say about its successor.
        if (this.#mounts.get(id) !== mount) return
        const addition = mergeAddition(mount.row.addition, options)
        mount.row = { ...mount.row, addition }
        await store.storages.update(id, { addition })
      },
      state: {
        get: (key) => store.driverState.get(id, key),
        set: (key, value) => store.driverState.set(id, key, value),
      },
      resumableUploads: () => recovery.tokens(),
      tree,
      egress,
    }
  }

  #arrange(): void {
    const visible = new Map<Path, Mount[]>()
    for (const mount of this.#mounts.values()) {
      if (mount.row.disabled) continue
      visible.set(mount.visible, [...(visible.get(mount.visible) ?? []), mount])
    }
    this.#visible = visible
    this.#deepest = maxDepthOf(visible.keys())
    this.#leading = mountAncestorsOf([...visible.values()].flat())
  }

  /**
   * The storage that owns `path`. Throws `not_found` where no mount covers it, and `unavailable` where the
   * storage did not start, or not yet. Of several that take turns, `preferred` where it is one of them.
   */
  find(path: Path, preferred?: Storage): MountedPath {
    const at = this.#mountOver(path)
    const mounts = at === undefined ? undefined : this.#visible.get(at)
    if (at === undefined || !mounts) {
      throw new GatewayError('not_found', { detail: this.#visible.size === 0 ? 'nothing_mounted' : 'no_storage', path })
    }
    const mount = mounts.find(({ storage }) => storage && storage === preferred) ?? this.#inTurn(at, mounts)
    if (!mount.storage) {
      throw mount.starting
        ? new GatewayError('unavailable', { detail: 'storage_starting' })
        : new GatewayError('unavailable', { detail: 'storage_failed', reason: mount.reason })
    }
    return { storage: mount.storage, inner: within(at, path) ?? root }
  }

  /**
   * The path that `path` is another way to, through links of the storage that holds it; with `last`, also where its last name is
   * a link. `denied` where that is in no storage, or in another one, or where mounts that take turns do not agree.
   */
  async realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    const at = this.#mountOver(path)
    if (at === undefined) return path
    const found = new Set<Path>()
    for (const { storage } of this.#visible.get(at) ?? []) {
      if (!storage) continue
      const real = storage.treePath(await storage.realPath(within(at, path) ?? root, options))
      if (this.#mountOver(real) !== at)
        throw new GatewayError('denied', { reason: 'a link leads into another storage' })
      found.add(real)
    }
    const [real = path, other] = found
    if (other !== undefined) throw new GatewayError('denied', { reason: 'storages do not agree where a link leads' })
    return real
  }

  /**
   * Where a path leads, as `realPath` with `last` tells, and what stands there. Undefined where one look does not tell both, or where
   * mounts make more of it than their storages know.
   */
  async look(path: Path, options: CallOptions = {}): Promise<LookupResult | undefined> {
    const at = this.#mountOver(path)
    if (at === undefined || this.isVirtual(path)) return undefined
    const [mount, other] = this.#visible.get(at) ?? []
    if (!mount?.storage || other) return undefined
    const look = await mount.storage.look(within(at, path) ?? root, options)
    if (!look) return undefined
    const real = mount.storage.treePath(look.path)
    return this.#mountOver(real) === at && !this.isVirtual(real) ? { path: real, entry: look.entry } : undefined
  }

  /**
   * While the storage that owns `path` is starting: what to wait for before anything is asked of it, some seconds at most. Rejects with
   * `aborted` when the signal says so.
   */
  whenStarted(path: Path, { signal }: CallOptions = {}): Promise<void> | undefined {
    return this.isStarting(path) ? this.#started(path, signal) : undefined
  }

  /** Whether the storage that owns `path` has neither come up yet nor failed to. */
  isStarting(path: Path): boolean {
    return this.#startingAt(path) !== undefined
  }

  async #started(path: Path, signal: AbortSignal | undefined): Promise<void> {
    const until = Date.now() + requestPatience
    // What was changed meanwhile starts anew.
    for (let starting = this.#startingAt(path); starting; starting = this.#startingAt(path)) {
      if (!(await starting.endsWithin(until - Date.now(), signal))) return
    }
  }

  #startingAt(path: Path): StorageStart | undefined {
    const at = this.#mountOver(path)
    const mounts = at === undefined ? undefined : this.#visible.get(at)
    return mounts?.some(({ storage }) => storage) ? undefined : mounts?.find(({ starting }) => starting)?.starting
  }

  #mountOver(path: Path): Path | undefined {
    for (const at of selfAndAncestors(path, this.#deepest)) if (this.#visible.has(at)) return at
    return undefined
  }

  /** Where a path lies, if the storage there folds case or form; undefined for every other one. */
  caseInsensitivePath(path: Path): MountedPath | undefined {
    const at = this.#mountOver(path)
    if (at === undefined) return undefined
    const mounts = this.#visible.get(at)
    const storage = mounts?.find((mount) => mount.storage?.traits.caseSensitive === false)?.storage
    return storage && { storage, inner: within(at, path) ?? root }
  }

  /** What all spellings of a path have in common; undefined where it has only one. */
  caseFoldedPath(path: Path): Path | undefined {
    const place = this.caseInsensitivePath(path)
    return place && under(place.storage.mount, foldCase(place.inner))
  }

  /** Several mounts of one visible path are asked in turn; one that did not start is passed over. */
  #inTurn(at: Path, mounts: readonly Mount[]): Mount {
    const running = mounts.filter((mount) => mount.storage)
    const choice = running.length > 0 ? running : mounts
    const turn = (this.#turns.get(at) ?? -1) + 1
    if (choice.length > 1) this.#turns.set(at, turn)
    const mount = choice[turn % choice.length]
    if (!mount) throw new GatewayError('not_found', { detail: 'no_storage', path: at })
    return mount
  }

  /** Undefined for one that does not run. */
  storageOf(id: number): Storage | undefined {
    return this.#mounts.get(id)?.storage
  }

  /** The configuration of the storage that owns the path, whether it runs or not. */
  rowOf(path: Path): StorageRow | undefined {
    const at = this.#mountOver(path)
    return at === undefined ? undefined : this.#visible.get(at)?.[0]?.row
  }

  /** Whether a storage would own the path if it were not disabled. */
  isDisabled(path: Path): boolean {
    const at = this.#mountOver(path)
    const isNearer = (visible: Path) => at === undefined || (visible !== at && isWithin(at, visible))
    return [...this.#mounts.values()].some(
      ({ row, visible }) => row.disabled && isWithin(visible, path) && isNearer(visible),
    )
  }

  /** Whether `path` is a mount point, or a folder that exists only because something is mounted below it. */
  isVirtual(path: Path): boolean {
    return this.#visible.has(path) || this.isMountAncestor(path)
  }

  isMountPoint(path: Path): boolean {
    return this.#visible.has(path)
  }

  isMountAncestor(path: Path): boolean {
    return this.#leading.has(path)
  }

  /** The folders that mounts put into `folder`, by the storages' order, then mount path; each name once. */
  foldersIn(folder: Path): readonly Entry[] {
    return [...(this.#leading.get(folder)?.values() ?? [])]
  }

  /** What a virtual folder looks like by itself; undefined where `path` is none. */
  virtualEntry(path: Path): Entry | undefined {
    if (path === '/') return virtualFolder('', this.#visible.get(root)?.[0]?.row.modified ?? new Date(0))
    return this.#leading.get(parentOf(path))?.get(nameOf(path))
  }
}

function endStarting(mount: Mount): void {
  mount.starting?.end()
  mount.starting = undefined
}

/** For each folder above a mount, the names that lead on to it. */
function mountAncestorsOf(mounts: readonly Mount[]): Map<Path, Map<string, Entry>> {
  const leading = new Map<Path, Map<string, Entry>>()
  const sorted = [...mounts].sort(
    (one, other) => one.row.order - other.row.order || (one.visible < other.visible ? -1 : 1),
  )
  for (const { visible, row } of sorted) {
    for (let at = visible; at !== '/'; at = parentOf(at)) {
      const names = leading.get(parentOf(at)) ?? new Map<string, Entry>()
      leading.set(parentOf(at), names)
      if (!names.has(nameOf(at))) names.set(nameOf(at), virtualFolder(nameOf(at), row.modified))
    }
  }
  return leading
}

function virtualFolder(name: string, modified: Date): Entry {
  return { name, kind: 'folder', size: 0, modified }
}

/** `/a.balance1` shows as `/a`: several such storages take turns there. */
export function visiblePath(mountPath: Path): Path {
  const at = mountPath.lastIndexOf('.balance')
  return at > mountPath.lastIndexOf('/') + 1 ? asPath(mountPath.slice(0, at)) : cleanPath(mountPath)
}

function sameConfiguration(one: StorageRow, other: StorageRow): boolean {
  const { status: _oneStatus, ...first } = one
  const { status: _otherStatus, ...second } = other
  return JSON.stringify(first) === JSON.stringify(second)
}
