/** The folders of the local disk into which programs download, one for each download, and their size. */
import { lstat, mkdir, readdir, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Source } from '../contract/call-options.js'
import { GatewayError } from '../base/errors.js'
import { readFrom } from '../storage/fallbacks/spool.js'
import type { FetchedFile, FetchedFolder } from './fetched-tasks.js'

/** Control files that programs write next to the downloaded files. */
const controlFiles = [/\.aria2$/, /^\.[0-9a-f]{40,64}\.parts$/i]
const downloadFolder = /^tidegate-([\w-]{22})(-kept)?$/

/** The name of the folder of a new download. `permanent`: it is never deleted. */
export function nameFor(id: string, permanent: boolean): string {
  return `tidegate-${id}${permanent ? '-kept' : ''}`
}

/** The folder of a new download. */
export function folderFor(root: string, tool: string, id: string, permanent: boolean): string {
  return join(root, tool, nameFor(id, permanent))
}

/** Creates the folder of a download, for programs that run as the user of the gateway. */
export async function makeFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
}

/** The folder of one download. Control files are not shown. */
export class LocalFetchedFolder implements FetchedFolder {
  /** `folder`: an absolute path on the local disk. */
  constructor(private readonly folder: string) {}

  async names(): Promise<readonly string[]> {
    const names = await onDisk(() => readdir(this.folder), [])
    return names.filter((name) => !isControlFile(name))
  }

  async files(entry: string): Promise<readonly FetchedFile[]> {
    const found: FetchedFile[] = []
    const pending: (readonly string[])[] = [[entry]]
    for (let names = pending.pop(); names !== undefined; names = pending.pop()) {
      const path = join(this.folder, ...names)
      const facts = await onDisk(() => lstat(path), undefined)
      if (!facts)
        throw new GatewayError('not_found', {
          reason:
            'the downloaded files are not on the disk of the server that continues this task: download them again',
        })
      const { size } = facts
      const version = `${facts.ino}-${facts.mtimeMs}-${size}`
      if (facts.isFile()) {
        const source: Source = { size, rereadable: true, read: readFrom(path) }
        found.push({ names, kind: 'file', size, version, source })
        continue
      }
      found.push({ names, kind: facts.isDirectory() ? 'folder' : 'other', size: 0, version })
      const members = facts.isDirectory() ? await onDisk(() => readdir(path), []) : []
      for (const name of members.filter((member) => !isControlFile(member))) pending.push([...names, name])
    }
    return found
  }

  async remove(entry: string): Promise<void> {
    await removeFolder(join(this.folder, entry))
  }

  async removeIfEmpty(): Promise<void> {
    if ((await this.names()).length === 0) await this.removeAll()
  }

  async removeAll(): Promise<void> {
    await removeFolder(this.folder)
  }

  placeOf(entry: string): { readonly name: string } {
    return { name: entry }
  }
}

async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true })
}

/** The folders of all downloads, including those without a task. */
export async function downloadFolders(root: string, tools: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(
    tools.map(async (tool) => {
      const names = await onDisk(() => readdir(join(root, tool)), [])
      return names.filter((name) => downloadFolder.test(name)).map((name) => join(root, tool, name))
    }),
  )
  return found.flat()
}

/** The total size of all files in a folder, including control files. */
async function sizeOfFolder(folder: string): Promise<number> {
  let bytes = 0
  const pending = [folder]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const path = next
    for (const entry of await onDisk(() => readdir(path, { withFileTypes: true }), [])) {
      const member = join(path, entry.name)
      if (entry.isDirectory()) pending.push(member)
      else bytes += (await onDisk(() => lstat(member), undefined))?.size ?? 0
    }
  }
  return bytes
}

/** Deletes the folders of downloads whose ids are not among the `known` ones, except those that are never deleted. */
export async function removeOrphanFolders(
  root: string,
  tools: readonly string[],
  known: () => Promise<ReadonlySet<string>>,
): Promise<void> {
  const folders = await downloadFolders(root, tools)
  // Read after the folders: another process may add downloads meanwhile, each before its folder.
  const ids = await known()
  for (const folder of folders) {
    const [, id = '', permanent] = downloadFolder.exec(basename(folder)) ?? []
    if (permanent === undefined && !ids.has(id)) await removeFolder(folder)
  }
}

function isControlFile(name: string): boolean {
  return controlFiles.some((pattern) => pattern.test(name))
}

/** Maps a missing file to `missing`, and other errors to `unavailable`. */
async function onDisk<T>(work: () => Promise<T>, missing: T): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return missing
    throw new GatewayError('unavailable', { reason: 'failed to read the download folder', cause: error })
  }
}

/** The default folder for downloads by programs, below the data folder. */
export const temporaryDownloads = 'temp'

interface DownloadSpaceOptions {
  /** The existing folders of all downloads. */
  readonly folders: () => Promise<readonly string[]>
  /** The current limit of their total size in bytes. */
  readonly limit: () => number
}

/**
 * The disk space of all downloads by programs. Together with pending uploads they may use `spool_size_limit`. Finished
 * downloads that stay on the disk count like running ones. Uploads are not limited by the space of downloads.
 */
export class DownloadSpace {
  /** Bytes by folder: as claimed for running downloads, as measured for the others. */
  readonly #bytes = new Map<string, number>()
  readonly #running = new Set<string>()

  constructor(private readonly options: DownloadSpaceOptions) {}

  /** Rejects with `no_space` if the limit is reached. */
  async assertSpace(): Promise<void> {
    if (this.options.limit() === Infinity) return
    const folders = new Set(await this.options.folders())
    for (const folder of this.#bytes.keys()) {
      if (!folders.has(folder) && !this.#running.has(folder)) this.#bytes.delete(folder)
    }
    for (const folder of folders) {
      if (this.#running.has(folder)) continue
      const bytes = await sizeOfFolder(folder)
      if (!this.#running.has(folder)) this.#bytes.set(folder, bytes)
    }
    this.#assertWithin(1)
  }

  /**
   * Counts the folder as a running download during `work`. `claim` sets its size, and throws `no_space` above the
   * limit.
   */
  async withClaim<T>(folder: string, work: (claim: (bytes: number) => void) => Promise<T>): Promise<T> {
    this.#running.add(folder)
    // Files of an earlier run belong to this download, which claims them again.
    this.#bytes.delete(folder)
    try {
      await this.assertSpace()
      return await work((bytes) => {
        if (this.options.limit() === Infinity) return
        this.#bytes.set(folder, bytes)
        this.#assertWithin(0)
      })
    } finally {
      this.#running.delete(folder)
    }
  }

  #assertWithin(additional: number): void {
    let total = additional
    for (const bytes of this.#bytes.values()) total += bytes
    if (total <= this.options.limit()) return
    const reason = 'downloads use all the disk space that spool_size_limit allows: delete some of them first'
    throw new GatewayError('no_space', { reason })
  }
}
