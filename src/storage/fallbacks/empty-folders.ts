/**
 * Adds empty folders to a driver whose backend cannot store them, such as an object store. Folders that were created or
 * emptied through the gateway are stored in the database until they are removed. Changes are checked for a missing
 * parent folder, which the backend does not detect. Moves of folders are `unsupported`, because the backend has no
 * folder to move.
 */
import type { CallOptions } from '../../contract/call-options.js'
import type { Driver } from '../../contract/driver.js'
import type { Entry } from '../../contract/entry.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../base/errors.js'
import { childOf, nameOf, parentOf, type Path } from '../../base/path.js'
import type { Store } from '../../database/tables.js'
import { driverProperties, overriding } from '../overriding.js'

/** Returns the wrapped driver. `treePath` maps a path of the driver to a path of the whole tree. */
export function withEmptyFolders(driver: Driver, store: Store['folders'], treePath: (path: Path) => Path): Driver {
  const folders = new EmptyFolders(driver, store, treePath)
  return overriding(driver, driverProperties, (inner) => ({
    stat: (path, options) => folders.stat(path, options),
    pages: (path, options) => folders.list(path, options),
    write: async (path, source, options) => {
      await folders.assertFile(path, options)
      return inner.write(path, source, options)
    },
    upload: async (path, plan, options) => {
      await folders.assertFile(path, options)
      return inner.upload(path, plan, options)
    },
    mkdir: async (path, options) => {
      if (await folders.find(path, options)) throw new GatewayError('exists')
      await folders.assertParent(path, options)
      await inner.mkdir(path, options)
      await folders.add(path)
    },
    remove: async (path, options) => {
      if (await folders.removeStored(path, options)) return
      await folders.add(parentOf(path))
      await inner.remove(path, options)
    },
    removeTree: async (path, options) => {
      const entry = await folders.stat(path, options)
      await folders.add(parentOf(path))
      await inner.removeTree(path, options).catch((error: unknown) => {
        // The tree consists of stored empty folders only.
        if (entry.kind !== 'folder' || !isGatewayError(error, 'not_found')) throw error
      })
      await folders.forget(path)
    },
    move: async (from, to, options) => {
      if ((await folders.stat(from, options)).kind === 'folder') throw new GatewayError('unsupported')
      await folders.assertFile(to, options)
      await folders.add(parentOf(from))
      await inner.move(from, to, options)
    },
    copy: async (from, to, options) => {
      await folders.assertFile(to, options)
      await inner.copy(from, to, options)
    },
    open: async (path, mode, options) => {
      if (mode === 'replace') await folders.assertFile(path, options)
      return inner.open(path, mode, options)
    },
    setAttributes: async (path, to, options) => {
      if ((await folders.stat(path, options)).kind !== 'folder') await inner.setAttributes(path, to, options)
      else if (to.modified) await store.put(treePath(path), to.modified)
    },
  }))
}

type StatOptions = Parameters<Driver['stat']>[1]

class EmptyFolders {
  constructor(
    private readonly inner: Driver,
    private readonly store: Store['folders'],
    private readonly treePath: (path: Path) => Path,
  ) {}

  async stat(path: Path, options: StatOptions = {}): Promise<Entry> {
    const entry = await this.find(path, options)
    if (!entry) throw new GatewayError('not_found')
    return entry
  }

  async find(path: Path, options: StatOptions = {}): Promise<Entry | undefined> {
    const entry = await undefinedIfMissing(this.inner.stat(path, options))
    if (entry) return entry
    const modified = await this.store.of(this.treePath(path))
    return modified && folderEntry(path, modified)
  }

  async *list(path: Path, options: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    const at = this.treePath(path)
    const stored = await this.store.ofChildren(at)
    try {
      for await (const page of this.inner.pages(path, options)) {
        if (stored.size > 0) for (const { name } of page) stored.delete(childOf(at, name))
        yield page
      }
    } catch (error) {
      if (!isGatewayError(error, 'not_found') || !(await this.store.of(at))) throw error
    }
    if (stored.size > 0) yield [...stored].map(([child, modified]) => folderEntry(child, modified))
  }

  /** Rejects with `is_folder` if there is a stored folder at `path`, and as `assertParent`. */
  async assertFile(path: Path, options: CallOptions = {}): Promise<void> {
    if (path === '/' || (await this.store.of(this.treePath(path)))) throw new GatewayError('is_folder')
    await this.assertParent(path, options)
  }

  /** Rejects with `parent_missing` or `not_folder` if the parent of `path` is missing or is not a folder. */
  async assertParent(path: Path, { signal }: CallOptions = {}): Promise<void> {
    const parent = parentOf(path)
    if (parent === '/') return
    const folder = await this.find(parent, { signal })
    if (!folder) throw new GatewayError('parent_missing')
    if (folder.kind !== 'folder') throw new GatewayError('not_folder')
  }

  /** Stores a folder, so that it exists even when it is empty. */
  async add(path: Path): Promise<void> {
    if (path !== '/') await this.store.put(this.treePath(path))
  }

  async forget(path: Path): Promise<void> {
    await this.store.delete(this.treePath(path))
  }

  /**
   * Removes a folder that exists only in the database. Returns false if the backend has an entry at `path`. Rejects
   * with `not_found` and `not_empty`.
   */
  async removeStored(path: Path, { signal }: CallOptions = {}): Promise<boolean> {
    if (await undefinedIfMissing(this.inner.stat(path, { signal, ofSymlink: true }))) return false
    const at = this.treePath(path)
    if (!(await this.store.of(at))) throw new GatewayError('not_found')
    if ((await this.store.ofChildren(at)).size > 0) throw new GatewayError('not_empty')
    await this.forget(path)
    return true
  }
}

function folderEntry(path: Path, modified: Date): Entry {
  return { name: nameOf(path), kind: 'folder', size: 0, modified }
}
