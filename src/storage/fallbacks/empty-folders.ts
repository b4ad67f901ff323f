/**
 * Empty folders for a backend that cannot store them, such as an object store. Folders that were created or
 * emptied through the gateway are stored in the database until they are removed. Changes are checked for a missing
 * parent folder, which the backend does not detect. Moves of folders are `unsupported`, because the backend has no
 * folder to move.
 */
import type { Attributes } from '../../contract/capabilities.js'
import type { CallOptions, StatOptions } from '../../contract/call-options.js'
import type { Driver } from '../../contract/driver.js'
import type { Entry } from '../../contract/entry.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../base/errors.js'
import { childOf, nameOf, parentOf, under, type Path } from '../../base/path.js'
import type { Store } from '../../database/tables.js'

export class EmptyFolders {
  /** `driver`: what the backend reports. `mountPoint`: the storage's path in the whole tree. */
  constructor(
    private readonly driver: Pick<Driver, 'stat' | 'pages'>,
    private readonly store: Store['folders'],
    private readonly mountPoint: Path,
  ) {}

  async stat(path: Path, options: StatOptions = {}): Promise<Entry> {
    const entry = await this.#find(path, options)
    if (!entry) throw new GatewayError('not_found')
    return entry
  }

  async #find(path: Path, options: StatOptions = {}): Promise<Entry | undefined> {
    const entry = await undefinedIfMissing(this.driver.stat(path, options))
    if (entry) return entry
    const modified = await this.store.of(under(this.mountPoint, path))
    return modified && folderEntry(path, modified)
  }

  async *pages(path: Path, options: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    const at = under(this.mountPoint, path)
    const stored = await this.store.ofChildren(at)
    try {
      for await (const page of this.driver.pages(path, options)) {
        if (stored.size > 0) for (const { name } of page) stored.delete(childOf(at, name))
        yield page
      }
    } catch (error) {
      if (!isGatewayError(error, 'not_found') || !(await this.store.of(at))) throw error
    }
    if (stored.size > 0) yield [...stored].map(([child, modified]) => folderEntry(child, modified))
  }

  /** Rejects with `is_folder` if there is a stored folder at `path`, and as `#assertParent`. */
  async assertFile(path: Path, options: CallOptions = {}): Promise<void> {
    if (path === '/' || (await this.store.of(under(this.mountPoint, path)))) throw new GatewayError('is_folder')
    await this.#assertParent(path, options)
  }

  /** Rejects with `exists` if there is anything at `path`, and as `#assertParent`. */
  async assertFree(path: Path, options: CallOptions = {}): Promise<void> {
    if (await this.#find(path, options)) throw new GatewayError('exists')
    await this.#assertParent(path, options)
  }

  /** Rejects with `parent_missing` or `not_folder` if the parent of `path` is missing or is not a folder. */
  async #assertParent(path: Path, { signal }: CallOptions = {}): Promise<void> {
    const parent = parentOf(path)
    if (parent === '/') return
    const folder = await this.#find(parent, { signal })
    if (!folder) throw new GatewayError('parent_missing')
    if (folder.kind !== 'folder') throw new GatewayError('not_folder')
  }

  /** Stores a folder, so that it exists even when it is empty. */
  async add(path: Path): Promise<void> {
    if (path !== '/') await this.store.put(under(this.mountPoint, path))
  }

  /**
   * Removes a folder that exists only in the database; `remove` removes what the backend has. Rejects with `not_found`
   * and `not_empty`.
   */
  async remove(path: Path, options: CallOptions = {}, remove: () => Promise<void>): Promise<void> {
    const { signal } = options
    if (await undefinedIfMissing(this.driver.stat(path, { signal, ofSymlink: true }))) {
      await this.add(parentOf(path))
      return remove()
    }
    const at = under(this.mountPoint, path)
    if (!(await this.store.of(at))) throw new GatewayError('not_found')
    if ((await this.store.ofChildren(at)).size > 0) throw new GatewayError('not_empty')
    await this.store.delete(at)
  }

  /** Removes a folder with everything below it. Its parent folder is kept, as `remove` does. */
  async removeTree(path: Path, options: CallOptions | undefined, remove: () => Promise<void>): Promise<void> {
    const entry = await this.stat(path, options)
    await this.add(parentOf(path))
    await remove().catch((error: unknown) => {
      // The tree consists of stored empty folders only.
      if (entry.kind !== 'folder' || !isGatewayError(error, 'not_found')) throw error
    })
    await this.store.delete(under(this.mountPoint, path))
  }

  /** Rejects with `unsupported` for a folder, and as `assertFile` for the target. */
  async beforeMove(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    if ((await this.stat(from, options)).kind === 'folder') throw new GatewayError('unsupported')
    await this.assertFile(to, options)
    await this.add(parentOf(from))
  }

  /** Sets the time of a folder; `set` sets the attributes of what the backend has. */
  async setAttributes(path: Path, to: Attributes, options: CallOptions = {}, set: () => Promise<void>): Promise<void> {
    if ((await this.stat(path, options)).kind !== 'folder') await set()
    else if (to.modified) await this.store.put(under(this.mountPoint, path), to.modified)
  }
}

function folderEntry(path: Path, modified: Date): Entry {
  return { name: nameOf(path), kind: 'folder', size: 0, modified }
}
