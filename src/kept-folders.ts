/**
 * A driver whose backend has no folder without something in it, such as a store of objects, made whole: folders that were made or
 * emptied through us are kept in the store until they are removed. What a backend of that kind cannot tell is told here:
 * whether the folder is there that something goes into. A folder is never moved in one step: there is nothing to move.
 */
import type { CallOptions, Driver, Entry } from './driver.js'
import { GatewayError, isGatewayError } from './errors.js'
import { childOf, nameOf, parentOf, type Path } from './path.js'
import type { Store } from './store/rows.js'

/** `treePath`: where a path of the driver lies in the whole tree. */
export function keepingFolders(driver: Driver, kept: Store['folders'], treePath: (path: Path) => Path): Driver {
  const keeper = new FolderKeeper(driver, kept, treePath)
  // What it does not have is not reached: see below.
  const inner = driver as Required<Driver>
  const over: Partial<Driver> = {
    stat: (path, options) => keeper.stat(path, options),
    list: (path, options) => keeper.list(path, options),
    write: async (path, source, options) => {
      await keeper.assertFile(path, options)
      return inner.write(path, source, options)
    },
    upload: async (path, plan, options) => {
      await keeper.assertFile(path, options)
      return inner.upload(path, plan, options)
    },
    mkdir: async (path, options) => {
      if (await keeper.find(path, options)) throw new GatewayError('exists')
      await keeper.assertParent(path, options)
      await inner.mkdir(path, options)
      await keeper.keep(path)
    },
    remove: async (path, options) => {
      if (await keeper.removeKept(path, options)) return
      await keeper.keep(parentOf(path))
      await inner.remove(path, options)
    },
    removeTree: async (path, options) => {
      const entry = await keeper.stat(path, options)
      await keeper.keep(parentOf(path))
      await inner.removeTree(path, options).catch((error: unknown) => {
        // Nothing but kept folders.
        if (entry.kind !== 'folder' || !isGatewayError(error, 'not_found')) throw error
      })
      await keeper.forget(path)
    },
    move: async (from, to, options) => {
      if ((await keeper.stat(from, options)).kind === 'folder') throw new GatewayError('unsupported')
      await keeper.assertFile(to, options)
      await keeper.keep(parentOf(from))
      await inner.move(from, to, options)
    },
    copy: async (from, to, options) => {
      await keeper.assertFile(to, options)
      await inner.copy(from, to, options)
    },
    open: async (path, mode, options) => {
      if (mode === 'replace') await keeper.assertFile(path, options)
      return inner.open(path, mode, options)
    },
    setAttributes: async (path, to, options) => {
      if ((await keeper.stat(path, options)).kind !== 'folder') await inner.setAttributes(path, to, options)
      else if (to.modified) await kept.put(treePath(path), to.modified)
    },
  }
  return new Proxy(driver, {
    get(target, name: keyof Driver) {
      const value: unknown = Reflect.get(target, name)
      if (value !== undefined && name in over) return over[name]
      return typeof value === 'function' ? (value as () => unknown).bind(target) : value
    },
  })
}

type StatOptions = Parameters<Driver['stat']>[1]

class FolderKeeper {
  constructor(
    private readonly inner: Driver,
    private readonly kept: Store['folders'],
    private readonly treePath: (path: Path) => Path,
  ) {}

  async stat(path: Path, options: StatOptions = {}): Promise<Entry> {
    const entry = await this.find(path, options)
    if (!entry) throw new GatewayError('not_found')
    return entry
  }

  async find(path: Path, options: StatOptions = {}): Promise<Entry | undefined> {
    const own = await this.#own(path, options)
    if (own) return own
    const modified = await this.kept.of(this.treePath(path))
    return modified && folderEntry(path, modified)
  }

  /** As the backend tells it. */
  async #own(path: Path, options: StatOptions): Promise<Entry | undefined> {
    try {
      return await this.inner.stat(path, options)
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return undefined
      throw error
    }
  }

  async *list(path: Path, options: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    const at = this.treePath(path)
    const kept = await this.kept.ofChildren(at)
    try {
      for await (const page of this.inner.list(path, options)) {
        if (kept.size > 0) for (const { name } of page) kept.delete(childOf(at, name))
        yield page
      }
    } catch (error) {
      if (!isGatewayError(error, 'not_found') || !(await this.kept.of(at))) throw error
    }
    if (kept.size > 0) yield [...kept].map(([child, modified]) => folderEntry(child, modified))
  }

  /** Rejects with `is_dir` where a folder stands at `path`, and as `assertParent`. */
  async assertFile(path: Path, options: CallOptions = {}): Promise<void> {
    if (path === '/' || (await this.kept.of(this.treePath(path)))) throw new GatewayError('is_dir')
    await this.assertParent(path, options)
  }

  /** Rejects with `parent_missing` or `not_dir` where nothing can be at `path`. */
  async assertParent(path: Path, { signal }: CallOptions = {}): Promise<void> {
    const parent = parentOf(path)
    if (parent === '/') return
    const folder = await this.find(parent, { signal })
    if (!folder) throw new GatewayError('parent_missing')
    if (folder.kind !== 'folder') throw new GatewayError('not_dir')
  }

  /** From now on the folder is there, whatever is in it. */
  async keep(path: Path): Promise<void> {
    if (path !== '/') await this.kept.put(this.treePath(path))
  }

  async forget(path: Path): Promise<void> {
    await this.kept.delete(this.treePath(path))
  }

  /** Removes a folder that is nowhere but here; false where the backend has something at `path`. */
  async removeKept(path: Path, { signal }: CallOptions = {}): Promise<boolean> {
    if (await this.#own(path, { signal, link: true })) return false
    const at = this.treePath(path)
    if (!(await this.kept.of(at))) throw new GatewayError('not_found')
    if ((await this.kept.ofChildren(at)).size > 0) throw new GatewayError('not_empty')
    await this.forget(path)
    return true
  }
}

function folderEntry(path: Path, modified: Date): Entry {
  return { name: nameOf(path), kind: 'folder', size: 0, modified }
}
