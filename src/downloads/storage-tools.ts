/**
 * The tools for offline downloads by storages themselves: one for each type of driver that can. A storage of that type
 * downloads into the target folder if it is its own, otherwise into a folder of its own from which the files are then
 * transferred.
 */
import type { AnyDriverType, DownloadToolFacts } from '../contract/driver-type.js'
import { GatewayError } from '../contract/errors.js'
import { childOf, cleanPath, type Path } from '../contract/path.js'
import type { Settings } from '../settings/settings.js'
import type { Mounts } from '../storage/mounts.js'
import type { Storage } from '../storage/storage.js'
import type { DownloadPlan, RemotePlace } from './download.js'
import { assertNoCredentials, parseUrl } from './http-request.js'
import { nameFor } from './temporary-folders.js'

interface StorageToolsDependencies {
  readonly driverTypes: readonly AnyDriverType[]
  readonly mounts: Pick<Mounts, 'find' | 'rowOf' | 'rows' | 'storageOf'>
  readonly settings: Pick<Settings, 'get'>
}

interface StorageTool extends DownloadToolFacts {
  /** The name of the driver type. */
  readonly driver: string
}

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
   * Where the tool downloads for this target. Throws `unsupported` if the target is on a storage of another type and the
   * setting names no folder of a storage of this type, and as `Mounts.find`.
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
   * The key of the setting for the folder of the tool. Throws `unsupported` if `folder` is neither empty nor in a storage
   * of the tool.
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
