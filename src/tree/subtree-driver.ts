/**
 * A path of the tree as seen by a driver that is based on other storages. It is resolved at each call, so that storages
 * can start in any order and nested mounts are included. Its changes take the same steps as those of a principal, on
 * behalf of the gateway: no rule restricts them, and every WebDAV lock blocks them.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Readable } from 'node:stream'
import type { Attributes, DirectUrl, DirectUrlOptions, Usage } from '../contract/capabilities.js'
import type { ByteRange, CallOptions, Source, StatOptions, WriteOptions } from '../contract/call-options.js'
import type { TreeDriver } from '../contract/driver-env.js'
import { inPages, type Entry, type FileIdentity } from '../contract/entry.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { childOf, isWithin, refusedName, root, under, within, type Path } from '../base/path.js'
import { withMountPoints } from '../mounts/mounted-tree.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { PathLocks } from '../locks/path-locks.js'
import type { Storage } from '../storage/storage.js'
import type { TreeDependencies } from './dependencies.js'
import { removeEntry, renameByBackend } from './follow-up.js'
import type { LockedPath } from '../locks/webdav-locks.js'
import {
  Change,
  gatewayAuthority,
  type ChangePlan,
  type OnePath,
  type ResolvedPath,
  type Target,
  type TwoPaths,
} from './change.js'

/** Maximum number of storages that are based on one another. */
const maxDepth = 16

/** Maximum number of names that a folder left out and that are reported as left out once more. */
const maxReported = 10_000

const depth = new AsyncLocalStorage<number>()

/** Returns the number of storages that the current call has passed through. */
const levelOf = () => depth.getStore() ?? 0

type SubtreeDependencies = Pick<
  TreeDependencies,
  'mounts' | 'mountedTree' | 'locks' | 'pathLocks' | 'intents' | 'followers'
>

export class SubtreeDriver implements TreeDriver {
  /**
   * The storage in use, by mount point. The caller's steps must all see one storage, even if several take turns there.
   */
  readonly #chosen = new Map<Path, Storage>()

  constructor(
    private readonly dependencies: SubtreeDependencies,
    private readonly base: Path,
  ) {}

  /** A change whose caller holds a path lock for each storage that it has passed through. */
  #changing<Paths extends readonly ResolvedPath[]>(plan: ChangePlan<Paths>): Change<Paths> {
    const { pathLocks } = this.dependencies
    const level = levelOf() + 1
    const nested: PathLocks = {
      canBeLost: pathLocks.canBeLost,
      acquire: (claims, signal, options) => pathLocks.acquire(claims, signal, { ...options, level }),
    }
    return new Change({ ...this.dependencies, pathLocks: nested }, gatewayAuthority, plan)
  }

  stat(path: Path, options: StatOptions = {}): Promise<Entry> {
    const stat = ({ storage, inner }: MountedPath) => storage.stat(inner, options)
    return this.#orMountFolder(path, options, stat, (entry) => entry)
  }

  async *pages(path: Path, options: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    const list = async ({ storage, inner }: MountedPath) => {
      // In a circle of storages, a listing would wait for itself. This call rejects there.
      await storage.realPath(inner, { signal: options.signal })
      const { entries } = await storage.list(inner, options)
      return { entries, skipped: storage.skippedNames(inner) }
    }
    const nothing = { entries: [], skipped: undefined }
    const { entries, skipped } = await this.#orMountFolder(path, options, list, () => nothing)
    yield* inPages(this.#withMounted(await this.#resolve(path, options), entries))
    // Reported once more, so that the storage above leaves them out, and knows it.
    if (!skipped) return
    const reported = Array.from({ length: Math.min(skipped.count, maxReported) }, (_, index): Entry => {
      const name = refusedName(skipped.names[index] ?? '')
      return { name, kind: 'file', size: 0, modified: new Date(0) }
    })
    yield* inPages(reported)
  }

  realPath(path: Path, options: CallOptions & { readonly last?: boolean | undefined } = {}): Promise<Path> {
    const resolve = async ({ storage, inner }: MountedPath) => {
      const real = within(this.base, storage.treePath(await storage.realPath(inner, options)))
      if (real === undefined)
        throw new GatewayError('denied', { reason: 'a symlink that leads outside of the storage' })
      return real
    }
    return this.#orMountFolder(path, options, resolve, () => path)
  }

  identities(path: Path, options: CallOptions = {}): Promise<readonly FileIdentity[]> {
    return this.#in(path, options, ({ storage, inner }) => storage.identities(inner, options))
  }

  read(path: Path, range?: ByteRange, options: CallOptions = {}): Promise<Readable> {
    // An entry of the storage above is not one of this storage.
    const { signal, holder } = options
    return this.#in(path, options, ({ storage, inner }) => storage.read(inner, range, { signal, holder }))
  }

  write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const writing = this.#changing(this.#plan(path, options, { membership: true }))
    return writing.performWithBody(({ storage, inner }) => {
      const publishing = { signal: writing.signal, beforePublish: () => this.#begin(options, writing) }
      return this.#deeper(() => storage.write(inner, source, { ...options, ...publishing }))
    })
  }

  mkdir(path: Path, options: CallOptions = {}): Promise<void> {
    return this.#change(path, options, { membership: true }, ({ storage, inner, signal }) => {
      return storage.mkdir(inner, { ...options, signal })
    })
  }

  remove(path: Path, options: CallOptions = {}): Promise<void> {
    return this.#change(path, options, { membership: true }, (target) => {
      return removeEntry(this.dependencies, target, false, { ...options, signal: target.signal })
    })
  }

  removeTree(path: Path, options: CallOptions = {}): Promise<void> {
    return this.#change(path, options, { membership: true, tree: true }, (target) => {
      return removeEntry(this.dependencies, target, true, { ...options, signal: target.signal })
    })
  }

  move(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    const touch = { membership: true, tree: true }
    const moving = this.#changing<TwoPaths>({
      options,
      preferred: (at) => this.#preferred(at),
      resolve: async () => {
        const source = await this.#resolve(from, options)
        const target = await this.#deeper(() =>
          this.dependencies.mountedTree.canonicalTarget(under(this.base, to), source, options),
        )
        return [{ at: source }, { at: target }]
      },
      tree: true,
      load: 'nothing',
      require: (source, target) => {
        this.#assertMovable(source.at)
        if (source.storage !== target.storage) throw new GatewayError('unsupported')
      },
      touches: (source, target) => [
        { path: source.at, ...touch },
        { path: target.at, ...touch },
      ],
    })
    return moving.perform(async (source, target) => {
      const { signal } = source
      const rename = () => renameByBackend(this.dependencies, source, target, false, { ...options, signal })
      if (!(await this.#deeper(rename))) throw new GatewayError('unsupported')
    })
  }

  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    const source = this.#locate(await this.#resolve(from, options))
    const copying = this.#changing(this.#plan(to, options, { membership: true }))
    await copying.performWithBody(async ({ storage, inner }) => {
      if (storage !== source.storage) throw new GatewayError('unsupported')
      const publishing = { signal: copying.signal, beforePublish: () => this.#begin(options, copying) }
      await this.#deeper(() => storage.copy(source.inner, inner, { ...options, ...publishing }))
    })
  }

  setAttributes(path: Path, to: Attributes, options: CallOptions = {}): Promise<void> {
    return this.#change(path, options, {}, ({ storage, inner, signal }) => {
      return storage.setAttributes(inner, to, { ...options, signal })
    })
  }

  async directUrl(path: Path, options: DirectUrlOptions = {}): Promise<DirectUrl> {
    return this.#in(path, options, async ({ storage, inner }) => {
      // If downloads of that storage go through the gateway, so do those of the storage above.
      const url = storage.row.webProxy ? undefined : await storage.directUrl(inner, options)
      if (!url) throw new GatewayError('unsupported')
      return url
    })
  }

  usage(options: CallOptions = {}): Promise<Usage> {
    return this.#in(root, options, ({ storage }) => storage.usage(options))
  }

  usageOrUndefined(options: CallOptions = {}): Promise<Usage | undefined> {
    return this.#in(root, options, ({ storage }) => storage.usageOrUndefined(options))
  }

  #change(
    path: Path,
    options: CallOptions,
    touch: Omit<LockedPath, 'path'>,
    perform: (target: Target) => Promise<void>,
  ): Promise<void> {
    const change = this.#changing(this.#plan(path, options, touch))
    return change.perform((target) => this.#deeper(() => perform(target)))
  }

  /** A change of one path. The storage above has loaded the entry and checked what exists. */
  #plan(path: Path, { signal }: CallOptions, touch: Omit<LockedPath, 'path'>): ChangePlan<OnePath> {
    return {
      options: { signal },
      preferred: (at) => this.#preferred(at),
      resolve: async () => [{ at: await this.#resolve(path, { signal }) }],
      tree: touch.tree ?? false,
      load: 'nothing',
      require: ({ at }) => {
        if (touch.tree === true) this.#assertMovable(at)
      },
      touches: ({ at }) => [{ path: at, ...touch }],
    }
  }

  #assertMovable(at: Path): void {
    if (this.dependencies.mounts.isMountFolder(at))
      throw new GatewayError('denied', { reason: 'a mount point is in this folder' })
  }

  /** The path locks of a storage are always taken before those of the storages that it is based on. */
  async #begin({ beforePublish }: WriteOptions, change: Change<OnePath>): Promise<void> {
    await beforePublish?.()
    await change.lockAndCheck()
  }

  /** The path in the whole tree, in the spelling of the storages. */
  async #resolve(path: Path, options: CallOptions): Promise<Path> {
    const { mounts } = this.dependencies
    await mounts.whenStarted(under(this.base, path), options)
    const at = await this.#deeper(() => this.dependencies.mountedTree.canonicalPath(under(this.base, path), options))
    if (this.#isExcluded(mounts.mountPointOf(at))) throw new GatewayError('not_found')
    return at
  }

  /** Whether this is a mount point below the base whose storage shows itself: the tree would never end. */
  #isExcluded(mountPoint: Path | undefined): boolean {
    if (mountPoint === undefined || mountPoint === this.base || !isWithin(this.base, mountPoint)) return false
    return this.dependencies.mounts.isCircular(mountPoint)
  }

  /** The entries of a storage with the mount points in the folder `at`. */
  #withMounted(at: Path, entries: readonly Entry[]): readonly Entry[] {
    const { mounts } = this.dependencies
    const mounted = mounts.foldersIn(at)
    if (mounted.length === 0) return entries
    return withMountPoints(entries, mounted).filter(({ name }) => {
      const path = childOf(at, name)
      return !mounts.isMountPoint(path) || !this.#isExcluded(path)
    })
  }

  /**
   * Does `work` as `#in` does. `otherwise`: returns the result for a folder that exists only because storages are
   * mounted below it.
   */
  async #orMountFolder<T>(
    path: Path,
    options: CallOptions,
    work: (place: MountedPath) => Promise<T>,
    otherwise: (entry: Entry) => T,
  ): Promise<T> {
    try {
      return await this.#in(path, options, work)
    } catch (error) {
      if (!isGatewayError(error, 'not_found')) throw error
      const { mounts } = this.dependencies
      const at = await this.#resolve(path, options)
      const entry = mounts.isMountAncestor(at) ? mounts.mountFolderEntry(at) : undefined
      if (!entry) throw error
      return otherwise(entry)
    }
  }

  #locate(at: Path): MountedPath {
    return this.dependencies.mounts.find(at, this.#preferred(at))
  }

  /** The storage in use at the mount point of this path. Another one is chosen if it does not run any longer. */
  #preferred(at: Path): Storage | undefined {
    const mountPoint = this.dependencies.mounts.mountPointOf(at)
    if (mountPoint === undefined) return undefined
    const storage = this.dependencies.mounts.findIfRunning(at, this.#chosen.get(mountPoint))?.storage
    if (storage) this.#chosen.set(mountPoint, storage)
    return storage
  }

  async #in<T>(path: Path, { signal }: CallOptions, work: (place: MountedPath) => Promise<T>): Promise<T> {
    const place = this.#locate(await this.#resolve(path, { signal }))
    return this.#deeper(() => work(place))
  }

  /** Runs work one level deeper. A circle of storages is cut off. */
  async #deeper<T>(work: () => Promise<T>): Promise<T> {
    const level = levelOf() + 1
    if (level > maxDepth)
      throw new GatewayError('unavailable', { reason: 'storages are based on one another in a circle' })
    return depth.run(level, work)
  }
}
