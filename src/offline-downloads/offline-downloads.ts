/** Offline downloads: tasks that download addresses into the tree with a tool of the user's choice. */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Principal } from '../accounts/principal.js'
import type { AnyDriverType } from '../contract/driver-type.js'
import { GatewayError, isGatewayError, type GatewayErrorOptions } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { under, type Path } from '../base/path.js'
import { EgressProxy } from '../net/egress-proxy.js'
import type { EgressGuard } from '../net/egress.js'
import type { Settings } from '../settings/settings.js'
import type { Bandwidth } from '../storage/bandwidth.js'
import type { Mounts } from '../mounts/mounts.js'
import type { Spool } from '../storage/fallbacks/spool.js'
import type { Store } from '../database/tables.js'
import { hasEnded, type Task, type TaskRun } from '../tasks/task.js'
import type { Tasks } from '../tasks/tasks.js'
import { pathBelowBase, placeOf } from '../tasks/transfer-tasks.js'
import type { AccessOptions } from '../tree/operation-options.js'
import type { VirtualFs } from '../tree/virtual-fs.js'
import { Aria2, type Aria2ProxyProvider } from './aria2.js'
import {
  downloadPlan,
  fetchedPlan,
  shouldDiscardFiles,
  type DeletePolicy,
  type DownloadPlan,
  type FetchedPlan,
  type RemotePlace,
} from './download.js'
import { storeFetched, type FetchedFolder } from './fetched-tasks.js'
import { parseUrl, parseWebAddress } from '../net/web-address.js'
import { assertSupported, fetchByProgram, seed } from './program-download.js'
import { QBittorrent } from './qbittorrent.js'
import { downloadInto, assertCanReceive } from './simple-http.js'
import {
  downloadFolders,
  folderFor,
  LocalFetchedFolder,
  makeFolder,
  removeOrphanFolders,
  temporaryDownloads,
  DownloadSpace,
} from './temporary-folders.js'
import { ToolReadiness } from './tool-readiness.js'
import { cloudTools, simpleHttp, type DownloadTool } from './tool.js'
import {
  StorageTools,
  unsupportedTool,
  fetchByStorage,
  removeDownload,
  StorageFetchedFolder,
} from './storage-downloads.js'

interface OfflineDownloadsDependencies {
  readonly tasks: Tasks
  readonly settings: Settings
  readonly mounts: Pick<Mounts, 'find' | 'rowOf' | 'rows' | 'storageOf'>
  readonly driverTypes: readonly AnyDriverType[]
  readonly egress: EgressGuard
  readonly store: Pick<Store, 'secrets'>
  readonly bandwidth: Pick<Bandwidth, 'fromBackends'>
  readonly spool: Pick<Spool, 'room'>
  readonly log: Log
  readonly as: (principal: Principal) => VirtualFs
  /** The data folder, absolute. */
  readonly data: string
}

export interface DownloadRequest {
  readonly addresses: readonly string[]
  /** The target folder, relative to the principal's base. It need not exist yet. */
  readonly folder: Path
  readonly tool: string
  readonly policy: DeletePolicy
}

/** Milliseconds for a program or a storage to remove a download. */
const removeTimeout = 10_000

/** Maximum number of characters of an address, which its task repeats for users. Magnet links name many trackers. */
const maxAddressLength = 16 * 1024

export class OfflineDownloads {
  readonly #dependencies: OfflineDownloadsDependencies
  /** The programs. */
  readonly #tools: ReadonlyMap<string, DownloadTool>
  readonly #storageTools: StorageTools
  readonly #readiness: ToolReadiness
  readonly #proxy: EgressProxy
  readonly #space: DownloadSpace

  constructor(dependencies: OfflineDownloadsDependencies) {
    this.#dependencies = dependencies
    this.#proxy = new EgressProxy(dependencies.egress, async () => {
      return dependencies.store.secrets.obtain('egress proxy', randomBytes(24).toString('base64url'))
    })
    const { settings } = dependencies
    const aria2Access = () => ({ uri: settings.get('aria2_uri'), secret: settings.get('aria2_secret') })
    const aria2 = new Aria2(aria2Access, this.#aria2Proxy)
    const torrents = new QBittorrent(() => settings.get('qbittorrent_url'))
    this.#tools = new Map([aria2, torrents].map((tool) => [tool.name, tool]))
    this.#storageTools = new StorageTools(dependencies)
    this.#space = new DownloadSpace({
      folders: () => downloadFolders(this.#root, [...this.#tools.keys()]),
      limit: () => dependencies.spool.room,
    })
    this.#readiness = new ToolReadiness([...this.#tools.values()], settings, dependencies.log)
  }

  /** Registers the task types, and deletes the folders of downloads of which no node has a task. */
  async start(): Promise<void> {
    const { tasks } = this.#dependencies
    tasks.register('offline_download', {
      run: (run) => this.#download(run),
      dispose: (task, setPlan) => this.#disposeDownload(task, setPlan),
    })
    tasks.register('offline_download_transfer', {
      run: (run) => this.#transfer(run),
      dispose: (task) => this.#disposeTransfer(task),
    })
    await removeOrphanFolders(this.#root, [...this.#tools.keys()], async () => {
      const downloads = await tasks.ofAllNodes({ kind: 'offline_download' })
      const transfers = await tasks.ofAllNodes({ kind: 'offline_download_transfer' })
      return new Set([
        ...downloads.map((task) => downloadPlan(task).id),
        ...transfers.map((task) => fetchedPlan(task).id),
      ])
    })
    this.#readiness.start()
  }

  /** Must be called after the tasks have stopped: it closes the proxy of the programs. */
  close(): void {
    this.#readiness.close()
    this.#proxy.close()
  }

  /** Names of the programs that answered their last probe, and of the tools of running storages, sorted. */
  get toolNames(): readonly string[] {
    return [simpleHttp, ...this.#readiness.readyNames, ...this.#storageTools.readyNames].sort()
  }

  /**
   * Adds a task for each address in order, up to the first that fails. Rejects, even without addresses, with `denied`
   * without the permission for offline downloads, and as a write does for the folder. Rejects with `invalid` before the
   * first task if the host of an address is an IP address to which the gateway does not connect. Rejects with
   * `unavailable` if the tool is unknown, does not answer or does not support the address, or the address is too long,
   * and with `no_space` if the disk space of downloads is used up.
   */
  async add(principal: Principal, request: DownloadRequest, access: AccessOptions): Promise<readonly Task[]> {
    const { as, tasks } = this.#dependencies
    await assertCanReceive(as(principal.withDownloadPermissions()), request.folder, access)
    if (request.addresses.some(({ length }) => length > maxAddressLength)) {
      throw new GatewayError('unavailable', { reason: `an address has at most ${maxAddressLength} characters` })
    }
    this.#assertHosts(principal, request)
    const to = under(principal.base, request.folder)
    const added: Task[] = []
    for (const address of request.addresses) {
      await this.#assertUsable(request.tool, address, access.signal)
      const plan = this.#planOf(address, to, request, access.password)
      const subject = { verb: 'download', address, to } as const
      added.push(await tasks.add(principal, { kind: 'offline_download', subject, plan, totalBytes: 0 }))
    }
    return added
  }

  /**
   * Throws `invalid`, and logs it once, for addresses that would fail in any run. Those of a storage are fetched by its
   * vendor.
   */
  #assertHosts({ username }: Principal, { addresses, tool }: DownloadRequest): void {
    const { egress, log } = this.#dependencies
    if (tool !== simpleHttp && !this.#tools.has(tool)) return
    const urls = addresses.map((address) => parseUrl(address))
    const forbidden = urls.filter((url) => url !== undefined && egress.forbidsHost(url))
    const host = forbidden[0]?.hostname
    if (host === undefined) return
    log.warn({ account: username, host, addresses: forbidden.length }, 'offline downloads refused')
    // Without the host, because `privacy_regs` masks addresses.
    const which =
      addresses.length === 1 ? 'the address' : `address ${urls.indexOf(forbidden[0]) + 1} of ${addresses.length}`
    throw new GatewayError('invalid', { reason: `${which} leads into a network that is not allowed` })
  }

  #planOf(address: string, to: Path, { tool, policy: wanted }: DownloadRequest, password?: string): DownloadPlan {
    const seedMinutes = tool === 'qBittorrent' ? this.#dependencies.settings.number('qbittorrent_seedtime') : 0
    const id = randomBytes(16).toString('base64url')
    // Files that are seeded for ever stay on the local disk.
    const policy = seedMinutes < 0 ? 'delete_never' : wanted
    const folder = folderFor(this.#root, tool, id, policy === 'delete_never')
    return { id, tool, address, to, password, policy, folder, seedMinutes }
  }

  /**
   * Probes aria2 and stores its address and secret. Resolves to its version. Rejects with `unavailable` if it does not
   * answer.
   */
  async setAria2(uri: string, secret: string, signal: AbortSignal): Promise<string> {
    const aria2 = new Aria2(() => ({ uri, secret }), this.#aria2Proxy)
    return this.#setProgram(aria2, { aria2_uri: uri, aria2_secret: secret }, signal)
  }

  /** Like `setAria2`, for qBittorrent. `seedMinutes`: seeding time of every torrent; negative: for ever. */
  async setQBittorrent(url: string, seedMinutes: string, signal: AbortSignal): Promise<void> {
    const values = { qbittorrent_url: url, qbittorrent_seedtime: seedMinutes }
    await this.#setProgram(new QBittorrent(() => url), values, signal)
  }

  async #setProgram(tool: DownloadTool, values: Record<string, string>, signal: AbortSignal): Promise<string> {
    const version = await asUnavailable(() => tool.probe(signal))
    await this.#dependencies.settings.set(new Map(Object.entries(values)))
    this.#readiness.markReady(tool.name)
    return version
  }

  /**
   * Stores the folder in which a tool downloads for other storages. An empty one: it does not. Rejects with
   * `unavailable` if it is not in a storage of the tool.
   */
  async setStorageFolder(tool: string, folder: string): Promise<void> {
    const key = await asUnavailable(async () => this.#storageTools.settingFor(tool, folder))
    await this.#dependencies.settings.set(new Map([[key, folder]]))
  }

  /** The proxy for aria2: used if `egress_proxy` is set, or if it is empty and aria2 runs on this machine. */
  get #aria2Proxy(): Aria2ProxyProvider {
    return {
      access: async (aria2) => {
        const address = this.#dependencies.settings.get('egress_proxy')
        if (address === 'off' || (address === '' && !isOnThisMachine(aria2))) return undefined
        return this.#proxy.open(address || '127.0.0.1:0')
      },
      takeRefusal: (gid) => this.#proxy.takeRefusal(gid),
    }
  }

  get #root(): string {
    const { data, settings } = this.#dependencies
    return settings.get('offline_download_temp_dir') || join(data, temporaryDownloads)
  }

  get #limit(): number {
    const megabytes = this.#dependencies.settings.number('offline_download_size_limit')
    return megabytes < 0 ? Infinity : megabytes * 1024 * 1024
  }

  async #assertUsable(name: string, address: string, signal: AbortSignal | undefined): Promise<void> {
    const isStorageTool = this.#storageTools.has(name)
    if (cloudTools.includes(name) && !isStorageTool) return
    const tool = this.#tools.get(name)
    const unknown = { detail: 'tool_unknown', subject: name } as const
    await asUnavailable(async () => {
      if (name === simpleHttp) parseWebAddress(address)
      else if (isStorageTool) this.#storageTools.assertSupported(address)
      else if (tool) assertSupported(tool, address)
      else throw new GatewayError('unavailable', { ...unknown, reason: `there is no tool ${name}` })
    })
    if (!tool) return
    await this.#space.assertSpace()
    const failed = { detail: 'tool_failed', subject: name } as const
    await asUnavailable(() => tool.probe(signal ?? new AbortController().signal), failed)
    this.#readiness.markReady(name)
  }

  // Downloads

  async #download(run: TaskRun): Promise<void> {
    const { egress, bandwidth } = this.#dependencies
    const plan = downloadPlan(run.task)
    const principal = run.principal.withDownloadPermissions()
    const fs = this.#dependencies.as(principal)
    const folder = pathBelowBase(principal, plan.to)
    const { address, password } = plan
    const access = { password, signal: run.signal }
    await assertCanReceive(fs, folder, access)
    if (plan.tool === simpleHttp) {
      const speed = bandwidth.fromBackends
      return downloadInto(fs, { egress, limit: this.#limit, address, folder, password, speed }, run)
    }
    if (this.#storageTools.has(plan.tool)) {
      return this.#downloadByStorage(plan, run, () => fs.mkdir(folder, { ...access, parents: true }))
    }
    const tool = this.#tools.get(plan.tool)
    if (!tool) throw unsupportedTool(plan.tool)
    // The program itself creates its folder below a configured one, because it may run as another user.
    const isDefaultFolder = this.#dependencies.settings.get('offline_download_temp_dir') === ''
    const prepare = async () => (isDefaultFolder ? makeFolder(plan.folder) : undefined)
    await this.#space.withClaim(plan.folder, (claim) =>
      fetchByProgram({ tool, plan, egress, limit: this.#limit, claim }, run, prepare),
    )
    run.setPhase('storing_download')
    await this.#addTransfers(run.principal, plan)
    if (plan.seedMinutes > 0) await seed(tool, plan, plan.seedMinutes, run)
  }

  /** Leaves the files in the target folder, or adds tasks that transfer them to it. */
  async #downloadByStorage(plan: DownloadPlan, run: TaskRun, makeTarget: () => Promise<void>): Promise<void> {
    const { tool, address, remote } = plan
    const keep = (place: RemotePlace | undefined) => run.setPlan({ ...plan, remote: place })
    const isKnown = remote !== undefined
    const place = remote ?? this.#storageTools.placeFor(plan)
    const storage = this.#storageTools.storageOf(place)
    if (place.isTarget && !isKnown) await makeTarget()
    const download = { tool, address, storage, limit: this.#limit, place, isKnown, keep }
    const complete = await fetchByStorage(download, run)
    if (!complete.isTarget) {
      run.setPhase('storing_download')
      await this.#addTransfers(run.principal, { ...plan, remote: complete })
    }
    try {
      // Before the end is stored: the same address could not be downloaded again while the backend lists it.
      await removeDownload(storage, complete, address, run.signal)
      await keep({ ...complete, downloadId: undefined })
    } catch (error) {
      if (run.signal.aborted) throw error
      // It is tried again when the task has ended.
      this.#dependencies.log.warn({ err: error, task: run.task.id }, `failed to remove a download from ${tool}`)
    }
  }

  /** Adds a transfer task for each downloaded file or folder, unless an earlier run has added it. */
  async #addTransfers(principal: Principal, plan: DownloadPlan): Promise<void> {
    const { tasks, mounts } = this.#dependencies
    const added = new Set(this.#transfersOf(plan.id).map((task) => fetchedPlan(task).entry))
    const files = this.#filesOf(plan)
    const names = await files.names()
    if (names.length === 0 && added.size === 0) {
      throw new GatewayError('unavailable', { reason: `${plan.tool} stored no files in the download folder` })
    }
    const { id, to, password, policy, folder, remote } = plan
    for (const entry of names) {
      if (added.has(entry)) continue
      const fetched: FetchedPlan = { id, to, password, policy, folder, remote, entry }
      const subject = { verb: 'transfer', from: files.placeOf(entry), to: placeOf(mounts, to) } as const
      await tasks.add(principal, { kind: 'offline_download_transfer', subject, plan: fetched, totalBytes: 0 })
    }
  }

  /** Where the files of a download are until they are stored. Throws `unavailable` if their storage does not run. */
  #filesOf({ folder, remote }: Pick<DownloadPlan, 'folder' | 'remote'>): FetchedFolder {
    if (!remote) return new LocalFetchedFolder(folder)
    const storage = this.#storageTools.storageOf(remote)
    const place = (path: Path) => placeOf(this.#dependencies.mounts, path)
    return new StorageFetchedFolder({ storage, folder: remote.folder, placeOf: place })
  }

  #transfersOf(id: string): readonly Task[] {
    return this.#dependencies.tasks.all.filter(
      (task) => task.kind === 'offline_download_transfer' && fetchedPlan(task).id === id,
    )
  }

  /**
   * Disposes of a download that has ended or was deleted: removes it from the program or the storage, and deletes files
   * no longer needed.
   */
  async #disposeDownload(task: Task, setPlan: TaskRun['setPlan']): Promise<void> {
    const plan = downloadPlan(task)
    const tool = this.#tools.get(plan.tool)
    if (!tool && !plan.remote) return
    const transfers = this.#transfersOf(plan.id)
    const isComplete = task.state === 'succeeded' || transfers.length > 0
    const signal = AbortSignal.timeout(removeTimeout)
    if (plan.remote) {
      await removeDownload(this.#storageTools.storageOf(plan.remote), plan.remote, plan.address, signal)
    } else if (!isComplete || plan.seedMinutes >= 0) {
      await tool?.remove(plan, !isComplete, signal).catch((error: unknown) => {
        this.#dependencies.log.warn({ err: error, task: task.id }, `failed to remove a download from ${plan.tool}`)
      })
    }
    if (plan.remote?.isTarget !== true) {
      if (isComplete) await this.#discardFiles(plan, transfers)
      else await this.#filesOf(plan).removeAll()
    }
    // A later download of the same address is not this one.
    if (plan.remote) await setPlan({ ...plan, remote: undefined })
  }

  // Transfers of downloaded files

  async #transfer(run: TaskRun): Promise<void> {
    // The permission for downloads is checked again: the account may have changed.
    const principal = run.principal.withDownloadPermissions()
    const plan = fetchedPlan(run.task)
    await storeFetched(this.#dependencies.as(principal), plan, this.#filesOf(plan), { ...run, principal })
  }

  async #disposeTransfer(task: Task): Promise<void> {
    const plan = fetchedPlan(task)
    const download = this.#dependencies.tasks.all.find(
      (other) => other.kind === 'offline_download' && downloadPlan(other).id === plan.id,
    )
    // The files are still needed while the download is seeded.
    if (!download || hasEnded(download)) await this.#discardFiles(plan, [task])
  }

  /** Deletes those files of the transfers of a download that are no longer needed, and its folder if it is empty. */
  async #discardFiles(plan: DownloadPlan | FetchedPlan, transfers: readonly Task[]): Promise<void> {
    const files = this.#filesOf(plan)
    for (const task of transfers) {
      const { policy, entry } = fetchedPlan(task)
      const isForgotten = !this.#dependencies.tasks.all.some(({ id }) => id === task.id)
      if (shouldDiscardFiles(policy, task, isForgotten)) await files.remove(entry)
    }
    await files.removeIfEmpty()
  }
}

function isOnThisMachine({ hostname }: URL): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
}

/** Converts every GatewayError of `work` to `unavailable`, with the given detail or that of the error. */
async function asUnavailable<T>(
  work: () => Promise<T>,
  what?: Pick<GatewayErrorOptions, 'detail' | 'subject'>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isGatewayError(error)) throw error
    const { detail, subject } = what ?? error
    throw new GatewayError('unavailable', { detail, subject, reason: error.reason, cause: error })
  }
}
