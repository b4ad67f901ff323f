/**
 * Finds files and folders of a remote, in the remote's own spelling. What rclone reports as an error is looked up,
 * because its texts differ between remotes and versions.
 */
import { GatewayError } from '../../src/base/errors.js'
import { childOf, foldCase, nameOf, parentOf, root, type Path } from '../../src/base/path.js'
import type { Traits } from '../../src/contract/traits.js'
import type { Item } from './entry.js'
import { isMissing, type Remote } from './remote.js'
import { failureOf } from './remote-control.js'

type Signal = AbortSignal | undefined

/** A path in the spelling of the remote, with what exists there; undefined if nothing does. */
export interface RemoteLocation {
  readonly at: Path
  readonly item: Item | undefined
}

/** What is reported of a folder whose time is of no interest. */
const anyFolder: Item = { name: '', isFolder: true, size: 0, modified: new Date(0), hashes: {} }

export class RcloneFiles {
  constructor(
    private readonly remote: Remote,
    private readonly traits: Pick<Traits, 'caseSensitive' | 'emptyFolders'>,
  ) {}

  /** Looks up a path, with all that is reported of it. A missing parent is not an error. */
  async stat(path: Path, signal: Signal): Promise<RemoteLocation> {
    if (path === '/') return this.#root(signal)
    if (!this.traits.caseSensitive) return this.#findSpelling(path, signal)
    const find = () => (this.traits.emptyFolders ? this.remote.find(path, signal) : this.#look(path, signal))
    return { at: path, item: await this.#undefinedIfMissing(path, find, signal) }
  }

  /** Looks up a path. Of a folder, only that it exists: for most remotes that is faster in large folders. */
  async find(path: Path, signal: Signal): Promise<RemoteLocation> {
    if (path === '/' || !this.traits.caseSensitive) return this.stat(path, signal)
    return { at: path, item: await this.#undefinedIfMissing(path, () => this.#look(path, signal), signal) }
  }

  /** Rejects with `not_found` and `is_folder`. */
  async file(path: Path, signal: Signal): Promise<{ readonly at: Path; readonly item: Item }> {
    const { at, item } = await this.find(path, signal)
    if (!item) throw new GatewayError('not_found')
    if (item.isFolder) throw new GatewayError('is_folder')
    return { at, item }
  }

  /** Looks up an entry to be created. Rejects with `parent_missing` and `not_folder`. */
  async target(path: Path, signal: Signal): Promise<RemoteLocation> {
    const location = await this.find(path, signal)
    if (location.item || !this.traits.emptyFolders) return location
    const parent = await this.stat(parentOf(path), signal)
    if (!parent.item) throw new GatewayError('parent_missing')
    if (!parent.item.isFolder) throw new GatewayError('not_folder')
    return { at: childOf(parent.at, nameOf(path)), item: undefined }
  }

  /** Members of a folder. Rejects with `not_found` and `not_folder` before the first. */
  async *members(path: Path, signal: Signal): AsyncGenerator<readonly Item[]> {
    let isEmpty = true
    try {
      for await (const items of this.remote.members(path, signal)) {
        isEmpty = false
        yield items
      }
    } catch (error) {
      if (!isEmpty || !failureOf(error)) throw error
      yield* await this.#listedOtherwise(path, error, signal)
      return
    }
    // Some remotes list a missing folder, or a file, as an empty folder.
    if (isEmpty && path !== '/') await this.#assertFolder(path, signal)
  }

  async #assertFolder(path: Path, signal: Signal): Promise<void> {
    const { item } = await this.stat(path, signal)
    if (!item) throw new GatewayError('not_found')
    if (!item.isFolder) throw new GatewayError('not_folder')
  }

  /**
   * Returns another listing after an error: of the folder in another spelling, or of an empty root. Otherwise rejects.
   */
  async #listedOtherwise(
    path: Path,
    error: unknown,
    signal: Signal,
  ): Promise<AsyncIterable<readonly Item[]> | Iterable<readonly Item[]>> {
    if (path === '/') {
      if (!isMissing(error)) throw error
      if (!this.traits.emptyFolders) return []
      // The files of the storage must not look deleted.
      throw new GatewayError('unavailable', { reason: 'the folder of the remote does not exist', cause: error })
    }
    const { at, item } = await this.stat(path, signal)
    if (!item) throw new GatewayError('not_found', { cause: error })
    if (!item.isFolder) throw new GatewayError('not_folder', { cause: error })
    if (at === path) throw error
    return this.remote.members(at, signal)
  }

  async #root(signal: Signal): Promise<RemoteLocation> {
    // Without empty folders, a missing one is empty.
    if (this.traits.emptyFolders) {
      const item = await this.remote.find(root, signal).catch(rejectMissingRoot)
      if (!item) rejectMissingRoot()
    }
    return { at: root, item: anyFolder }
  }

  async #look(path: Path, signal: Signal): Promise<Item | undefined> {
    const file = await this.remote.findFile(path, signal)
    if (file) return file
    for await (const items of this.remote.members(path, signal)) {
      if (items.length > 0) return { ...anyFolder, name: nameOf(path) }
    }
    // It is empty, or the remote lists a missing folder like an empty one.
    return this.traits.emptyFolders ? this.remote.find(path, signal) : undefined
  }

  /** On remotes that take several spellings for one name, only a listing has the spelling of the remote. */
  async #findSpelling(path: Path, signal: Signal): Promise<RemoteLocation> {
    if (path === '/') return this.#root(signal)
    const name = nameOf(path)
    const search = async (folder: Path): Promise<Item | undefined> => {
      let similar: Item | undefined
      for await (const items of this.remote.members(folder, signal)) {
        const exact = items.find((item) => item.name === name)
        if (exact) return exact
        similar ??= items.find((item) => foldCase(item.name) === foldCase(name))
      }
      return similar
    }
    const given = parentOf(path)
    let parent = given
    const item = await search(given).catch(async (error: unknown) => {
      if (!failureOf(error) || given === '/') throw error
      const { at, item: folder } = await this.#findSpelling(given, signal)
      parent = at
      if (folder?.isFolder !== true) return undefined
      if (at === given) throw error
      return search(at)
    })
    return { at: childOf(parent, item?.name ?? name), item }
  }

  /**
   * Looks up what a failed lookup is about: it may be that the parent is missing or is not a folder, or that the entry
   * was created, removed or replaced meanwhile.
   */
  async #undefinedIfMissing(
    path: Path,
    find: () => Promise<Item | undefined>,
    signal: Signal,
  ): Promise<Item | undefined> {
    try {
      return await find()
    } catch (error) {
      if (isMissing(error)) return undefined
      if (!failureOf(error)) throw error
      const parent = await this.stat(parentOf(path), signal)
      return parent.item?.isFolder === true ? this.remote.find(path, signal) : undefined
    }
  }
}

function rejectMissingRoot(error?: Error): never {
  if (error && !isMissing(error)) throw error
  throw new GatewayError('unavailable', { reason: 'the folder of the remote does not exist', cause: error })
}
