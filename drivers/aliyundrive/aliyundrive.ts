/**
 * The driver `AliyundriveOpen`.
 *
 * Several entries of a folder may have one name there. A file that replaces another one is uploaded without a name,
 * completed beside the old one under the same name, which it then has because it is the newer one, and the old one is
 * removed by its id. If the gateway is killed before that, the next run removes it (`IdReplacements`); whatever
 * happens, the old file or the new one is complete. A file that the server knows may have its name from the answer to
 * the call that asks for it, so `beforePublish` is called before that.
 */
import { Readable } from 'node:stream'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { DirectUrl, Upload, UploadPlan, Usage } from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, ListOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import type { Traits } from '../../src/contract/traits.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { childOf, nameOf, parentOf, siblingPathOf, type Path } from '../../src/base/path.js'
import { placesBetween, type IdReplacement, type IdReplacements, type ItemPlace } from '../lib/cloud/id-replacements.js'
import { rootExists, type IdTree, type Located } from '../lib/cloud/id-tree.js'
import { escapeName } from '../lib/cloud/shown-names.js'
import { contentRequest } from '../lib/http/http-content.js'
import type { KeyedMutex } from '../lib/keyed-mutex.js'
import { resumableUpload } from '../lib/streams/parts.js'
import { digestOf } from '../lib/streams/source-digest.js'
import type { AliyundriveDownloads } from './downloads.js'
import type { BegunUpload, DriveApi } from './drive-api.js'
import { isRefusal, isUnanswered, protocolViolation } from './errors.js'
import type { AliyundriveOptions } from './index.js'
import { entryOf, type AliyundriveItem } from './items.js'
import { maxParts, tokenOf, type AliyundriveUploads, type UploadedFile } from './uploads.js'

type Entity = Located<AliyundriveItem>

export interface AliyundriveParts {
  readonly options: AliyundriveOptions
  readonly api: DriveApi
  readonly tree: IdTree<AliyundriveItem>
  readonly uploads: AliyundriveUploads
  readonly downloads: AliyundriveDownloads
  readonly replacements: IdReplacements
  readonly mutex: KeyedMutex
  /** Closes all of these. */
  readonly close: () => Promise<void>
}

export class AliyundriveDriver implements Driver {
  readonly traits: Partial<Traits>
  readonly #tree: IdTree<AliyundriveItem>

  constructor(private readonly parts: AliyundriveParts) {
    this.#tree = parts.tree
    const { rapid_upload: isRapid, order_by: order } = parts.options
    // Only a source that can be read more than once can be asked for.
    this.traits = { listsInOrder: order !== '', ...(isRapid && { writeNeeds: 'reread' as const }) }
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    throwIfAborted(signal)
    const { id, item } = await this.#tree.look(path, { signal })
    if (item) return entryOf(nameOf(path), item)
    await rootExists(this.parts.api.assertFolder(id, signal))
    return { name: '', kind: 'folder', size: 0, modified: new Date(0) }
  }

  async *pages(path: Path, options: ListOptions = {}): AsyncGenerator<readonly Entry[]> {
    for await (const page of this.#tree.pages(path, options)) yield page.map(({ name, item }) => entryOf(name, item))
  }

  // Content

  async read(path: Path, range?: ByteRange, { signal }: CallOptions = {}): Promise<Readable> {
    throwIfAborted(signal)
    return this.#withFile(
      path,
      async ({ id, item }) => {
        const request = contentRequest(range, item?.size, signal)
        return request ? this.parts.downloads.read(id, request) : Readable.from([], { objectMode: false })
      },
      signal,
    )
  }

  /** Links are handed out for a minute only, as the vendor's own clients use them, so their expiry is not reported. */
  async directUrl(path: Path, { signal }: CallOptions = {}): Promise<DirectUrl> {
    throwIfAborted(signal)
    return this.#withFile(
      path,
      async ({ id }) => ({ url: await this.parts.downloads.urlOf(id, nameOf(path), signal) }),
      signal,
    )
  }

  // Writing

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal, beforePublish, modified } = options
    throwIfAborted(signal)
    const { size } = source
    if (size === undefined) throw new GatewayError('unsupported', { reason: 'the size of the file has to be known' })
    const { file, begun } = await this.#begin(path, { size, source, modified }, signal)
    if (!begun) return this.#publishKnown(path, file, source, options)
    await this.parts.uploads.send(begun, size, await source.read(undefined, { signal }), signal)
    await beforePublish?.()
    return this.#publish(path, file, options, async () => begun)
  }

  async upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    const { size, source, resumeToken } = plan
    const { signal, beforePublish, modified } = options
    throwIfAborted(signal)
    if (size === 0) throw new GatewayError('unsupported')
    await this.#assertReplaceable(path, options)
    const common = { size, partLength: this.parts.uploads.partLengthOf(size), maxParts, parallel: 1, signal }
    const content = { size, source, modified }
    const place = { ...content, ...(await this.#placeOf(path, signal)) }
    const resumed = resumeToken === undefined ? undefined : await this.parts.uploads.resume(resumeToken, place, signal)
    const { file, begun } = resumed ? { file: place, begun: resumed.upload } : await this.#begin(path, content, signal)
    if (!begun && source) {
      const commit = () => this.#publishKnown(path, file, source, options)
      // Nothing is stored that a later run could find: the token leads to none.
      return resumableUpload({ ...common, token: 'known', committedOffset: size, send: async () => undefined, commit })
    }
    if (!begun) throw new GatewayError('unsupported')
    const commit = async () => {
      await beforePublish?.()
      return this.#publish(path, file, options, async () => begun)
    }
    const send = this.parts.uploads.sender(begun, size)
    return resumableUpload({
      ...common,
      token: tokenOf(begun, file),
      committedOffset: resumed?.stored ?? 0,
      send,
      commit,
    })
  }

  /** The server discards uploads that are not completed by itself: the API has no call for it. */
  dropUpload(): Promise<void> {
    return Promise.resolve()
  }

  /** Begins an upload into the folder of a path. `begun` is undefined if the server may know the file. */
  async #begin(
    path: Path,
    content: Omit<UploadedFile, 'folder' | 'name'>,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly file: UploadedFile; readonly begun: BegunUpload | undefined }> {
    return this.#inParent(path, signal, async ({ id: folder }) => {
      const file = { ...content, folder, name: this.#tree.newName(path) }
      return { file, begun: await this.parts.uploads.begin(file, signal) }
    })
  }

  /** Publishes a file that the server may know; sends it if it does not. */
  async #publishKnown(path: Path, file: UploadedFile, source: Source, options: WriteOptions): Promise<Entry> {
    const { uploads } = this.parts
    const { signal } = options
    const sha1 = await digestOf(source, 'sha1', signal)
    await options.beforePublish?.()
    return this.#publish(path, file, options, async (oldId) => {
      const begun = await uploads.beginKnown({ ...file, source }, sha1, oldId, signal)
      if (!begun.isKnown) await uploads.send(begun, file.size, await source.read(undefined, { signal }), signal)
      return begun
    })
  }

  /** Completes an upload, and removes the file that it replaces. */
  async #publish(
    path: Path,
    { folder, name, size }: UploadedFile,
    options: WriteOptions,
    finished: (oldId: string | undefined) => Promise<BegunUpload>,
  ): Promise<Entry> {
    const { api, mutex, uploads, replacements } = this.parts
    const { signal } = options
    const publish = async () => {
      const old = await this.#assertReplaceable(path, options, true)
      if ((await this.#placeOf(path, signal)).folder !== folder) throw new GatewayError('parent_missing')
      const upload = await finished(old?.id)
      const complete = async () => {
        const item = await uploads.complete(upload, folder, signal)
        if (item.size === size) return item
        await api.remove(item.id)
        throw protocolViolation('has stored another number of bytes')
      }
      const item = old
        ? await replacements.publish(replacementOf(upload.fileId, { parent: folder, name }, old), complete)
        : await complete()
      this.#tree.added(path, item, item)
      if (old) this.parts.downloads.forget(old.id)
      return entryOf(nameOf(path), item)
    }
    return mutex.run(path, () => this.#attempt([path], publish), signal)
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    const make = async () => {
      if (await this.#current(path, signal)) throw new GatewayError('exists')
      const name = this.#tree.newName(path)
      await this.#inParent(path, signal, async ({ id: folder }) => {
        const id = await this.#confirmed(
          () => this.parts.api.makeFolder({ folder, name }, signal),
          (item) => (item.name === name && item.kind === 'folder' ? item.id : undefined),
          folder,
        )
        this.#tree.added(path, { id, kind: 'folder' })
      })
    }
    await this.parts.mutex.run(path, () => this.#attempt([path], make), signal)
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    const { id, kind } = await this.#tree.look(path, { signal })
    if (kind === 'folder' && !(await this.#tree.isEmpty(path, { signal }))) throw new GatewayError('not_empty')
    await this.#remove(path, id, signal)
  }

  async removeTree(path: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    // A new listing is needed, because another program may have moved the item away.
    const { id } = await this.#tree.look(path, { signal })
    await this.#remove(path, id, signal)
  }

  async #remove(path: Path, id: string, signal: AbortSignal | undefined): Promise<void> {
    const remove = async () => {
      const { folder } = await this.#placeOf(path, signal)
      await this.parts.api.remove(id, signal).catch(async (error: unknown) => {
        if (!isUnanswered(error) || (await this.parts.api.has(folder, id, signal))) throw error
      })
      this.parts.downloads.forget(id)
    }
    await this.#attempt([path], remove)
    this.#tree.removed(path)
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    const move = async () => {
      const entity = await this.#tree.look(from, { signal })
      const old = await this.#current(to, signal)
      if (old?.kind === 'folder') throw new GatewayError('is_folder')
      if (old && entity.kind === 'folder') throw new GatewayError('exists')
      const { folder, name } = await this.#placeOf(to, signal)
      const source = await this.#placeOf(from, signal)
      const start = { parent: source.folder, name: entity.item?.name ?? source.name }
      const isFree = async (other: string) => !(await this.#current(childOf(parentOf(to), escapeName(other)), signal))
      const spareName = this.#tree.newName(siblingPathOf(from, 'kept'))
      const places = await placesBetween(start, { parent: folder, name }, isFree, spareName)
      const replaced = old && { id: old.id, parent: folder }
      await this.parts.replacements.run({ id: entity.id, places, replaced }, start)
      this.#tree.moved(from, to, entity.item && { ...entity.item, name })
    }
    await this.parts.mutex.run(to, () => this.#attempt([from, to], move), signal)
  }

  /**
   * The API copies a file under its own name, and then renames the copy. Rejects with `unsupported` if another file in
   * the target folder has that name, which the copy would hide meanwhile.
   */
  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    const { signal, beforePublish } = options
    throwIfAborted(signal)
    const source = await this.#tree.look(from, { signal })
    if (source.kind === 'folder') throw new GatewayError('is_folder')
    await this.#assertReplaceable(to, options)
    const copyPath = childOf(parentOf(to), escapeName(source.item?.name ?? nameOf(from)))
    const hidden = copyPath === to ? undefined : await this.#current(copyPath, signal)
    if (hidden && hidden.id !== source.id) throw new GatewayError('unsupported')
    await beforePublish?.()
    await this.parts.mutex.run(to, () => this.#attempt([to], () => this.#copyTo(source, to, options)), signal)
  }

  async #copyTo({ id, item }: Entity, to: Path, options: WriteOptions): Promise<void> {
    const { api, replacements } = this.parts
    const { signal } = options
    const old = await this.#assertReplaceable(to, options, true)
    const { folder, name } = await this.#placeOf(to, signal)
    const isCopy = (each: AliyundriveItem) =>
      each.name === item?.name && each.sha1 === item.sha1 && each.id !== id && each.id !== old?.id ? each.id : undefined
    const by = await this.#confirmed(() => api.copy(id, folder, signal), isCopy, folder)
    const isRenamed = (each: AliyundriveItem) => (each.id === by && each.name === name ? by : undefined)
    const publish = async () => {
      if (item?.name === name) return
      try {
        await this.#confirmed(() => api.rename(by, name, signal), isRenamed, folder)
      } catch (error) {
        if (isRefusal(error)) await api.remove(by)
        throw error
      }
    }
    if (old) await replacements.publish(replacementOf(by, { parent: folder, name }, old), publish)
    else await publish()
    this.#tree.added(to, { id: by, kind: 'file' })
  }

  async usage({ signal }: CallOptions = {}): Promise<Usage> {
    return this.parts.api.usage(signal)
  }

  async close(): Promise<void> {
    await this.parts.close()
  }

  // Calls whose outcome may be unknown

  /** Runs a change of these paths. If it fails, it is not known what is there. */
  async #attempt<T>(paths: readonly Path[], work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      for (const path of paths) this.#tree.forget(path)
      throw error
    }
  }

  /** The result of a change. If its answer is lost, it is what `resultOf` finds among the items of the folder. */
  async #confirmed<T>(
    change: () => Promise<T>,
    resultOf: (item: AliyundriveItem) => T | undefined,
    folder: string,
  ): Promise<T> {
    try {
      return await change()
    } catch (error) {
      const found = isUnanswered(error) ? await this.parts.api.find(folder, resultOf) : undefined
      if (found === undefined) throw error
      return found
    }
  }

  // Lookups

  async #withFile<T>(path: Path, work: (file: Entity) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const ofFile = (entity: Entity) => {
      if (entity.kind === 'folder') throw new GatewayError('is_folder')
      return work(entity)
    }
    return this.#tree.with(path, async (entity) => ofFile(entity), { signal })
  }

  /** A change in the parent folder of a path. */
  async #inParent<T>(path: Path, signal: AbortSignal | undefined, work: (parent: Entity) => Promise<T>): Promise<T> {
    await this.#tree.folderOf(parentOf(path), { signal })
    return this.#tree.with(parentOf(path), work, { signal }).catch((error: unknown) => {
      throw isGatewayError(error, 'not_found') ? new GatewayError('parent_missing', { cause: error }) : error
    })
  }

  /** The id of the folder of a path, and the name that the server knows. */
  async #placeOf(path: Path, signal: AbortSignal | undefined) {
    const { id: folder } = await this.#tree.folderOf(parentOf(path), { signal })
    return { folder, name: this.#tree.newName(path) }
  }

  /** Returns the present item at a path; undefined if there is none. */
  #current(path: Path, signal: AbortSignal | undefined): Promise<Entity | undefined> {
    return undefinedIfMissing(this.#tree.look(path, { signal }))
  }

  /**
   * The file that a write would replace; `isNow`: as it is listed now, not as it was a while ago. Rejects with
   * `is_folder`, and with `exists` if `createOnly` is set.
   */
  async #assertReplaceable(path: Path, options: WriteOptions, isNow = false): Promise<Entity | undefined> {
    const { createOnly, signal } = options
    await this.#tree.folderOf(parentOf(path), { signal })
    const old = isNow ? await this.#current(path, signal) : await this.#tree.find(path, { signal })
    if (old?.kind === 'folder') throw new GatewayError('is_folder')
    if (old && createOnly === true) throw new GatewayError('exists')
    return old
  }
}

/** A replacement of a file by another one in its place. */
function replacementOf(id: string, place: ItemPlace, old: Entity): IdReplacement {
  return { id, places: [place], replaced: { id: old.id, parent: place.parent } }
}
