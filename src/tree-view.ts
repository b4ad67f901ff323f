/**
 * A path of the tree as a driver sees it that stands on other storages. It is resolved through the mounts at each call, so
 * that no order of starting matters and nested mounts are seen. Its changes pass the locks of the paths they reach and take
 * their properties along.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Readable } from 'node:stream'
import { removeAll } from './copy.js'
import type {
  Attributes,
  ByteRange,
  CallOptions,
  Driver,
  Entry,
  Link,
  OpenFile,
  OpenMode,
  OpenOptions,
  Source,
  Thumbnail,
  ThumbnailKind,
  Usage,
  WriteOptions,
} from './driver.js'
import { GatewayError } from './errors.js'
import { LockedError, type Locks, type Touch } from './locks.js'
import type { Mounts, Place } from './mounts.js'
import { under, within, type Path } from './path.js'
import type { Store } from './store/rows.js'

/** How many storages may stand on one another. */
const deepest = 16

const depth = new AsyncLocalStorage<number>()

export interface TreeViewParts {
  readonly mounts: Mounts
  readonly locks: Locks
  readonly properties: Store['properties']
}

export class TreeView implements Driver {
  constructor(
    private readonly parts: () => TreeViewParts,
    private readonly base: Path,
  ) {}

  stat(path: Path, options?: CallOptions & { readonly link?: boolean | undefined }): Promise<Entry> {
    return this.#in(path, ({ storage, inner }) => storage.stat(inner, options))
  }

  async *list(path: Path, options?: CallOptions): AsyncGenerator<readonly Entry[]> {
    const { entries } = await this.#in(path, ({ storage, inner }) => storage.listing(inner, options))
    yield entries
  }

  realPath(path: Path, options?: CallOptions & { readonly last?: boolean | undefined }): Promise<Path> {
    return this.#in(path, async ({ storage, inner }) => {
      const real = within(this.base, storage.treePath(await storage.realPath(inner, options)))
      if (real === undefined) throw new GatewayError('denied', { reason: 'a link that leads outside of the storage' })
      return real
    })
  }

  read(path: Path, range?: ByteRange, options?: CallOptions): Promise<Readable> {
    return this.#in(path, ({ storage, inner }) => storage.read(inner, range, options))
  }

  open(path: Path, mode: OpenMode, options?: OpenOptions): Promise<OpenFile> {
    return this.#in(path, ({ storage, inner }) => storage.open(inner, mode, options), mode === 'read' ? [] : [{ path }])
  }

  write(path: Path, source: Source, options?: WriteOptions): Promise<Entry> {
    return this.#in(path, ({ storage, inner }) => storage.write(inner, source, options), [{ path, membership: true }])
  }

  mkdir(path: Path, options?: CallOptions): Promise<void> {
    return this.#in(path, ({ storage, inner }) => storage.mkdir(inner, options), [{ path, membership: true }])
  }

  async remove(path: Path, options?: CallOptions): Promise<void> {
    await this.#in(path, ({ storage, inner }) => storage.remove(inner, options), [{ path, membership: true }])
    await this.parts().properties.delete(under(this.base, path))
  }

  async removeTree(path: Path, options?: CallOptions): Promise<void> {
    const signal = options?.signal ?? new AbortController().signal
    await this.#in(path, ({ storage, inner }) => removeAll(storage, inner, signal), [
      { path, membership: true, tree: true },
    ])
    await this.parts().properties.delete(under(this.base, path))
  }

  async move(from: Path, to: Path, options?: CallOptions): Promise<void> {
    const touches: Touch[] = [from, to].map((path) => ({ path, membership: true, tree: true }))
    await this.#in(
      from,
      async (source) => {
        const target = this.#place(to)
        if (target.storage !== source.storage || !(await source.storage.move(source.inner, target.inner, options))) {
          throw new GatewayError('unsupported')
        }
      },
      touches,
    )
    await this.parts().properties.move(under(this.base, from), under(this.base, to))
  }

  async copy(from: Path, to: Path, options?: WriteOptions): Promise<void> {
    await this.#in(
      from,
      async (source) => {
        const target = this.#place(to)
        if (target.storage !== source.storage || !(await source.storage.copy(source.inner, target.inner, options))) {
          throw new GatewayError('unsupported')
        }
      },
      [{ path: to, membership: true }],
    )
  }

  setAttributes(path: Path, to: Attributes, options?: CallOptions): Promise<void> {
    return this.#in(path, ({ storage, inner }) => storage.setAttributes(inner, to, options), [{ path }])
  }

  async link(path: Path, options?: CallOptions): Promise<Link> {
    // What is to go through us there does so here too.
    const link = await this.#in(path, async ({ storage, inner }) =>
      storage.row.webProxy ? undefined : storage.link(inner, options),
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

  #place(path: Path): Place {
    return this.parts().mounts.find(under(this.base, path))
  }

  /** Runs one level deeper; a circle of storages is cut off. */
  #in<T>(path: Path, work: (place: Place) => Promise<T>, touches: readonly Touch[] = []): Promise<T> {
    const level = (depth.getStore() ?? 0) + 1
    if (level > deepest) throw new GatewayError('unavailable', { reason: 'storages stand on one another in a circle' })
    for (const touch of touches) {
      const lock = this.parts().locks.blocking({ ...touch, path: under(this.base, touch.path) }, undefined, [])
      if (lock) throw new LockedError(lock)
    }
    return depth.run(level, async () => work(this.#place(path)))
  }
}
