/**
 * A path of the tree as a driver sees it that stands on other storages. It is resolved through the mounts at each call, so
 * that no order of starting matters and nested mounts are seen. Its changes pass the locks of the paths they reach and take
 * their properties along.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Readable } from 'node:stream'
import { sharedController } from '../contract/cancellation.js'
import type {
  Attributes,
  DirectUrl,
  OpenFile,
  OpenMode,
  OpenOptions,
  Thumbnail,
  ThumbnailKind,
  Usage,
} from '../contract/capabilities.js'
import type { ByteRange, CallOptions, Driver, Source, WriteOptions } from '../contract/driver.js'
import type { Entry, Identity } from '../contract/entry.js'
import { GatewayError } from '../contract/errors.js'
import { refusedName, under, within, type Path } from '../contract/path.js'
import { canonicalPath, canonicalTarget } from '../storage/canonical-case.js'
import type { Mounts, MountedPath } from '../storage/mounts.js'
import { removeTree } from '../storage/remove-tree.js'
import type { Store } from '../store/rows.js'
import { LockedError, type Locks, type LockedPath } from './locks.js'

/** How many storages may stand on one another. */
const deepest = 16

/** Names that a folder left out and that are reported as left out once more. */
const maxReported = 10_000

const depth = new AsyncLocalStorage<number>()

export interface SubtreeDependencies {
  readonly mounts: Mounts
  readonly locks: Locks
  readonly properties: Store['properties']
}

export class SubtreeDriver implements Driver {
  constructor(
    private readonly parts: () => SubtreeDependencies,
    private readonly base: Path,
  ) {}

  stat(path: Path, options?: CallOptions & { readonly link?: boolean | undefined }): Promise<Entry> {
    return this.#in(path, ({ storage, inner }) => storage.stat(inner, options))
  }

  async *list(path: Path, options?: CallOptions): AsyncGenerator<readonly Entry[]> {
    const { entries, leftOut } = await this.#in(path, async ({ storage, inner }) => {
      const { entries } = await storage.listing(inner, options)
      return { entries, leftOut: storage.leftOut(inner) }
    })
    yield entries
    // Reported once more, so that the storage above leaves them out, and knows it.
    if (leftOut)
      yield Array.from({ length: Math.min(leftOut.count, maxReported) }, (_, index) => {
        const name = refusedName(leftOut.names[index] ?? '')
        return { name, kind: 'file', size: 0, modified: new Date(0) }
      })
  }

  realPath(path: Path, options?: CallOptions & { readonly last?: boolean | undefined }): Promise<Path> {
    return this.#in(path, async ({ storage, inner }) => {
      const real = within(this.base, storage.treePath(await storage.realPath(inner, options)))
      if (real === undefined) throw new GatewayError('denied', { reason: 'a link that leads outside of the storage' })
      return real
    })
  }

  identities(path: Path, options?: CallOptions): Promise<readonly Identity[]> {
    return this.#in(path, ({ storage, inner }) => storage.identities(inner, options))
  }

  read(path: Path, range?: ByteRange, options?: CallOptions): Promise<Readable> {
    return this.#in(path, ({ storage, inner }) => storage.read(inner, range, options))
  }

  open(path: Path, mode: OpenMode, options?: OpenOptions): Promise<OpenFile> {
    const open = ({ storage, inner }: MountedPath) => storage.open(inner, mode, options)
    return mode === 'read' ? this.#in(path, open) : this.#changing(path, {}, open)
  }

  write(path: Path, source: Source, options?: WriteOptions): Promise<Entry> {
    return this.#changing(path, { membership: true }, ({ storage, inner }) => storage.write(inner, source, options))
  }

  mkdir(path: Path, options?: CallOptions): Promise<void> {
    return this.#changing(path, { membership: true }, ({ storage, inner }) => storage.mkdir(inner, options))
  }

  remove(path: Path, options?: CallOptions): Promise<void> {
    return this.#changing(path, { membership: true }, async ({ storage, inner }, at) => {
      await storage.remove(inner, options)
      await this.parts().properties.delete(at)
    })
  }

  removeTree(path: Path, options?: CallOptions): Promise<void> {
    const signal = options?.signal ?? sharedController().signal
    return this.#changing(path, { membership: true, tree: true }, async ({ storage, inner }, at) => {
      await removeTree(storage, inner, signal)
      await this.parts().properties.delete(at)
    })
  }

  move(from: Path, to: Path, options?: CallOptions): Promise<void> {
    const touch = { membership: true, tree: true }
    return this.#changing(from, touch, async (source, at) => {
      const { mounts, properties } = this.parts()
      const target = await canonicalTarget(mounts, at, under(this.base, to), options)
      this.#assertUnlocked({ path: target, ...touch })
      const { storage, inner } = mounts.find(target, source.storage)
      if (storage !== source.storage || !(await storage.move(source.inner, inner, options))) {
        throw new GatewayError('unsupported')
      }
      await properties.move(at, target)
    })
  }

  copy(from: Path, to: Path, options?: WriteOptions): Promise<void> {
    return this.#in(from, async (source) => {
      const { mounts } = this.parts()
      const target = await canonicalPath(mounts, under(this.base, to), options)
      this.#assertUnlocked({ path: target, membership: true })
      const { storage, inner } = mounts.find(target, source.storage)
      if (storage !== source.storage || !(await storage.copy(source.inner, inner, options))) {
        throw new GatewayError('unsupported')
      }
    })
  }

  setAttributes(path: Path, to: Attributes, options?: CallOptions): Promise<void> {
    return this.#changing(path, {}, ({ storage, inner }) => storage.setAttributes(inner, to, options))
  }

  async directUrl(path: Path, options?: CallOptions): Promise<DirectUrl> {
    // What is to go through us there does so here too.
    const link = await this.#in(path, async ({ storage, inner }) =>
      storage.row.webProxy ? undefined : storage.directUrl(inner, options),
    )
    if (!link) throw new GatewayError('unsupported')
    return link
  }

  thumbnail(path: Path, kind: ThumbnailKind, options?: CallOptions): Promise<Thumbnail> {
    return this.#in(path, ({ storage, inner }) => storage.thumbnail(inner, kind, options))
  }

  usage(options?: CallOptions): Promise<Usage> {
    return this.#in('/' as Path, ({ storage }) => storage.usage(options))
  }

  #changing<T>(
    path: Path,
    touch: Omit<LockedPath, 'path'>,
    work: (place: MountedPath, at: Path) => Promise<T>,
  ): Promise<T> {
    return this.#in(path, (place, at) => {
      this.#assertUnlocked({ path: at, ...touch })
      return work(place, at)
    })
  }

  #assertUnlocked(touch: LockedPath): void {
    const lock = this.parts().locks.blocking(touch, undefined, [])
    if (lock) throw new LockedError(lock)
  }

  /** Runs one level deeper, `at` the path in the whole tree, as the storages spell it; a circle of storages is cut off. */
  async #in<T>(path: Path, work: (place: MountedPath, at: Path) => Promise<T>): Promise<T> {
    const level = (depth.getStore() ?? 0) + 1
    if (level > deepest) throw new GatewayError('unavailable', { reason: 'storages stand on one another in a circle' })
    return depth.run(level, async () => {
      const { mounts } = this.parts()
      await mounts.whenStarted(under(this.base, path))
      const at = await canonicalPath(mounts, under(this.base, path))
      return work(mounts.find(at), at)
    })
  }
}
