/** Offline downloads by storages themselves: the tools that can, one download, and the folder that it fills. */
import { setTimeout as delay } from 'node:timers/promises'
import type { AnyDriverType, DownloadToolFacts } from '../contract/driver-type.js'
import { GatewayError, isGatewayError, isTransient } from '../base/errors.js'
import { childOf, cleanPath, isListableName, parentOf, root, type Path } from '../base/path.js'
import type { RemoteDownload } from '../contract/capabilities.js'
import { isRealFolder, contentVersion, type Entry } from '../contract/entry.js'
import type { Settings } from '../settings/settings.js'
import type { Mounts } from '../mounts/mounts.js'
import type { Storage } from '../storage/storage.js'
import type { TaskPlace, TaskRun } from '../tasks/task.js'
import type { DownloadPlan, RemotePlace } from './download.js'
import { assertNoCredentials, parseUrl } from '../net/web-address.js'
import { nameFor } from './temporary-folders.js'
import { follow } from './followed-download.js'
import type { Progress } from './tool.js'
import type { FetchedFile, FetchedFolder } from './fetched-tasks.js'

interface StorageToolsDependencies {
  readonly driverTypes: readonly AnyDriverType[]
  readonly mounts: Pick<Mounts, 'find' | 'rowOf' | 'rows' | 'storageOf'>
  readonly settings: Pick<Settings, 'get'>
}

interface StorageTool extends DownloadToolFacts {
  /** The name of the driver type. */
  readonly driver: string
}

/**
 * The tools: one for each type of driver that can download. A storage of that type downloads into the target folder if
 * it is its own, otherwise into a folder of its own from which the files are then transferred.
 */
export class StorageTools {
  readonly #tools: ReadonlyMap<string, StorageTool>

  constructor(private readonly dependencies: StorageToolsDependencies) {
    const tools = dependencies.driverTypes.flatMap(({ name, facts }) =>
      facts?.downloadTool ? [{ ...facts.downloadTool, driver: name }] : [],
    )
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]))
  }

  has(name: string): boolean {
    return this.#tools.has(name)
  }

  /** The names of the tools for which a storage runs. */
  get readyNames(): readonly string[] {
    const { mounts } = this.dependencies
    const running = mounts.rows().filter(({ id }) => mounts.storageOf(id)?.hasDownloads)
    const drivers = new Set(running.map(({ driver }) => driver))
    return [...this.#tools.values()].filter(({ driver }) => drivers.has(driver)).map(({ name }) => name)
  }

  /** Throws `invalid` if no storage can be asked for this address. The backend judges its scheme. */
  assertSupported(address: string): void {
    if (!/^[a-z][a-z0-9+.-]*:/i.test(address)) throw new GatewayError('invalid', { reason: 'this is no address' })
    // A line break would separate two addresses.
    if (/\p{Cc}/u.test(address)) throw new GatewayError('invalid', { reason: 'an address has no control characters' })
    const url = parseUrl(address)
    if (url) assertNoCredentials(url)
  }

  /**
   * Where the tool downloads for this target. Throws `unsupported` if the target is on a storage of another type and
   * the setting names no folder of a storage of this type, and as `Mounts.find`.
   */
  placeFor({ id, tool: name, to, policy }: DownloadPlan): RemotePlace {
    const tool = this.#toolOf(name)
    if (this.#isOf(tool, to)) return { ...this.#located(to), isTarget: true }
    const setting = this.dependencies.settings.get(tool.folderSetting).trim()
    if (setting === '') throw unsupportedTool(name)
    const { storageId, folder } = this.#located(this.#folderOf(tool, setting))
    return { storageId, folder: childOf(folder, nameFor(id, policy === 'delete_never')), isTarget: false }
  }

  /**
   * The key of the setting for the folder of the tool. Throws `unsupported` if `folder` is neither empty nor in a
   * storage of the tool.
   */
  settingFor(name: string, folder: string): string {
    const tool = this.#toolOf(name)
    if (folder.trim() !== '') this.#folderOf(tool, folder.trim())
    return tool.folderSetting
  }

  /** Throws `unavailable` if the storage does not run. */
  storageOf({ storageId }: RemotePlace): Storage {
    const storage = this.dependencies.mounts.storageOf(storageId)
    if (storage) return storage
    throw new GatewayError('unavailable', { reason: 'the storage that downloads does not run' })
  }

  #toolOf(name: string): StorageTool {
    const tool = this.#tools.get(name)
    if (tool) return tool
    throw unsupportedTool(name)
  }

  #folderOf(tool: StorageTool, setting: string): Path {
    const folder = cleanPath(setting)
    if (this.#isOf(tool, folder)) return folder
    throw new GatewayError('unsupported', { reason: `${tool.folderSetting} is not in a storage of ${tool.driver}` })
  }

  #isOf({ driver }: StorageTool, path: Path): boolean {
    return this.dependencies.mounts.rowOf(path)?.driver === driver
  }

  #located(path: Path): Pick<RemotePlace, 'storageId' | 'folder'> {
    const { storage, inner } = this.dependencies.mounts.find(path)
    return { storageId: storage.row.id, folder: inner }
  }
}

/** The error of a download by a tool whose storages are not involved. */
export function unsupportedTool(name: string): GatewayError {
  return new GatewayError('unsupported', {
    reason: `unsupported storage driver for offline download, only ${name} is supported`,
  })
}

interface StorageDownload {
  readonly tool: string
  readonly address: string
  readonly storage: Storage
  /** Maximum size in bytes. */
  readonly limit: number
  /** Stored by an earlier run, or new. */
  readonly place: RemotePlace
  /** Whether an earlier run has stored the place: the backend may have the download already. */
  readonly isKnown: boolean
  /** Stores the place; undefined: nothing was added. */
  readonly keep: (place: RemotePlace | undefined) => Promise<void>
}

/** Milliseconds between two calls about one download: most vendors allow few. */
const pollInterval = 3000
/** Maximum number of searches for a download that the backend says it has, while its list lags. */
const maxSearches = 5
/** Milliseconds for which a listing may lack what a backend says it has stored. */
const listingTimeout = 60_000

/**
 * Adds the download, and follows it until it is complete. Resolves to its place when the storage's listings show it.
 */
export async function fetchByStorage(download: StorageDownload, run: TaskRun): Promise<RemotePlace> {
  const { tool, address, storage, limit, keep } = download
  const { signal } = run
  const { folder, isTarget } = download.place
  let { place } = download
  let isKnown = download.isKnown
  let last: RemoteDownload | undefined
  const store = async (changed: RemotePlace) => {
    await keep(changed)
    place = changed
    isKnown = true
  }
  const find = () => storage.findDownload(folder, { id: place.downloadId, address }, { signal })
  const progress = async () => {
    last = isKnown ? await find() : undefined
    if (last && last.id !== place.downloadId) await store({ ...place, downloadId: last.id })
    return progressOf(last)
  }
  const start = async () => {
    const wasKnown = isKnown
    if (!isTarget) await makeFolder(storage, folder, signal)
    await store({ ...place, downloadId: undefined })
    try {
      await store({ ...place, downloadId: await storage.addDownload(folder, address, { signal }) })
    } catch (error) {
      if (wasKnown && isGatewayError(error, 'exists') && (await isListed(progress, signal))) return
      if (!isTransient(error)) {
        await keep(undefined)
        if (!isTarget) await storage.removeTree(folder, { signal })
      }
      throw error
    }
  }
  const remove = () => removeDownload(storage, place, address, signal)
  if (place.isComplete !== true) {
    await follow({ name: tool, pollInterval, limit, start, progress, remove }, run)
    storage.changedElsewhere(folder)
    if (isTarget) await untilShown(storage, folder, last?.name, signal)
    else await untilListed(storage, folder, last?.totalBytes ?? 0, signal)
    storage.changedElsewhere(folder)
    await store({ ...place, isComplete: true })
  }
  return place
}

/**
 * Removes a download from the list of the backend; one that is not complete, with its files. `address`: finds one whose
 * id was not stored.
 */
export async function removeDownload(
  storage: Storage,
  { folder, downloadId: id, isComplete }: RemotePlace,
  address: string,
  signal: AbortSignal,
): Promise<void> {
  if (isComplete === true && id === undefined) return
  // A later download of the same address may have the same id, but another folder.
  const found = await storage.findDownload(folder, { id, address }, { signal })
  if (found) await storage.removeDownload(folder, found.id, { withFiles: isComplete !== true, signal })
}

function progressOf(found: RemoteDownload | undefined): Progress {
  if (!found) return { state: 'unknown', text: 'not listed', totalBytes: 0, doneBytes: 0, seeded: 0 }
  const { state, totalBytes, doneBytes, error } = found
  const isEnded = state === 'done' || state === 'failed'
  return { state: isEnded ? state : 'working', text: state, totalBytes, doneBytes, seeded: 0, ...(error && { error }) }
}

/** Whether the backend's list shows the download within some polls. */
async function isListed(progress: () => Promise<Progress>, signal: AbortSignal): Promise<boolean> {
  for (let search = 1; ; search++) {
    if ((await progress()).state !== 'unknown') return true
    if (search === maxSearches) return false
    await delay(pollInterval, undefined, { signal })
  }
}

/** Creates the folder and its parents. An existing one is not an error. */
async function makeFolder(storage: Storage, folder: Path, signal: AbortSignal): Promise<void> {
  if (folder === root || (await storage.statOrUndefined(folder, { signal }))?.kind === 'folder') return
  await makeFolder(storage, parentOf(folder), signal)
  try {
    await storage.mkdir(folder, { signal })
  } catch (error) {
    // Another download has created a parent meanwhile.
    if (!isGatewayError(error, 'exists')) throw error
  }
}

/** Waits until the target folder shows the name, if the backend has reported one, or for as long as listings lag. */
async function untilShown(storage: Storage, folder: Path, name: string | undefined, signal: AbortSignal) {
  const { listingLag } = storage.traits
  const isNamed = name !== undefined && isListableName(name)
  const deadline = performance.now() + listingLag
  for (;;) {
    if (isNamed && (await storage.has(childOf(folder, name), { signal }))) return
    // The backend may have chosen another name, because this one was taken.
    const left = deadline - performance.now()
    if (left <= 0) return
    await delay(Math.min(pollInterval, left), undefined, { signal })
  }
}

/**
 * Waits until the listings of a folder that contains nothing else show all bytes, or the same for as long as they lag.
 * Rejects with `unavailable` if they show nothing.
 */
async function untilListed(storage: Storage, folder: Path, totalBytes: number, signal: AbortSignal) {
  const { listingLag } = storage.traits
  const deadline = performance.now() + Math.max(listingTimeout, 2 * listingLag)
  let seen = { bytes: 0, count: 0, since: performance.now() }
  for (;;) {
    const { bytes, count } = await contentOf(storage, folder, signal)
    const now = performance.now()
    if (bytes !== seen.bytes || count !== seen.count) seen = { bytes, count, since: now }
    const isWhole = totalBytes > 0 && bytes >= totalBytes
    if (count > 0 && (isWhole || now - seen.since >= listingLag)) return
    if (count === 0 && now > deadline) {
      throw new GatewayError('unavailable', { reason: 'the storage does not list what it has downloaded' })
    }
    await delay(pollInterval, undefined, { signal })
  }
}

/** The number of entries below a folder, and the bytes of the files. */
async function contentOf(storage: Storage, folder: Path, signal: AbortSignal) {
  let [bytes, count] = [0, 0]
  const pending = [folder]
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    for (const entry of (await storage.list(at, { refresh: true, signal })).entries) {
      count += 1
      bytes += entry.size
      if (isRealFolder(entry)) pending.push(childOf(at, entry.name))
    }
  }
  return { bytes, count }
}

interface StorageFolderOptions {
  readonly storage: Storage
  /** The folder in the storage. */
  readonly folder: Path
  /** The place of a path of the tree. */
  readonly placeOf: (treePath: Path) => TaskPlace
}

/** The folder of a storage into which it has downloaded by itself, for files that belong to another storage. */
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

  placeOf(name: string): TaskPlace {
    const { storage, folder, placeOf } = this.options
    return placeOf(storage.treePath(childOf(folder, name)))
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
