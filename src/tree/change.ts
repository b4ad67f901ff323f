/**
 * The steps of every change of the tree, written once. The path is resolved and authorized, and its symlinks are
 * followed. Path locks are taken. Then everything is checked once more: the path, the entry, preconditions and locks.
 * Only then the change is performed. `Change` says which steps a change takes when.
 */
import type { Principal } from '../accounts/principal.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError, isWithoutStorage } from '../base/errors.js'
import { checkName, foldCase, nameOf, type Path } from '../base/path.js'
import { throwIfAborted } from '../base/cancellation.js'
import type { Awaitable } from '../contract/call-options.js'
import type { LookupResult } from '../contract/capabilities.js'
import type { MountedPath } from '../mounts/mounts.js'
import { HeldPathLocks } from '../locks/path-locks.js'
import type { Storage } from '../storage/storage.js'
import type { Access } from './access.js'
import type { TreeDependencies } from './dependencies.js'
import { LockedError, type LockedPath, type Locks } from '../locks/webdav-locks.js'
import { assertPreconditions, hasPreconditions, type Preconditions, type ResourceState } from './preconditions.js'
import type { AccessOptions, ChangeOptions } from './operation-options.js'

/** One path of a change, and what exists there. Paths are of the whole tree. */
export class Target implements MountedPath {
  #mounted: MountedPath | undefined

  constructor(
    readonly at: Path,
    readonly entry: Entry | undefined,
    private readonly locate: () => MountedPath,
    mounted?: MountedPath,
    /**
     * The signal for the calls of the driver. It aborts with the request, and when the path locks of the change are
     * lost.
     */
    readonly signal?: AbortSignal,
  ) {
    this.#mounted = mounted
  }

  /** Rejects with `not_found` for a folder that exists only because something is mounted below it. */
  get storage(): Storage {
    return (this.#mounted ??= this.locate()).storage
  }

  /** The storage, if it is determined already. */
  get chosen(): Storage | undefined {
    return this.#mounted?.storage
  }

  get inner(): Path {
    return (this.#mounted ??= this.locate()).inner
  }

  /** The entry; `not_found` where nothing exists. */
  get existing(): Entry {
    if (!this.entry) throw new GatewayError('not_found')
    return this.entry
  }

  /** Rejects where a new entry cannot have this name: it is taken, or no path can hold it. */
  assertFree(): void {
    if (this.entry) throw new GatewayError('exists')
    checkName(nameOf(this.at))
  }
}

/**
 * A path of the whole tree, in the spelling of the backends. That alone is promised: whether the path is authorized and
 * its symlinks were followed depends on the function that returns it.
 */
export interface ResolvedPath {
  readonly at: Path
  /** The entry found while resolving; undefined if resolving did not load it. */
  readonly look?: LookupResult | undefined
}

export type OnePath = readonly [ResolvedPath]
export type TwoPaths = readonly [ResolvedPath, ResolvedPath]

export type Targets<Paths extends readonly ResolvedPath[]> = { readonly [Index in keyof Paths]: Target }

type Loaded = 'target' | 'symlink' | 'nothing'

/** The paths that a change touches, and its requirements. */
export interface ChangePlan<Paths extends readonly ResolvedPath[]> {
  readonly options: ChangeOptions
  /** The storage that an earlier step has used, where several have the mount point of a path. */
  readonly preferred?: ((at: Path) => Storage | undefined) | undefined
  /** Resolves and authorizes each path of the change, and follows its symlinks. Called for each check. */
  readonly resolve: () => Promise<Paths>
  /**
   * Returns the requested paths, if they can be locked before they are resolved; otherwise undefined. `perform` then
   * calls `resolve` once and not twice, unless a symlink leads elsewhere.
   */
  readonly named?: (() => readonly Path[] | undefined) | undefined
  /** Everything below the paths changes too. */
  readonly tree?: boolean
  /**
   * Which entry is loaded, of all paths or of each: that of a symlink's target (the default), that of a symlink itself,
   * or none.
   */
  readonly load?: Loaded | readonly Loaded[]
  /** The path that preconditions are about; by default the last one. */
  readonly subject?: 'first'
  /** Rejects where what exists at the paths does not suit the change. */
  readonly require?: (...targets: Targets<Paths>) => unknown
  /** Names that the change adds, removes or changes, as WebDAV locks see them. */
  readonly touches: (...targets: Targets<Paths>) => readonly LockedPath[]
}

/** On whose behalf changes are made. */
export interface Authority {
  /** Undefined for the gateway itself: every WebDAV lock blocks it. */
  readonly principal: Principal | undefined
  /** Returns the path of the whole tree for a path in a precondition. */
  resolve(path: Path, options: AccessOptions): Awaitable<Pick<ResolvedPath, 'at'>>
  /** Resolves a path in a precondition, authorizes reading it, and follows its symlinks. */
  resolveAndAuthorize(action: 'read', path: Path, options: AccessOptions): Awaitable<Pick<ResolvedPath, 'at'>>
  readonly decisions: {
    /** The entry at a path of the whole tree, as the principal sees it. */
    factsOf(at: Path, entry: Entry): Entry
  }
}

/** Changes that the gateway makes by itself: no rule restricts them. Locks do. */
export const gatewayAuthority: Authority = {
  principal: undefined,
  resolve: (at) => ({ at }),
  resolveAndAuthorize: (_, at) => ({ at }),
  decisions: { factsOf: (_, entry) => entry },
}

/** The parts of the tree that the checks of changes use. */
export type ChangeDependencies = Pick<TreeDependencies, 'mounts' | 'mountedTree' | 'locks' | 'pathLocks'>

/**
 * One change of the tree. It is made once. How depends on what it waits for:
 * - A change that has all it needs, such as a removal: `perform`, which may leave out the first check.
 * - A change whose body arrives meanwhile, such as a write: `performWithBody`, and within it `lockAndCheck` when the
 *   body is complete.
 * - A change by a handle: `check` when it is opened; for each commit `lockAndCheck`, and `unlock` after it; `close`
 *   when the handle is closed.
 * - A change that others make later, such as a transfer item by item or an upload in chunks: `check` alone.
 */
export class Change<Paths extends readonly ResolvedPath[]> {
  readonly #pathLocks: HeldPathLocks
  readonly #isConditional: boolean
  /** The paths that are locked, as they were resolved first, and the storages that the first check chose. */
  #first: readonly { readonly at: Path; readonly chosen?: Storage | undefined }[] = []

  constructor(
    private readonly dependencies: ChangeDependencies,
    private readonly authority: Authority,
    private readonly plan: ChangePlan<Paths>,
  ) {
    this.#pathLocks = new HeldPathLocks(dependencies.pathLocks, plan.options.signal)
    this.#isConditional = hasPreconditions(plan.options)
  }

  /**
   * The signal for the calls of the driver. It aborts with the request, and when the path locks of the change are lost.
   */
  get signal(): AbortSignal | undefined {
    return this.#pathLocks.signal
  }

  /** The first check, of a change that is made later. */
  async check(): Promise<Targets<Paths>> {
    const targets = await this.#checked(await this.plan.resolve(), this.plan.options.signal)
    this.#first = targets
    return targets
  }

  /** Makes a change whose body is there already: checks it, and performs it, while its path locks are held. */
  async perform<Result>(work: (...targets: Targets<Paths>) => Promise<Result>): Promise<Result> {
    const { plan } = this
    return this.#pathLocks.runAndEnd(async () => {
      const named = this.#first.length === 0 ? plan.named?.() : undefined
      if (named) {
        this.#first = named.map((at) => ({ at }))
        await this.#lock()
        const paths = await plan.resolve()
        if (this.#areLocked(paths)) return work(...(await this.#checked(paths, this.signal)))
        this.unlock()
        this.#first = paths
      }
      if (this.#first.length === 0) this.#first = await plan.resolve()
      return work(...(await this.lockAndCheck()))
    })
  }

  /**
   * Makes a change whose body arrives while it is made. `work` receives what the first check found, and must have
   * `lockAndCheck` called before anything is published. The path locks are held until it settles.
   */
  async performWithBody<Result>(work: (...targets: Targets<Paths>) => Promise<Result>): Promise<Result> {
    const targets = await this.check()
    return this.#pathLocks.runAndEnd(() => work(...targets))
  }

  /**
   * The second check: takes the path locks and checks again. Rejects with `busy` where a symlink has changed since the
   * first. A rejection releases the locks; it may be called again.
   */
  async lockAndCheck(): Promise<Targets<Paths>> {
    await this.#lock()
    try {
      const paths = await this.plan.resolve()
      if (!this.#areLocked(paths)) throw symlinkChanged()
      return await this.#checked(paths, this.signal)
    } catch (error) {
      this.unlock()
      throw error
    }
  }

  /** Releases the path locks, after an attempt to publish. */
  unlock(): void {
    this.#pathLocks.release()
  }

  /** Must be called at the end of a change that was made by `check` and `lockAndCheck`, such as that of a handle. */
  close(): void {
    this.#pathLocks.end()
  }

  #lock(): Promise<void> {
    const { tree = false } = this.plan
    return this.#pathLocks.take(this.#first.map(({ at }) => ({ path: at, tree })))
  }

  /** Whether these are the paths that are locked. The case of a name may differ: path locks cover every case. */
  #areLocked(paths: Paths): boolean {
    return this.#first.every(({ at }, index) => {
      const path = paths[index]?.at ?? at
      return path === at || foldCase(path) === foldCase(at)
    })
  }

  async #checked(paths: Paths, signal: AbortSignal | undefined): Promise<Targets<Paths>> {
    const { dependencies, authority, plan } = this
    const { options } = plan
    if (options.lockTokens?.length) await dependencies.locks.know(options.lockTokens)
    const loaded: Target[] = []
    for (const [index, path] of paths.entries()) {
      const [first] = loaded
      const preferred = () => this.#first[index]?.chosen ?? first?.storage ?? plan.preferred?.(path.at)
      const load = (typeof plan.load === 'object' ? plan.load[index] : plan.load) ?? 'target'
      loaded.push(await this.#load(path, load, preferred, signal))
    }
    const targets = loaded as unknown as Targets<Paths>
    await plan.require?.(...targets)
    const subject = plan.subject === 'first' ? loaded[0] : loaded.at(-1)
    if (subject && this.#isConditional) {
      // Preconditions compare the entity tag that the principal sees.
      const entry = subject.entry && authority.decisions.factsOf(subject.at, subject.entry)
      await assertPreconditions(options, entry, (other) => this.#stateOf(other, subject.at, entry))
    }
    for (const touch of plan.touches(...targets)) {
      await assertUnlocked(dependencies.locks, authority.principal, touch, options)
    }
    throwIfAborted(signal)
    return targets
  }

  /** `preferred`: the storage that is chosen if it is one of several that are mounted at the same path. */
  async #load(
    { at, look }: ResolvedPath,
    loads: Loaded,
    preferred: () => Storage | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Target> {
    const { mounts, mountedTree } = this.dependencies
    // Preconditions are about what the backend has now, not about what it had when it was listed.
    const refresh = this.#isConditional
    const locate = () => mounts.find(at, preferred())
    if (loads === 'nothing') return new Target(at, undefined, locate, undefined, signal)
    if (mounts.isMountFolder(at)) {
      const mounted = mounts.findIfRunning(at, preferred())
      const entry = await mountedTree.entryOrUndefined(at, { signal, preferred: mounted?.storage })
      return new Target(at, entry, locate, mounted, signal)
    }
    const mounted = locate()
    const ofSymlink = loads === 'symlink'
    const load = () => mounted.storage.statOrUndefined(mounted.inner, { signal, ofSymlink, refresh })
    return new Target(at, look && !refresh ? look.entry : await load(), locate, mounted, signal)
  }

  /** The state of a resource that a precondition names; without a path, that of the request's own, at `subject`. */
  async #stateOf(other: Path | undefined, subject: Path, own: Entry | undefined): Promise<ResourceState> {
    const at = other === undefined ? subject : (await this.authority.resolve(other, this.plan.options)).at
    const entry = at === subject ? own : await this.#readable(other ?? subject)
    return { entry, tokens: new Set(this.dependencies.locks.covering(at).map((lock) => lock.token)) }
  }

  /** Undefined also for what the principal may not read: preconditions must not reveal that it exists. */
  async #readable(path: Path): Promise<Entry | undefined> {
    const { options } = this.plan
    try {
      const { at } = await this.authority.resolveAndAuthorize('read', path, options)
      return await this.dependencies.mountedTree.entryOrUndefined(at, { signal: options.signal, refresh: true })
    } catch (error) {
      if (isWithoutStorage(error) || isGatewayError(error, 'denied', 'hidden', 'not_found', 'password_required'))
        return undefined
      throw error
    }
  }
}

/** Rejects with `precondition_failed` unless the preconditions hold for what exists at `at`. */
export async function assertPreconditionsAt(access: Access, at: Path, options: Preconditions & AccessOptions) {
  if (!hasPreconditions(options)) return
  await access.change<OnePath>({ options, resolve: async () => [{ at }], touches: () => [] }).check()
}

/** Throws or rejects with LockedError. `principal`: who changes the path; undefined for the gateway itself. */
export function assertUnlocked(
  locks: Locks,
  principal: Principal | undefined,
  touch: LockedPath,
  options: ChangeOptions,
): Awaitable<void> {
  const blocking: Parameters<Locks['blocking']> = [touch, principal, options.lockTokens ?? []]
  if (locks.blocking(...blocking)) return assertUnlockedNow(locks, blocking)
}

/** Another node may just have released a lock that this one knows. */
async function assertUnlockedNow(locks: Locks, blocking: Parameters<Locks['blocking']>): Promise<void> {
  const [touch, principal] = blocking
  for (let lock = locks.blocking(...blocking); lock; lock = locks.blocking(...blocking)) {
    if (await locks.confirm(lock)) throw new LockedError(lock, {}, principal && touch.path)
  }
}

/** The error for a path whose symlinks have changed during an operation. */
export function symlinkChanged(): GatewayError {
  return new GatewayError('busy', { reason: 'a symlink has changed meanwhile' })
}
