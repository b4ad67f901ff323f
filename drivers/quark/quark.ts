/**
 * The drivers `Quark` and `UC`. Entries have ids, and a new content has a new id. A file is uploaded under a staged
 * name beside its target, and renamed when it is complete: see `IdReplacements` for how it replaces another.
 */
import { LRUCache } from 'lru-cache'
import mimeTypes from 'mime-types'
import type { Readable } from 'node:stream'
import { throwIfAborted, untilAborted } from '../../src/base/cancellation.js'
import type {
  ByteRange,
  CallOptions,
  ListOptions,
  ReadOptions,
  Source,
  WriteOptions,
} from '../../src/contract/call-options.js'
import type { DirectUrl, DirectUrlOptions, Upload, UploadPlan, Usage } from '../../src/contract/capabilities.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { nameOf, parentOf, siblingPathOf, type Path } from '../../src/base/path.js'
import type { Traits } from '../../src/contract/traits.js'
import { maxOssParts } from '../lib/cloud/aliyun-oss.js'
import type { ApiClient } from '../lib/json-api/api-client.js'
import { placesBetween, type IdReplacements } from '../lib/cloud/id-replacements.js'
import { IdTree, rootExists, type Located } from '../lib/cloud/id-tree.js'
import { KeyedMutex } from '../lib/keyed-mutex.js'
import { BodyReader, resumableUpload, sendParts, withBody } from '../lib/streams/parts.js'
import { stagedName, stagingRun } from '../lib/staged-files/staged-names.js'
import type { FileHashes, QuarkApi } from './api.js'
import type { Downloads } from './downloads.js'
import { hasOrder, type QuarkOptions } from './index.js'
import type { QuarkItem } from './items.js'
import { UnpublishedFiles, type QuarkUpload, type Uploads } from './uploads.js'
import type { QuarkVendor } from './vendor.js'

/** Milliseconds that an aborted write waits for its cleanup. After that, the cleanup continues in the background. */
const cleanupWait = 500
/** Maximum number of entries whose times are remembered. */
const maxTimes = 10_000
const defaultMime = 'application/octet-stream'

export interface QuarkDependencies {
  readonly vendor: QuarkVendor
  readonly options: QuarkOptions
  readonly env: DriverEnv
  readonly client: ApiClient<string>
  readonly api: QuarkApi
  readonly replacements: IdReplacements
  readonly downloads: Downloads
  readonly uploads: Uploads
}

/** The target of a new file. */
interface WriteTarget {
  readonly parent: Located<QuarkItem>
  /** The file that it replaces. */
  readonly old: Located<QuarkItem> | undefined
}

export class QuarkDriver implements Driver {
  readonly traits: Partial<Traits>
  readonly directUrl?: (path: Path, options?: DirectUrlOptions) => Promise<DirectUrl>
  readonly #api: QuarkApi
  readonly #tree: IdTree<QuarkItem>
  readonly #mutex = new KeyedMutex()
  readonly #orphans: UnpublishedFiles
  /** Ids of files that are being uploaded. */
  readonly #uploading = new Set<string>()
  /**
   * When the content of files that this driver has uploaded or renamed was written, by their ids: the service reports
   * when they were renamed.
   */
  readonly #times = new LRUCache<string, Date>({ maxSize: maxTimes, sizeCalculation: () => 1 })

  constructor(private readonly dependencies: QuarkDependencies) {
    const { vendor, options, env, api, replacements } = dependencies
    const { listingLag: lag } = vendor
    this.#api = api
    this.traits = { listingLag: lag, listsInOrder: hasOrder(options) }
    this.#tree = new IdTree({
      rootId: options.root_folder_id,
      list: (id, { signal }) => this.#list(id, signal),
      lag,
      env,
    })
    const isNeeded = (id: string) => this.#uploading.has(id) || replacements.isNeeded(id)
    this.#orphans = new UnpublishedFiles(env.instance, lag, (id) => api.remove(id), isNeeded)
    if (options.use_transcoding_address === true && vendor.redirects)
      this.directUrl = (path, call) => this.#transcoded(path, call)
  }

  async stat(path: Path, options: CallOptions = {}): Promise<Entry> {
    throwIfAborted(options.signal)
    if (path === '/') {
      await rootExists(this.#api.assertFolder(this.dependencies.options.root_folder_id, options.signal))
      return { name: '', kind: 'folder', size: 0, modified: new Date(0) }
    }
    const { item } = await this.#tree.look(path, options)
    // Only of an entry that was moved just now.
    if (!item) throw new GatewayError('not_found')
    return entryOf(nameOf(path), item)
  }

  async *pages(path: Path, options: ListOptions = {}): AsyncGenerator<readonly Entry[]> {
    const { only_list_video_file: onlyVideos } = this.dependencies.options
    for await (const page of this.#tree.pages(path, options)) {
      const shown = onlyVideos ? page.filter(({ item }) => item.kind === 'folder' || item.isVideo) : page
      if (shown.length > 0) yield shown.map(({ name, item }) => entryOf(name, item))
    }
  }

  async read(path: Path, range?: ByteRange, options: ReadOptions = {}): Promise<Readable> {
    const { signal } = options
    throwIfAborted(signal)
    return this.#file(path, ({ id, item }) => this.dependencies.downloads.open(id, item?.size, range, options), signal)
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal, modified } = options
    throwIfAborted(signal)
    const work = async () => {
      await this.#place(path, options)
      const upload = await this.#begin(path, source, { modified, isResumable: false, signal })
      try {
        if (!upload.isFinished) await sendBody(upload, source, signal)
        return await this.#publish(path, upload, options)
      } finally {
        this.#release(upload)
      }
    }
    return untilAborted(work(), signal, { timeout: cleanupWait })
  }

  async upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    const { size, source, resumeToken } = plan
    const { signal, modified } = options
    if (!source || size === 0) throw new GatewayError('unsupported')
    const hashes = hashesOf(source)
    const { parent } = await this.#place(path, options)
    const { uploads } = this.dependencies
    const resumed =
      resumeToken === undefined ? undefined : await uploads.resume(resumeToken, { parentId: parent.id, size, hashes })
    if (!resumed && resumeToken !== undefined) await uploads.drop(resumeToken)
    const upload = resumed ?? (await this.#begin(path, source, { modified, isResumable: true, signal }))
    this.#uploading.add(upload.fileId)
    const { taskId, partSize } = upload.record.task
    const resumable = resumableUpload({
      token: taskId,
      size,
      partLength: partSize,
      committedOffset: upload.committedOffset,
      maxParts: maxOssParts,
      parallel: 1,
      send: (part, bytes, sendSignal) => upload.send(part, bytes, sendSignal),
      commit: () => this.#publish(path, upload, options),
      signal,
    })
    return { ...resumable, close: async () => this.#release(upload) }
  }

  async dropUpload(token: string): Promise<void> {
    await this.dependencies.uploads.drop(token)
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    const make = async () => {
      await this.#tree.folderOf(parentOf(path), { signal })
      if (await this.#tree.find(path, { signal })) throw new GatewayError('exists')
      const name = this.#tree.newName(path)
      const id = await this.#inParent(path, (parent) => this.#api.makeFolder(parent.id, name, signal), signal)
      this.#added(path, { id, name, kind: 'folder', size: 0, modified: new Date(), isVideo: false })
    }
    await this.#mutex.run(path, make, signal)
  }

  async remove(path: Path, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    const { id, kind } = await this.#tree.look(path, options)
    if (kind === 'folder' && !(await this.#tree.isEmpty(path, options))) throw new GatewayError('not_empty')
    await this.#remove(path, id, options)
  }

  async removeTree(path: Path, options: CallOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    // A new listing is needed, because another program may have moved the item away.
    const { id } = await this.#tree.look(path, options)
    await this.#remove(path, id, options)
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    const move = async () => {
      const moved = await this.#tree.look(from, { signal })
      const old = await undefinedIfMissing(this.#tree.look(to, { signal }))
      const source = await this.#tree.folderOf(parentOf(from), { signal })
      const { id: parent } = await this.#tree.folderOf(parentOf(to), { signal })
      if (old?.kind === 'folder') throw new GatewayError('is_folder')
      if (old && moved.kind === 'folder') throw new GatewayError('exists')
      const name = this.#tree.newName(to)
      // The name that is shown may have a part that is made of the id.
      const start = { parent: source.id, name: moved.item?.name ?? this.#tree.newName(from) }
      // In between, the entry has a name that is free in both folders.
      const places = await placesBetween(start, { parent, name }, async () => false, nameOf(siblingPathOf(to, 'kept')))
      await this.dependencies.replacements.run({ id: moved.id, places, replaced: old && { id: old.id, parent } }, start)
      const item = moved.item && { ...moved.item, name }
      if (item) this.#remember(item)
      this.#tree.moved(from, to, item)
    }
    await this.#mutex.run(to, move, signal)
  }

  async usage({ signal }: CallOptions = {}): Promise<Usage> {
    return this.#api.usage(signal)
  }

  async close(): Promise<void> {
    const { downloads, client, replacements } = this.dependencies
    downloads.close()
    const settled = replacements.close()
    await client.close()
    await settled
  }

  // Listings

  /** The members of a folder, without staged files. A file that is being replaced is listed under its name. */
  async *#list(id: string, signal: AbortSignal | undefined): AsyncGenerator<readonly QuarkItem[]> {
    const { replacements } = this.dependencies
    const items = await this.#api.members(id, signal)
    yield replacements
      .shown(items)
      .filter((item) => !this.#isStaged(item))
      .map((item) => ({ ...item, modified: this.#times.get(item.id) ?? item.modified }))
  }

  #isStaged(item: QuarkItem): boolean {
    if (item.kind === 'folder' || stagingRun(item.name) === undefined) return false
    this.#orphans.observe(item)
    return true
  }

  #added(path: Path, item: QuarkItem): void {
    this.#remember(item)
    this.#tree.added(path, item, item)
  }

  #remember({ id, modified }: QuarkItem): void {
    this.#times.set(id, modified)
  }

  #file<T>(path: Path, work: (located: Located<QuarkItem>) => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const ofFile = async (located: Located<QuarkItem>) => {
      if (located.kind === 'folder') throw new GatewayError('is_folder')
      return work(located)
    }
    return this.#tree.with(path, ofFile, { signal })
  }

  async #transcoded(path: Path, { signal }: CallOptions = {}): Promise<DirectUrl> {
    const url = await this.#file(
      path,
      ({ id }) => {
        const isVideo = mimeOf(path).startsWith('video/')
        return isVideo ? this.#api.transcodedUrl(id, signal) : Promise.resolve(undefined)
      },
      signal,
    )
    if (!url) throw new GatewayError('unsupported')
    return { url: url.href }
  }

  // Changes

  /** Rejects as `write` does before it reads the source. `isFresh`: by a new listing, also if the id is known. */
  async #place(path: Path, { createOnly, signal }: WriteOptions, isFresh = false): Promise<WriteTarget> {
    const old = isFresh
      ? await undefinedIfMissing(this.#tree.look(path, { signal }))
      : await this.#tree.find(path, { signal })
    const parent = await this.#tree.folderOf(parentOf(path), { signal })
    if (old?.kind === 'folder') throw new GatewayError('is_folder')
    if (old && createOnly === true) throw new GatewayError('exists')
    if (old) this.dependencies.replacements.assertSettled(old.id)
    return { parent, old }
  }

  async #begin(
    path: Path,
    source: Source,
    { modified, isResumable, signal }: WriteOptions & { readonly isResumable: boolean },
  ): Promise<QuarkUpload> {
    const { size } = source
    if (size === undefined) throw new GatewayError('unsupported', { detail: 'size_required' })
    const file = {
      stagedName: stagedName(this.dependencies.env.instance.name),
      mime: mimeOf(path),
      size,
      hashes: hashesOf(source),
      modified: modified ?? source.modified,
    }
    return this.#inParent(
      path,
      ({ id }) => this.dependencies.uploads.begin({ ...file, parentId: id }, isResumable, signal),
      signal,
    )
  }

  /** Calls `work` with the parent folder of a path, again if its id has become wrong. */
  async #inParent<T>(
    path: Path,
    work: (parent: Located<QuarkItem>) => Promise<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    try {
      return await this.#tree.with(parentOf(path), work, { signal })
    } catch (error) {
      throw isGatewayError(error, 'not_found') ? new GatewayError('parent_missing', { cause: error }) : error
    }
  }

  /** Completes the upload and gives the file its name. */
  async #publish(path: Path, upload: QuarkUpload, options: WriteOptions): Promise<Entry> {
    const { signal, beforePublish } = options
    await beforePublish?.()
    const publish = async () => {
      const { parent, old } = await this.#place(path, options, true)
      throwIfAborted(signal)
      // From here on it cannot be canceled: the service would continue.
      await upload.complete()
      const name = this.#tree.newName(path)
      // The folder may have been replaced by another since the upload began.
      const { parentId, stagedName: staged } = upload.record
      const replacement = {
        id: upload.fileId,
        places: [{ parent: parent.id, name }] as const,
        replaced: old && { id: old.id, parent: parent.id },
      }
      await this.dependencies.replacements.run(replacement, { parent: parentId, name: staged })
      upload.isPublished = true
      const { size } = upload.record
      const isVideo = upload.record.task.mime.startsWith('video/')
      const item: QuarkItem = { id: upload.fileId, name, kind: 'file', size, modified: new Date(), isVideo }
      this.#added(path, item)
      return entryOf(nameOf(path), item)
    }
    return this.#mutex.run(path, publish, signal)
  }

  /** The upload is not used any more. A file that it has left under its staged name is removed in the background. */
  #release({ fileId, isFinished, isPublished }: QuarkUpload): void {
    this.#uploading.delete(fileId)
    if (isFinished && !isPublished) this.#orphans.discard(fileId)
  }

  async #remove(path: Path, id: string, { signal }: CallOptions): Promise<void> {
    this.dependencies.replacements.assertSettled(id)
    await this.#api.remove(id, signal)
    this.#tree.removed(path)
  }
}

async function sendBody(upload: QuarkUpload, source: Source, signal: AbortSignal | undefined): Promise<void> {
  const { size, task } = upload.record
  if (size === 0) return
  const body = await source.read(undefined, { signal })
  const layout = { partLength: () => task.partSize, maxParts: maxOssParts, parallel: 1, firstPart: 1 }
  const send = (part: number, bytes: Buffer, sendSignal: AbortSignal) => upload.send(part, bytes, sendSignal)
  await withBody(body, signal, () => sendParts(new BodyReader(body, size), layout, send, signal))
}

function hashesOf({ hashes: { md5, sha1 } = {} }: Source): FileHashes {
  if (md5 === undefined || sha1 === undefined) throw new GatewayError('unsupported')
  return { md5, sha1 }
}

function mimeOf(path: Path): string {
  const type = mimeTypes.lookup(nameOf(path))
  return type === false ? defaultMime : type
}

function entryOf(name: string, { id, kind, size, modified }: QuarkItem): Entry {
  return { name, kind, size, modified, ...(kind === 'file' && { revision: id }) }
}
