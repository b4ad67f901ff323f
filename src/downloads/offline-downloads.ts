/** Offline downloads: addresses that users name are fetched into the tree by a tool of their choice, as tasks. */
import { randomBytes } from 'node:crypto'
import { isAbsolute, join } from 'node:path'
import type { Bandwidth } from '../bandwidth.js'
import type { Ask } from '../change.js'
import { hostAndPort } from '../config.js'
import { temporaryDownloads } from '../data-folder.js'
import { EgressProxy } from '../egress-proxy.js'
import type { EgressGuard } from '../egress.js'
import { GatewayError, isGatewayError } from '../errors.js'
import type { Log } from '../log.js'
import type { Mounts } from '../mounts.js'
import { under, type Path } from '../path.js'
import type { Principal } from '../principal.js'
import type { Settings } from '../settings.js'
import type { Spool } from '../spool.js'
import { isOver, type Task, type TaskRun, type TaskType } from '../tasks/task.js'
import type { Tasks } from '../tasks/tasks.js'
import { ownPath, placeName } from '../tasks/transfer-tasks.js'
import type { VirtualFs } from '../virtual-fs.js'
import { Aria2, type Aria2WayOut } from './aria2.js'
import { asDownloader, assertReceives } from './destination.js'
import {
  downloadPlan,
  fetchedPlan,
  isLetGo,
  type DeletePolicy,
  type DownloadPlan,
  type FetchedPlan,
} from './download.js'
import { DownloadSpace } from './download-space.js'
import { storeFetched } from './fetched-tasks.js'
import { webAddress } from './http-request.js'
import { assertFetches, fetchByProgram, seed } from './program-download.js'
import { QBittorrent } from './qbittorrent.js'
import { fetchInto } from './simple-http.js'
import {
  downloadFolders,
  fetchedIn,
  folderFor,
  makeFolder,
  removeEmpty,
  removeFetched,
  sweepFolders,
} from './temporary-folders.js'
import { cloudTools, simpleHttp, type DownloadTool } from './tool.js'
import { ToolReadiness } from './tool-readiness.js'

export interface DownloadParts {
  readonly tasks: Tasks
  readonly settings: Settings
  readonly mounts: Pick<Mounts, 'rowOf'>
  readonly egress: EgressGuard
  readonly bandwidth: Pick<Bandwidth, 'fromBackends'>
  readonly spool: Pick<Spool, 'room'>
  readonly log: Log
  readonly as: (principal: Principal) => VirtualFs
  /** The data folder, absolute. */
  readonly data: string
}

/** What somebody asks for. */
export interface DownloadAsk {
  readonly addresses: readonly string[]
  /** The principal's own path of the folder that receives the file; it need not be there yet. */
  readonly folder: Path
  readonly tool: string
  readonly policy: DeletePolicy
}

/** Milliseconds that a program has to forget a download. */
const forgetIn = 10_000

export class OfflineDownloads {
  readonly #parts: DownloadParts
  readonly #tools: ReadonlyMap<string, DownloadTool>
  readonly #readiness: ToolReadiness
  readonly #proxy: EgressProxy
  readonly #space: DownloadSpace

  constructor(parts: DownloadParts) {
    this.#parts = parts
    this.#proxy = new EgressProxy(parts.egress)
    const { settings } = parts
    const access = () => ({ uri: settings.get('aria2_uri'), secret: settings.get('aria2_secret') })
    const aria2 = new Aria2(access, this.#wayOut)
    const torrents = new QBittorrent(() => settings.get('qbittorrent_url'))
    this.#tools = new Map([aria2, torrents].map((tool) => [tool.name, tool]))
    settings.guard('offline_download_temp_dir', async (folder) => {
      if (folder === '' || isAbsolute(folder)) return
      throw new GatewayError('invalid', { reason: 'it must be an absolute path' })
    })
    settings.guard('egress_proxy', async (value) => assertProxyAddress(value))
    this.#space = new DownloadSpace({
      folders: () => downloadFolders(this.#root, [...this.#tools.keys()]),
      limit: () => parts.spool.room,
    })
    this.#readiness = new ToolReadiness([...this.#tools.values()], settings, parts.log)
  }

  /** Tells the tasks how downloads are done, and removes what was fetched for those that nobody knows any more. */
  async start(): Promise<void> {
    const { tasks } = this.#parts
    tasks.register('offline_download', this.#downloads())
    tasks.register('offline_download_transfer', this.#transfers())
    const known = tasks.all.flatMap((task) => {
      if (task.kind === 'offline_download') return [downloadPlan(task).id]
      return task.kind === 'offline_download_transfer' ? [fetchedPlan(task).id] : []
    })
    await sweepFolders(this.#root, [...this.#tools.keys()], new Set(known))
    this.#readiness.start()
  }

  /** Tasks have ended by then: programs hear of the end of their way out when nobody looks. */
  close(): void {
    this.#readiness.close()
    this.#proxy.close()
  }

  /** Names of the tools that answer, as far as that is known now. */
  get toolNames(): readonly string[] {
    return [simpleHttp, ...this.#readiness.names].sort()
  }

  /**
   * Adds a task for each address, in their order, up to the first that cannot be. Rejects, also where there is none, with `denied` where the principal may not, with `unavailable` for a tool that there is not, does not answer, or
   * does not fetch such addresses, with `no_space` where programs may fetch nothing more, and as a write would for the folder.
   */
  async add(principal: Principal, asked: DownloadAsk, ask: Ask): Promise<readonly Task[]> {
    const fs = this.#parts.as(asDownloader(principal))
    await assertReceives(fs, asked.folder, ask)
    const added: Task[] = []
    for (const address of asked.addresses) {
      await this.#assertUsable(asked.tool, address, ask.signal)
      added.push(await this.#addOne(principal, address, asked, ask.password))
    }
    return added
  }

  #addOne(principal: Principal, address: string, asked: DownloadAsk, password: string | undefined): Promise<Task> {
    const { tasks, settings } = this.#parts
    const seedMinutes = asked.tool === 'qBittorrent' ? settings.number('qbittorrent_seedtime') : 0
    const id = randomBytes(16).toString('base64url')
    // Files that are given to others for ever stay where they are.
    const policy = seedMinutes < 0 ? 'delete_never' : asked.policy
    const to = under(principal.base, asked.folder)
    const plan: DownloadPlan = {
      id,
      tool: asked.tool,
      address,
      to,
      password,
      policy,
      folder: folderFor(this.#root, asked.tool, id, policy === 'delete_never'),
      seedMinutes,
    }
    const name = `download ${address} to (${to})`
    return tasks.add(principal, { kind: 'offline_download', name, plan, totalBytes: 0 })
  }

  /** Keeps the access once the program has answered to it, else rejects with `unavailable`. Resolves to its version. */
  async setAria2(uri: string, secret: string, signal: AbortSignal): Promise<string> {
    const found = await usable(() => new Aria2(() => ({ uri, secret }), this.#wayOut).probe(signal))
    await this.#parts.settings.set(new Map(Object.entries({ aria2_uri: uri, aria2_secret: secret })))
    this.#readiness.found('aria2')
    return found
  }

  /** The same. `seedMinutes`: of every torrent; negative: it is never removed. */
  async setQBittorrent(url: string, seedMinutes: string, signal: AbortSignal): Promise<void> {
    await usable(() => new QBittorrent(() => url).probe(signal))
    const values = { qbittorrent_url: url, qbittorrent_seedtime: seedMinutes }
    await this.#parts.settings.set(new Map(Object.entries(values)))
    this.#readiness.found('qBittorrent')
  }

  /** What aria2 connects through: one that is told how the gateway can be reached from there, or that runs beside it. */
  get #wayOut(): Aria2WayOut {
    return {
      access: async (aria2) => {
        const address = this.#parts.settings.get('egress_proxy')
        if (address === 'off' || (address === '' && !isOnThisMachine(aria2))) return undefined
        return this.#proxy.open(address || '127.0.0.1:0')
      },
      takeRefusal: (gid) => this.#proxy.takeRefusal(gid),
    }
  }

  get #root(): string {
    const { data, settings } = this.#parts
    return settings.get('offline_download_temp_dir') || join(data, temporaryDownloads)
  }

  get #limit(): number {
    const megabytes = this.#parts.settings.number('offline_download_size_limit')
    return megabytes < 0 ? Infinity : megabytes * 1024 * 1024
  }

  async #assertUsable(name: string, address: string, signal: AbortSignal | undefined): Promise<void> {
    if (cloudTools.includes(name)) return
    const tool = this.#tools.get(name)
    await usable(async () => {
      if (name === simpleHttp) webAddress(address)
      else if (tool) assertFetches(tool, address)
      else throw new GatewayError('unavailable', { reason: `tool ${name} not found` })
    })
    if (!tool) return
    await this.#space.assertRoom()
    await usable(
      () => tool.probe(signal ?? new AbortController().signal),
      `failed init offline download tool ${name}: `,
    )
    this.#readiness.found(name)
  }

  // Downloads

  #downloads(): TaskType {
    return {
      run: (run) => this.#download(run),
      dispose: (task) => this.#endDownload(task),
    }
  }

  async #download(run: TaskRun): Promise<void> {
    const { egress, bandwidth } = this.#parts
    const plan = downloadPlan(run.task)
    const principal = asDownloader(run.principal)
    const fs = this.#parts.as(principal)
    const folder = ownPath(principal, plan.to)
    const { address, password } = plan
    await assertReceives(fs, folder, { password, signal: run.signal })
    if (plan.tool === simpleHttp) {
      const speed = bandwidth.fromBackends
      await fetchInto(fs, { egress, limit: this.#limit, address, folder, password, speed }, run)
      return
    }
    const tool = this.#tools.get(plan.tool)
    if (!tool) {
      const reason = `unsupported storage driver for offline download, only ${plan.tool} is supported`
      throw new GatewayError('unsupported', { reason })
    }
    // A chosen folder is for the program to make: it may be another user's.
    const isOwn = this.#parts.settings.get('offline_download_temp_dir') === ''
    const prepare = async () => (isOwn ? makeFolder(plan.folder) : undefined)
    await this.#space.during(plan.folder, (claim) =>
      fetchByProgram({ tool, plan, egress, limit: this.#limit, claim }, run, prepare),
    )
    run.status('offline download completed, maybe transferring')
    await this.#addTransfers(run.principal, plan)
    if (plan.seedMinutes > 0) await seed(tool, plan, plan.seedMinutes, run)
  }

  /** One for each thing that was fetched, unless an earlier run added it. */
  async #addTransfers(principal: Principal, plan: DownloadPlan): Promise<void> {
    const { tasks, mounts } = this.#parts
    const added = new Set(this.#transfersOf(plan.id).map((task) => fetchedPlan(task).entry))
    const names = await fetchedIn(plan.folder)
    if (names.length === 0 && added.size === 0) {
      throw new GatewayError('unavailable', { reason: `${plan.tool} left nothing where the gateway looks for it` })
    }
    const { id, to, password, policy, folder } = plan
    for (const entry of names) {
      if (added.has(entry)) continue
      const fetched: FetchedPlan = { id, to, password, policy, folder, entry }
      const name = `transfer [](${entry}) to ${placeName(mounts, to)}`
      await tasks.add(principal, { kind: 'offline_download_transfer', name, plan: fetched, totalBytes: 0 })
    }
  }

  #transfersOf(id: string): readonly Task[] {
    return this.#parts.tasks.all.filter(
      (task) => task.kind === 'offline_download_transfer' && fetchedPlan(task).id === id,
    )
  }

  /** It has ended, or is forgotten: the program forgets it, and what nobody needs any more goes. */
  async #endDownload(task: Task): Promise<void> {
    const plan = downloadPlan(task)
    const tool = this.#tools.get(plan.tool)
    if (!tool) return
    const transfers = this.#transfersOf(plan.id)
    const isWhole = task.state === 'succeeded' || transfers.length > 0
    if (!isWhole || plan.seedMinutes >= 0) {
      try {
        await tool.remove(plan, !isWhole, AbortSignal.timeout(forgetIn))
      } catch (error) {
        this.#parts.log.warn({ err: error, task: task.id }, `${tool.name} could not be told to forget a download`)
      }
    }
    if (!isWhole) {
      await removeFetched(plan.folder)
      return
    }
    for (const transfer of transfers) await this.#letGo(transfer)
    await removeEmpty(plan.folder)
  }

  // What was fetched

  #transfers(): TaskType {
    return {
      run: (run) => {
        // It was theirs to download; where it goes is judged as it is now.
        const principal = asDownloader(run.principal)
        return storeFetched(this.#parts.as(principal), fetchedPlan(run.task), { ...run, principal })
      },
      dispose: (task) => this.#endTransfer(task),
    }
  }

  async #endTransfer(task: Task): Promise<void> {
    const plan = fetchedPlan(task)
    const download = this.#parts.tasks.all.find(
      (other) => other.kind === 'offline_download' && downloadPlan(other).id === plan.id,
    )
    // While it is given to others it has to stay.
    if (download && !isOver(download)) return
    await this.#letGo(task)
    await removeEmpty(plan.folder)
  }

  async #letGo(task: Task): Promise<void> {
    const plan = fetchedPlan(task)
    const isForgotten = !this.#parts.tasks.all.some(({ id }) => id === task.id)
    if (isLetGo(plan.policy, task, isForgotten)) await removeFetched(plan.folder, plan.entry)
  }
}

/** Rejects with `invalid`. */
function assertProxyAddress(setting: string): void {
  if (setting === '' || setting === 'off' || hostAndPort.safeParse(setting).success) return
  throw new GatewayError('invalid', { reason: 'it must be HOST:PORT, off, or empty' })
}

function isOnThisMachine({ hostname }: URL): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)
}

/** Whatever keeps a tool from being used is `unavailable` to whoever asked for it. */
async function usable<T>(work: () => Promise<T>, before = ''): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isGatewayError(error)) throw error
    throw new GatewayError('unavailable', { reason: before + error.reason, cause: error })
  }
}
