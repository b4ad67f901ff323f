/**
 * A drive with ids that downloads from the internet by itself, and a driver for it. The drive lists its downloads in
 * pages, newest first, and refuses an address that it lists already.
 */
import { createHash } from 'node:crypto'
import { findInPages, type ListedDownload } from '../../drivers/lib/cloud/listed-downloads.js'
import type { CallOptions } from '../../src/contract/call-options.js'
import type { RemoteDownload, RemoteDownloadQuery, RemoveDownloadOptions } from '../../src/contract/capabilities.js'
import type { DriverType } from '../../src/contract/driver-type.js'
import { GatewayError } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import { IdDrive, IdDriveDriver } from './id-drive.js'

type Tree = { readonly [name: string]: string | Tree }

interface Job {
  readonly id: string
  readonly address: string
  readonly folderId: string
  state: RemoteDownload['state']
  /** What it stores when it is done. */
  files: Tree
  readonly stored: string[]
  error?: GatewayError
}

const perPage = 2

export class DownloadingDrive extends IdDrive {
  /** The jobs, newest first. */
  jobs: Job[] = []
  /** Pages of the list that were requested. */
  pages = 0
  /** Downloads that were added, listed or not. */
  readonly added: string[] = []
  /** Pages from the next one on that do not show any download yet. */
  hiddenPages = 0
  /** The next answer to `add` is lost, after the work was done. */
  losesAnswer = false
  /** The next `add` is refused. */
  refusal: GatewayError | undefined
  /** What the next downloads store. */
  files: Tree = { 'film.mp4': 'the film' }
  /** The size that the list shows; undefined: the sum of the files. */
  shownSize: number | undefined
  /** Whether downloads are done as soon as they were added. */
  isFast = true

  async add(folderId: string, address: string): Promise<string> {
    const { refusal } = this
    this.refusal = undefined
    if (refusal) throw refusal
    if (this.jobs.some((job) => job.address === address)) {
      throw new GatewayError('exists', { reason: 'the drive lists this address already' })
    }
    const id = createHash('sha1').update(address).digest('hex')
    const job: Job = { id, address, folderId, state: 'waiting', files: this.files, stored: [] }
    this.jobs.unshift(job)
    this.added.push(address)
    if (this.isFast) await this.finish(address)
    if (!this.losesAnswer) return id
    this.losesAnswer = false
    throw new GatewayError('unavailable', { reason: 'the answer was lost' })
  }

  async finish(address: string, files?: Tree): Promise<void> {
    const job = this.#job(address)
    job.files = files ?? job.files
    await this.#store(job.folderId, job.files, job.stored)
    job.state = 'done'
  }

  fail(address: string, reason: string): void {
    Object.assign(this.#job(address), { state: 'failed', error: new GatewayError('invalid', { reason }) })
  }

  run(address: string): void {
    this.#job(address).state = 'running'
  }

  async *listJobs(): AsyncGenerator<readonly ListedDownload[]> {
    for (let at = 0; at === 0 || at < this.jobs.length; at += perPage) {
      this.pages++
      const isHidden = this.hiddenPages-- > 0
      yield isHidden ? [] : this.jobs.slice(at, at + perPage).map((job) => this.#shown(job))
    }
  }

  async removeJob(id: string, withFiles: boolean): Promise<void> {
    const job = this.jobs.find((one) => one.id === id)
    this.jobs = this.jobs.filter((one) => one !== job)
    if (job && withFiles) for (const node of job.stored) if (this.get(node)) await this.remove(node)
  }

  #job(address: string): Job {
    const job = this.jobs.find((one) => one.address === address)
    if (!job) throw new Error(`${address} was not added`)
    return job
  }

  #shown({ id, address, folderId, state, files, error }: Job): ListedDownload {
    const totalBytes = this.shownSize ?? sizeOf(files)
    const doneBytes = state === 'done' ? totalBytes : 0
    const [name = ''] = Object.keys(files)
    return { id, address, folderId, state, totalBytes, doneBytes, name, ...(error && { error }) }
  }

  async #store(parent: string, files: Tree, stored: string[]): Promise<void> {
    for (const [name, content] of Object.entries(files)) {
      const isFile = typeof content === 'string'
      const { id } = await this.create(parent, name, isFile ? Buffer.from(content) : undefined)
      stored.push(id)
      if (!isFile) await this.#store(id, content, stored)
    }
  }
}

function sizeOf(files: Tree): number {
  return Object.values(files).reduce((sum, file) => sum + (typeof file === 'string' ? file.length : sizeOf(file)), 0)
}

export class DownloadingDriver extends IdDriveDriver {
  constructor(
    readonly downloading: DownloadingDrive,
    env: ConstructorParameters<typeof IdDriveDriver>[1],
  ) {
    super(downloading, env)
  }

  async addDownload(folder: Path, address: string, options: CallOptions = {}): Promise<string> {
    return this.downloading.add(await this.files.folderId(folder, options), address)
  }

  async findDownload(folder: Path, query: RemoteDownloadQuery, options: CallOptions = {}) {
    return findInPages(this.downloading.listJobs(), await this.files.folderId(folder, options), query)
  }

  async removeDownload(_folder: Path, id: string, { withFiles = false }: RemoveDownloadOptions = {}): Promise<void> {
    await this.downloading.removeJob(id, withFiles)
  }
}

/** A driver type whose storages all show this drive. */
export function downloadingType(drive: DownloadingDrive, tool = '115 Cloud'): DriverType<Record<string, never>> {
  return {
    name: 'Downloading Drive',
    fields: {},
    facts: { downloadTool: { name: tool, folderSetting: '115_temp_dir' } },
    // Direct URLs lead nowhere: clients download through the gateway.
    open: async (_options, env) => Object.assign(new DownloadingDriver(drive, env), { directUrl: undefined }),
  }
}
