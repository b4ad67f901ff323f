/**
 * The steps of every change of the tree, written once. The path is resolved and authorized, and its symlinks are
 * followed. Path locks are taken. Then everything is checked once more: the path, the entry, preconditions and locks.
 * Only then the change is performed. A change with a body is checked before the body is read, or before its bytes are
 * used if they are in memory, and the second check is made when the body has arrived, just before the file takes its
 * name.
 */
import type { Principal } from '../accounts/principal.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError, isWithoutStorage } from '../base/errors.js'
import { checkName, foldCase, nameOf, type Path } from '../base/path.js'
import { joinSignals, sharedController } from '../base/cancellation.js'
import type { Awaitable } from '../contract/call-options.js'
import type { MountedTree, ResolvedPath } from '../mounts/mounted-tree.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { PathClaim, PathLocks } from '../locks/path-locks.js'
import type { Storage } from '../storage/storage.js'
import type { Lock } from '../database/rows.js'
import type { TreeDependencies } from './dependencies.js'
import { LockedError, type LockedPath } from '../locks/webdav-locks.js'
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
    /** For the calls of the driver. Aborts with the request, and when the path locks of the change are lost. */
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

export type OnePath = readonly [ResolvedPath]
export type TwoPaths = readonly [ResolvedPath, ResolvedPath]

/** A path as an earlier check resolved it, and the storage that this check used. */
type Checked = Pick<Target, 'at'> & Partial<Pick<Target, 'chosen'>>

export type Targets<Paths extends readonly ResolvedPath[]> = { readonly [Index in keyof Paths]: Target }

/** A change, declared: what it touches, and what it requires. Preconditions are about the last of its paths. */
export interface Operation<Paths extends readonly ResolvedPath[]> {
  readonly options: ChangeOptions
  /** Of several storages at the mount point of a path, the one that an earlier step has used. */
  readonly preferred?: ((at: Path) => Storage | undefined) | undefined
  /** Resolves and authorizes each path of the change, and follows its symlinks. Called for each check. */
  readonly resolve: () => Promise<Paths>
  /**
   * The requested paths, if they can be locked before they are resolved; otherwise undefined. Saves the second call of
   * `resolve`, unless a symlink leads elsewhere.
   */
  readonly named?: (() => readonly Path[] | undefined) | undefined
  /** Everything below the paths changes too. */
  readonly tree?: boolean
  /** Which entry is loaded: that of a symlink's target (the default), that of a symlink itself, or none. */
  readonly load?: 'target' | 'symlink' | 'nothing'
  /** Rejects where what exists at the paths does not suit the change. */
  readonly require?: (...targets: Targets<Paths>) => unknown
  /** Names that the change adds, removes or changes, as WebDAV locks see them. */
  readonly touches: (...targets: Targets<Paths>) => readonly LockedPath[]
}

/** On whose behalf changes are made. */
export interface Authority {
  /** Undefined for the gateway itself: every WebDAV lock blocks it. */
  readonly principal: Principal | undefined
  /** The error for a lock that blocks a change of `asked`. */
  lockedError(lock: Lock, asked: Path): LockedError
  /** Returns the path of the whole tree for a path in a precondition. */
  resolve(path: Path, options: AccessOptions): Awaitable<Path>
  /** Authorizes reading `at`, and follows its symlinks. */
  authorizeRead(at: Path, options: AccessOptions): Awaitable<Path>
}

/** Changes that the gateway makes by itself: no rule restricts them. Locks do. */
export const gatewayAuthority: Authority = {
  principal: undefined,
  lockedError: (lock) => new LockedError(lock),
  resolve: (path) => path,
  authorizeRead: (at) => at,
}

/** The path locks of one change, and its last check. */
interface Publication<Paths extends readonly ResolvedPath[]> {
  /** For the calls of the driver, from before `begin` on. Aborts with the request, and when the path locks are lost. */
  readonly signal: AbortSignal | undefined
  /** Takes the path locks and checks again. A rejection releases them; it may be called again. */
  readonly begin: () => Promise<Targets<Paths>>
  /** The error for the client: `unavailable` if the path locks were lost. */
  readonly reported: (error: unknown) => unknown
  /** Releases the path locks, after an attempt to publish. */
  readonly release: () => void
  /** Releases the path locks. `begin` rejects from now on. */
  readonly end: () => void
}

export class Operations {
  constructor(
    private readonly dependencies: Pick<TreeDependencies, 'mounts' | 'locks' | 'pathLocks'>,
    private readonly authority: Authority,
    private readonly tree: MountedTree,
  ) {}

  /** Performs a change while its path locks are held. */
  async change<Paths extends readonly ResolvedPath[], Result>(
    operation: Operation<Paths>,
    perform: (...targets: Targets<Paths>) => Promise<Result>,
  ): Promise<Result> {
    const { options, tree = false } = operation
    const claimsOf = (paths: readonly Path[]) => paths.map((path) => ({ path, tree }))
    const named = operation.named?.()
    if (named) {
      const done = await this.whileLocked(claimsOf(named), options.signal, async (signal) => {
        const paths = await operation.resolve()
        if (!areSamePaths(named, pathsOf(paths))) return undefined
        return { result: await perform(...(await this.#checked(operation, paths, signal))) }
      })
      if (done) return done.result
    }
    const before = (await operation.resolve()).map(({ at }) => ({ at }))
    return this.whileLocked(claimsOf(pathsOf(before)), options.signal, async (signal) =>
      perform(...(await this.check(operation, before, signal))),
    )
  }

  /**
   * Performs a change that is published later, when its body has arrived. `perform` receives what the first check
   * found, and must have `publication.begin` called before it publishes. The path locks are held until it settles.
   */
  async publish<Paths extends readonly ResolvedPath[], Result>(
    operation: Operation<Paths>,
    perform: (targets: Targets<Paths>, publication: Publication<Paths>) => Promise<Result>,
  ): Promise<Result> {
    const targets = await this.check(operation)
    const publication = this.publication(operation, targets)
    try {
      return await perform(targets, publication)
    } catch (error) {
      throw publication.reported(error)
    } finally {
      publication.end()
    }
  }

  /** For a change whose end `publish` does not know, as of a handle. `before`: the targets of its first check. */
  publication<Paths extends readonly ResolvedPath[]>(
    operation: Operation<Paths>,
    before: readonly Checked[],
  ): Publication<Paths> {
    const { pathLocks } = this.dependencies
    const { options, tree = false } = operation
    const guard = new LockGuard(pathLocks, options.signal)
    let unlock: (() => void) | undefined
    let ended = false
    let attempt = 0
    const release = () => {
      attempt++
      unlock?.()
      unlock = undefined
    }
    const end = () => {
      ended = true
      release()
      guard.end()
    }
    return {
      signal: guard.signal,
      reported: (error) => guard.reported(error),
      begin: async () => {
        const claims = before.map(({ at }) => ({ path: at, tree }))
        const own = attempt
        unlock ??= await pathLocks.acquire(claims, options.signal, guard)
        // The driver may have given up while this waited: no one would release the lock.
        if (ended || own !== attempt) {
          release()
          throw new GatewayError('aborted')
        }
        try {
          return await this.check(operation, before, guard.signal)
        } catch (error) {
          release()
          throw error
        }
      },
      release,
      end,
    }
  }

  /**
   * One check of a change. `before`: the targets of an earlier check, whose storages are used again. Rejects with
   * `busy` where a symlink has changed since.
   */
  async check<Paths extends readonly ResolvedPath[]>(
    operation: Operation<Paths>,
    before: readonly Checked[] = [],
    signal: AbortSignal | undefined = operation.options.signal,
  ): Promise<Targets<Paths>> {
    const paths = await operation.resolve()
    if (!areSamePaths(pathsOf(before), pathsOf(paths))) throw symlinkChanged()
    return this.#checked(operation, paths, signal, before)
  }

  /** As `check`, of paths that are resolved. */
  async #checked<Paths extends readonly ResolvedPath[]>(
    operation: Operation<Paths>,
    paths: Paths,
    signal: AbortSignal | undefined,
    before: readonly Checked[] = [],
  ): Promise<Targets<Paths>> {
    const { options } = operation
    if (options.lockTokens) await this.dependencies.locks.know(options.lockTokens)
    const loaded: Target[] = []
    for (const [index, path] of paths.entries()) {
      const [first] = loaded
      const preferred = () => before[index]?.chosen ?? first?.storage ?? operation.preferred?.(path.at)
      loaded.push(await this.#load(path, operation, preferred, signal))
    }
    const targets = loaded as unknown as Targets<Paths>
    await operation.require?.(...targets)
    const subject = loaded.at(-1)
    if (subject && hasPreconditions(options)) await this.assertPreconditions(subject.at, subject.entry, options)
    for (const touch of operation.touches(...targets)) await this.assertUnlocked(touch, options)
    return targets
  }

  /** `preferred`: the storage that is chosen if it is one of several that are mounted at the same path. */
  async #load(
    { at, look }: ResolvedPath,
    { options, load: loaded = 'target' }: Pick<Operation<readonly ResolvedPath[]>, 'options' | 'load'>,
    preferred: () => Storage | undefined,
    signal: AbortSignal | undefined,
  ): Promise<Target> {
    const { mounts } = this.dependencies
    // Preconditions are about what the backend has now, not about what it had when it was listed.
    const refresh = hasPreconditions(options)
    const locate = () => mounts.find(at, preferred())
    if (loaded === 'nothing') return new Target(at, undefined, locate, undefined, signal)
    if (mounts.isMountFolder(at)) {
      const mounted = this.tree.locateIfRunning(at, preferred())
      const entry = await this.tree.entryOrUndefined(at, { signal, preferred: mounted?.storage })
      return new Target(at, entry, locate, mounted, signal)
    }
    const mounted = locate()
    const ofSymlink = loaded === 'symlink'
    const load = () => mounted.storage.statOrUndefined(mounted.inner, { signal, ofSymlink, refresh })
    return new Target(at, look && !refresh ? look.entry : await load(), locate, mounted, signal)
  }

  /** Runs `work` under path locks, with a signal that also aborts when they are lost. */
  async whileLocked<Result>(
    claims: readonly PathClaim[],
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal | undefined) => Promise<Result>,
  ): Promise<Result> {
    const { pathLocks } = this.dependencies
    const guard = new LockGuard(pathLocks, signal)
    try {
      const release = await pathLocks.acquire(claims, signal, guard)
      try {
        return await work(guard.signal)
      } finally {
        release()
      }
    } catch (error) {
      throw guard.reported(error)
    } finally {
      guard.end()
    }
  }

  /** Runs `check` under path locks. Resolves to what releases them, with its result. A rejection releases them. */
  async locked<Result>(
    claims: readonly PathClaim[],
    signal: AbortSignal | undefined,
    check: () => Promise<Result>,
  ): Promise<{ readonly result: Result; readonly release: () => void }> {
    const release = await this.dependencies.pathLocks.acquire(claims, signal)
    try {
      return { result: await check(), release }
    } catch (error) {
      release()
      throw error
    }
  }

  /** Rejects with `precondition_failed` unless the preconditions hold for `entry`, which exists at `at`. */
  async assertPreconditions(at: Path, entry: Entry | undefined, options: Preconditions & AccessOptions): Promise<void> {
    await assertPreconditions(options, entry, (other) => this.#stateOf(other, at, entry, options))
  }

  /** As `assertPreconditions`, for what exists at `at`. */
  async assertPreconditionsAt(at: Path, options: Preconditions & AccessOptions): Promise<void> {
    if (!hasPreconditions(options)) return
    const { signal } = options
    await this.assertPreconditions(at, await this.tree.entryOrUndefined(at, { signal, refresh: true }), options)
  }

  /** Throws or rejects with LockedError. Another node may just have released a lock that this one knows. */
  assertUnlocked(touch: LockedPath, options: ChangeOptions): Awaitable<void> {
    if (this.#lockOn(touch, options)) return this.#assertUnlockedNow(touch, options)
  }

  async #assertUnlockedNow(touch: LockedPath, options: ChangeOptions): Promise<void> {
    for (let lock = this.#lockOn(touch, options); lock; lock = this.#lockOn(touch, options)) {
      if (await this.dependencies.locks.confirm(lock)) throw this.authority.lockedError(lock, touch.path)
    }
  }

  #lockOn(touch: LockedPath, { lockTokens = [] }: ChangeOptions): Lock | undefined {
    return this.dependencies.locks.blocking(touch, this.authority.principal, lockTokens)
  }

  async #stateOf(
    other: Path | undefined,
    at: Path,
    entry: Entry | undefined,
    options: AccessOptions,
  ): Promise<ResourceState> {
    const path = other === undefined ? at : await this.authority.resolve(other, options)
    const own = path === at ? entry : await this.#readable(path, options)
    return { entry: own, tokens: new Set(this.dependencies.locks.covering(path).map((lock) => lock.token)) }
  }

  /** Undefined also for what the principal may not read: preconditions must not reveal that it exists. */
  async #readable(at: Path, options: AccessOptions): Promise<Entry | undefined> {
    try {
      const { signal } = options
      return await this.tree.entryOrUndefined(await this.authority.authorizeRead(at, options), {
        signal,
        refresh: true,
      })
    } catch (error) {
      if (isWithoutStorage(error) || isGatewayError(error, 'denied', 'hidden', 'password_required')) return undefined
      throw error
    }
  }
}

function pathsOf(places: readonly Pick<ResolvedPath, 'at'>[]): readonly Path[] {
  return places.map(({ at }) => at)
}

/** Whether these are the same paths. The case of a name may differ: path locks cover every case. */
export function areSamePaths(some: readonly Path[], others: readonly Path[]): boolean {
  return some.every((path, index) => {
    const other = others[index] ?? path
    return path === other || foldCase(path) === foldCase(other)
  })
}

/** The error for a path whose symlinks have changed during an operation. */
export function symlinkChanged(): GatewayError {
  return new GatewayError('busy', { reason: 'a symlink has changed meanwhile' })
}

/** Ends a change whose path locks are lost with the connection to the database. */
class LockGuard {
  /** For the calls of drivers: aborts as the signal of the request does, and when the path locks are lost. */
  readonly signal: AbortSignal | undefined
  /** For `PathLocks.acquire`. */
  readonly onLost: (() => void) | undefined
  readonly #isLost: () => boolean = () => false
  readonly #release: () => void = () => undefined

  constructor({ canBeLost }: Pick<PathLocks, 'canBeLost'>, signal: AbortSignal | undefined) {
    this.signal = signal
    if (!canBeLost) return
    const lost = sharedController()
    const joined = joinSignals(signal, lost.signal)
    this.signal = joined.signal
    this.onLost = () => lost.abort()
    this.#isLost = () => lost.signal.aborted
    this.#release = () => joined.release()
  }

  /** The error for the client: `unavailable` instead of `aborted`, if the path locks were lost. */
  reported(error: unknown): unknown {
    if (!this.#isLost() || !isGatewayError(error, 'aborted')) return error
    const reason = 'this server has lost the connection to its database during the change'
    return new GatewayError('unavailable', { reason, retryAfter: 1, cause: error })
  }

  /** Must be called when the change has ended. */
  end(): void {
    this.#release()
  }
}
