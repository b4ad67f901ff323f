/** The folder of a storage into which it has downloaded by itself, for files that belong to another storage. */
import { contentVersion, type Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError } from '../contract/errors.js'
import { childOf, type Path } from '../contract/path.js'
import type { Storage } from '../storage/storage.js'
import type { FetchedFile, FetchedFolder } from './fetched-folder.js'

interface StorageFolderOptions {
  readonly storage: Storage
  /** The folder in the storage. */
  readonly folder: Path
  /** A path of the tree as the names of tasks show it. */
  readonly displayPath: (treePath: Path) => string
}

export class StorageFetchedFolder implements FetchedFolder {
  constructor(private readonly options: StorageFolderOptions) {}

  async names(): Promise<readonly string[]> {
    return (await this.#members(this.options.folder)).map(({ name }) => name)
  }

  async files(name: string): Promise<readonly FetchedFile[]> {
    const { storage, folder } = this.options
    const found: FetchedFile[] = []
    const add = (names: readonly string[], entry: Entry) => {
      const { size, kind } = entry
      const item = { names, size, version: contentVersion(entry) }
      if (kind === 'file') found.push({ ...item, kind, source: storage.source(names.reduce(childOf, folder), entry) })
      else found.push({ ...item, kind: kind === 'folder' && entry.isSymlink !== true ? kind : 'other' })
      if (kind === 'folder' && entry.isSymlink !== true) pending.push(names)
    }
    const pending: (readonly string[])[] = []
    add([name], await this.#existing(name))
    for (let names = pending.pop(); names !== undefined; names = pending.pop()) {
      for (const member of await this.#members(names.reduce(childOf, folder))) add([...names, member.name], member)
    }
    return found
  }

  async remove(name: string): Promise<void> {
    await this.#removeTree(childOf(this.options.folder, name))
  }

  async removeIfEmpty(): Promise<void> {
    try {
      await this.options.storage.remove(this.options.folder)
    } catch (error) {
      if (!isGatewayError(error, 'not_empty', 'not_found')) throw error
    }
  }

  async removeAll(): Promise<void> {
    await this.#removeTree(this.options.folder)
  }

  displayName(name: string): string {
    const { storage, folder, displayPath } = this.options
    return displayPath(storage.treePath(childOf(folder, name)))
  }

  async #existing(name: string): Promise<Entry> {
    const { storage, folder } = this.options
    const entry = await storage.statOrUndefined(childOf(folder, name), { refresh: true })
    if (entry) return entry
    throw new GatewayError('not_found', { reason: 'the downloaded files no longer exist: download them again' })
  }

  async #members(folder: Path): Promise<readonly Entry[]> {
    try {
      return (await this.options.storage.list(folder, { refresh: true })).entries
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return []
      throw error
    }
  }

  async #removeTree(path: Path): Promise<void> {
    try {
      await this.options.storage.removeTree(path)
    } catch (error) {
      if (!isGatewayError(error, 'not_found')) throw error
    }
  }
}
