/**
 * Files and folders of a vendor with ids, by paths: lookups, listings and changes, as the contract of drivers wants
 * them. A driver adds what differs between vendors: content, uploads, links.
 *
 * A new file is stored under a staged name first, in the folder of its target, and published when it is complete: it
 * gets its name, and then the file that it replaces is removed by its id. So there is an old or a new file at any time.
 * If the process ends between these steps, the next run removes the old file. A staged file of a run that has ended is
 * removed when its folder is listed, unless its upload may be resumed.
 */
import { LRUCache } from 'lru-cache'
import type { CallOptions, ListOptions, WriteOptions } from '../../../src/contract/call-options.js'
import { dropOldest } from '../../../src/base/bounded-tables.js'
import { throwIfAborted } from '../../../src/base/cancellation.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import type { Entry } from '../../../src/contract/entry.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../../src/base/errors.js'
import { childOf, nameOf, parentOf, siblingPathOf, type Path } from '../../../src/base/path.js'
import { BackgroundDeleter } from '../staged-files/background-deleter.js'
import { KeyedMutex } from '../keyed-mutex.js'
import { isOrphan, stagedName, stagingRun } from '../staged-files/staged-names.js'
import { IdTree, rootExists, type Located } from './id-tree.js'
import type { FileItem, IdVendor } from './id-vendor.js'
import { IdReplacements, placesBetween, type ItemPlace } from './id-replacements.js'
import { escapeName, isShownAs } from './shown-names.js'

interface IdFilesOptions<Item extends FileItem> {
  readonly vendor: IdVendor<Item>
  readonly rootId: string
  /** Milliseconds for which a listing may not show a change: the trait `listingLag`. */
  readonly lag: number
  /** See `IdTreeOptions`. */
  readonly absence?: number | undefined
  readonly env: Pick<DriverEnv, 'instance' | 'log' | 'onChangeElsewhere' | 'report' | 'resumableUploads' | 'state'>
}

/** A place for a new file. */
export interface Staging {
  /** Id of the folder of the target. */
  readonly folder: string
  readonly name: string
  /** Whether there was a file that the new one replaces. */
  readonly replaces: boolean
}

/** Maximum number of names of uploads that have failed. */
const maxAbandoned = 1000
/** Maximum number of files whose facts are remembered. */
const maxFacts = 5000

export class IdFiles<Item extends FileItem> {
  readonly #tree: IdTree<Item>
  readonly #vendor: IdVendor<Item>
  readonly #mutex = new KeyedMutex()
  readonly #replacements: IdReplacements
  readonly #orphans = new BackgroundDeleter<string>((id) => this.#removeOrphan(id))
  /** Orphans that were found, and their folders. */
  readonly #foldersOfOrphans = new Map<string, string>()
  /** Staged names of uploads that have failed, so that it is not known whether there is a file. */
  readonly #abandoned = new Set<string>()
  /** Files by their ids, as they were last reported: the content of an id does not change. */
  readonly #facts = new LRUCache<string, Item>({ maxSize: maxFacts, sizeCalculation: () => 1 })

  constructor(private readonly options: IdFilesOptions<Item>) {
    const { vendor, rootId, lag, absence = 0, env } = options
    this.#vendor = vendor
    this.#tree = new IdTree<Item>({
      rootId,
      lag,
      absence,
      env,
      list: (id, listOptions) => this.#listed(id, listOptions),
    })
    const placeOf = async (id: string): Promise<ItemPlace | undefined> => undefinedIfMissing(vendor.info(id, {}))
    const remove = (item: Pick<Item, 'id' | 'parent'>, signal?: AbortSignal) => this.#removeIfPresent(item, { signal })
    const rename = vendor.rename.bind(vendor)
    const calls = { rename, move: vendor.move.bind(vendor), remove, placeOf }
    this.#replacements = new IdReplacements({ calls, env })
  }

  /** Completes what an earlier run has left. Called once, before any other method. */
  async resume(): Promise<void> {
    await this.#replacements.load()
    await this.#replacements.settle()
  }

  /** Resolves when nothing is done in the background any more that has to be stored. */
  async close(): Promise<void> {
    await this.#replacements.close()
  }

  async stat(path: Path, options: CallOptions = {}): Promise<Entry> {
    throwIfAborted(options.signal)
    if (path === '/') return this.#root(options)
    return this.#vendor.entryOf(nameOf(path), await this.item(path, options))
  }

  async #root({ signal }: CallOptions): Promise<Entry> {
    await rootExists(this.#vendor.assertFolder(this.options.rootId, signal))
    return { name: '', kind: 'folder', size: 0, modified: new Date(0) }
  }

  async *pages(path: Path, options: ListOptions = {}): AsyncGenerator<readonly Entry[]> {
    for await (const page of this.#tree.pages(path, options)) {
      yield page.map(({ name, item }) => this.#vendor.entryOf(name, item))
    }
  }

  /** The item at a path, as the vendor reports it now. Not for the root. */
  item(path: Path, options: CallOptions = {}): Promise<Item> {
    return this.#tree.with(path, (located) => this.#current(path, located, options), options)
  }

  /**
   * Calls `work` with the file at a path, which may have been moved or removed since it was reported: if `work` rejects
   * with `not_found`, the file is looked for again, as by `IdTree.with`. Rejects with `is_folder`.
   */
  file<T>(path: Path, work: (item: Item) => Promise<T>, options: CallOptions = {}): Promise<T> {
    throwIfAborted(options.signal)
    const ofFile = async (located: Located<Item>) => {
      if (located.kind === 'folder') throw new GatewayError('is_folder')
      return work(this.#facts.get(located.id) ?? (await this.#current(path, located, options)))
    }
    return this.#tree.with(path, ofFile, options)
  }

  /** The id of a folder. Rejects with `not_found` and `not_folder`. */
  async folderId(path: Path, options: CallOptions = {}): Promise<string> {
    const located = await this.#tree.find(path, options)
    if (!located) throw new GatewayError('not_found')
    if (located.kind !== 'folder') throw new GatewayError('not_folder')
    return located.id
  }

  async mkdir(path: Path, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    const make = async () => {
      if (await this.#itemOrUndefined(path, options)) throw new GatewayError('exists')
      const name = this.#tree.newName(path)
      const id = await this.#inParent(path, (parent) => this.#vendor.makeFolder(parent, name, options), options)
      this.#tree.added(path, { id, kind: 'folder' })
    }
    await this.#mutex.run(path, make, options.signal)
  }

  async remove(path: Path, options: CallOptions = {}): Promise<void> {
    const item = await this.item(path, options)
    if (item.kind === 'folder' && !(await this.#tree.isEmpty(path, options))) throw new GatewayError('not_empty')
    await this.#removeAt(path, item, options)
  }

  async removeTree(path: Path, options: CallOptions = {}): Promise<void> {
    await this.#removeAt(path, await this.item(path, options), options)
  }

  async move(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    const moved = await this.item(from, options)
    const { id: folder } = await this.#tree.folderOf(parentOf(to), options)
    const old = await this.#itemOrUndefined(to, options)
    if (old?.kind === 'folder') throw new GatewayError('is_folder')
    if (old && moved.kind === 'folder') throw new GatewayError('exists')
    const target = { parent: folder, name: this.#tree.newName(to) }
    const isFree = async (name: string) =>
      !(await this.#itemOrUndefined(childOf(parentOf(to), escapeName(name)), options))
    const places = await placesBetween(moved, target, isFree, this.#tree.newName(siblingPathOf(from, 'kept')))
    await this.#attempt([from, to], () => this.#replacements.run({ id: moved.id, places, replaced: old }, moved))
    this.#tree.moved(from, to)
  }

  /**
   * A place for a new file that will be published at `path`. Rejects with `parent_missing`, `not_folder`, `is_folder`
   * and `exists`, as `Driver.write`.
   */
  async stage(path: Path, options: WriteOptions = {}): Promise<Staging> {
    const { signal } = options
    throwIfAborted(signal)
    this.#tree.newName(path)
    const old = await this.#replaceable(path, options)
    const { id } = await this.#tree.folderOf(parentOf(path), { signal })
    return { folder: id, name: stagedName(this.options.env.instance.name), replaces: old !== undefined }
  }

  /**
   * Publishes the complete staged file with this id. `content`: what an entry has of it, for the case that the vendor
   * does not report it yet. Rejects as `Driver.write` does, but not once it is published. The staged file is not
   * removed then.
   */
  async publish(
    path: Path,
    id: string,
    staging: Staging,
    content: Pick<Entry, 'size' | 'revision' | 'hashes'>,
    options: WriteOptions = {},
  ): Promise<Entry> {
    const { signal, beforePublish } = options
    throwIfAborted(signal)
    await beforePublish?.()
    const publish = async () => {
      // Not listed once more for this: a file that another program has put there since is kept, beside the new one.
      const mayReplace = staging.replaces || this.#tree.isKnown(path)
      const old = mayReplace ? await this.#replaceable(path, options) : undefined
      const { id: parent } = await this.#tree.folderOf(parentOf(path), { signal })
      const target = { parent, name: this.#tree.newName(path) }
      const from = { parent: staging.folder, name: staging.name }
      await this.#attempt([path], () => this.#replacements.run({ id, places: [target], replaced: old }, from))
      this.#tree.added(path, { id, kind: 'file' })
      const published = await this.#published(id, target)
      if (!published) return { ...content, name: nameOf(path), kind: 'file' as const, modified: new Date() }
      this.#tree.added(path, { id, kind: 'file' }, published)
      return this.#vendor.entryOf(nameOf(path), published)
    }
    return this.#mutex.run(path, publish, signal)
  }

  /**
   * Resolves to the result of `store`, which makes the staged file. If it fails and may have made the file
   * nevertheless, looks for it in the folder, and resolves to its id. `isWhole`: whether an item has the content of the
   * file. Rejects with the error of `store`, and with `parent_missing` if the folder does not exist any more.
   */
  async stored<Result>(
    { folder, name }: Pick<Staging, 'folder' | 'name'>,
    isWhole: (item: Item) => boolean,
    store: () => Promise<Result>,
  ): Promise<Result | string> {
    try {
      return await store()
    } catch (error) {
      // Also `not_found`: an answer that names the new file may be ahead of the call that describes it.
      if (!isGatewayError(error, 'not_found', 'unavailable', 'timeout')) throw error
      const found = await this.#find(folder, (item) => item.name === name && isWhole(item)).catch((reason: unknown) => {
        throw isGatewayError(reason, 'not_found') ? new GatewayError('parent_missing', { cause: error }) : error
      })
      if (!found) throw error
      return found.id
    }
  }

  /** The staged file of this name, as its folder is listed now; undefined if there is none. */
  async staged(
    { folder, name }: Pick<Staging, 'folder' | 'name'>,
    options: CallOptions = {},
  ): Promise<Item | undefined> {
    return undefinedIfMissing(this.#find(folder, (item) => item.name === name && item.kind === 'file', options))
  }

  /** The item of a folder that is wanted, as it is listed now. Rejects with `not_found` if there is no folder. */
  async #find(folder: string, isWanted: (item: Item) => boolean, options: CallOptions = {}): Promise<Item | undefined> {
    for await (const page of this.#vendor.list(folder, { ...options, refresh: true })) {
      const item = page.find(isWanted)
      if (item) return item
    }
    return undefined
  }

  /** The file that was published at a place just now; undefined if the vendor does not report it. Never rejects. */
  async #published(id: string, place: ItemPlace): Promise<Item | undefined> {
    const missing = () => undefined
    const item =
      (await this.#vendor.info(id, {}).catch(missing)) ??
      (await this.#find(place.parent, (each) => each.id === id).catch(missing))
    // It may still be reported under its staged name.
    return item && { ...item, ...place }
  }

  /**
   * An upload has failed: its file is removed in the background, now or when it is listed. If it may have been
   * published, it is left alone until that is known.
   */
  abandon({ folder, name }: Pick<Staging, 'folder' | 'name'>, id?: string): void {
    if (id !== undefined && !this.#replacements.isNeeded(id)) {
      this.#enqueue(id, folder)
      return
    }
    this.#abandoned.add(name)
    dropOldest(this.#abandoned, maxAbandoned)
  }

  /** The members of a folder, without staged files. Those that no run needs any more are removed. */
  async *#listed(id: string, options: Pick<ListOptions, 'refresh' | 'signal'>): AsyncGenerator<readonly Item[]> {
    for await (const page of this.#vendor.list(id, options)) {
      const visible = page.filter(({ name }) => stagingRun(name) === undefined)
      for (const item of page.length === visible.length ? [] : page) await this.#sweep(item, id)
      for (const item of visible) this.#remember(item)
      yield visible
    }
  }

  async #sweep({ id, name }: Item, folder: string): Promise<void> {
    const { env } = this.options
    if (!this.#abandoned.has(name) && !isOrphan(name, env.instance)) return
    const tokens = await env.resumableUploads()
    // Tokens of uploads have the staged name in them.
    if (!tokens.some((token) => token.includes(name))) this.#enqueue(id, folder)
  }

  #enqueue(id: string, folder: string): void {
    this.#foldersOfOrphans.set(id, folder)
    this.#orphans.enqueue(id)
  }

  async #removeOrphan(id: string): Promise<void> {
    const parent = this.#foldersOfOrphans.get(id)
    this.#foldersOfOrphans.delete(id)
    if (this.#replacements.isNeeded(id)) return
    // It may have been published since.
    const item = await undefinedIfMissing(this.#vendor.info(id, {}))
    if (item && parent !== undefined && stagingRun(item.name) !== undefined) await this.#removeIfPresent(item, {})
  }

  /** Rejects with `not_found` if the item has been renamed or moved, so that another one may be at the path now. */
  async #current(path: Path, { id, item }: Located<Item>, { signal }: CallOptions): Promise<Item> {
    if (item) return item
    const found = await this.#vendor.info(id, { signal })
    const folder = await this.#tree.find(parentOf(path), { signal })
    // Some vendors do not report the folder of every item.
    const isElsewhere = found.parent !== '' && found.parent !== folder?.id
    if (isElsewhere || !isShownAs(found, nameOf(path))) throw new GatewayError('not_found')
    this.#remember(found)
    return found
  }

  #remember(item: Item): void {
    if (item.kind !== 'file') return
    this.#facts.set(item.id, item)
  }

  #itemOrUndefined(path: Path, options: CallOptions): Promise<Item | undefined> {
    return undefinedIfMissing(this.item(path, options))
  }

  /** The file that a write would replace. Rejects with `is_folder`, and with `exists` if `createOnly` is set. */
  async #replaceable(path: Path, { createOnly, signal }: WriteOptions): Promise<Item | undefined> {
    await this.#tree.folderOf(parentOf(path), { signal })
    const old = await this.#itemOrUndefined(path, { signal })
    if (old?.kind === 'folder') throw new GatewayError('is_folder')
    if (old && createOnly === true) throw new GatewayError('exists')
    return old
  }

  /** Calls `work` with the id of the parent folder of a path. */
  async #inParent<T>(path: Path, work: (parent: string) => Promise<T>, options: CallOptions): Promise<T> {
    await this.#tree.folderOf(parentOf(path), options)
    try {
      return await this.#tree.with(parentOf(path), ({ id }) => work(id), options)
    } catch (error) {
      throw isGatewayError(error, 'not_found') ? new GatewayError('parent_missing', { cause: error }) : error
    }
  }

  async #removeAt(path: Path, item: Item, options: CallOptions): Promise<void> {
    throwIfAborted(options.signal)
    await this.#removeIfPresent(item, options)
    this.#tree.removed(path)
  }

  async #removeIfPresent(item: Pick<Item, 'id' | 'parent'>, options: CallOptions): Promise<void> {
    await undefinedIfMissing(this.#vendor.remove(item, options))
  }

  /** Runs a change of these paths. If it fails, it is not known what is there. */
  async #attempt(paths: readonly Path[], change: () => Promise<void>): Promise<void> {
    try {
      await change()
    } catch (error) {
      for (const path of paths) this.#tree.forget(path)
      throw error
    }
  }
}
