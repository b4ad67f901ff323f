/** Locates and opens files for the methods of the driver. */
import { constants, fsync, type BigIntStats } from 'node:fs'
import { promisify } from 'node:util'
import { GatewayError } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import type { Awaitable } from '../../src/contract/call-options.js'
import { systemCode } from './errors.js'
import type { Folder } from './folder.js'
import { isReserved, type Location, type RootFolder } from './root-folder.js'
import { asyncSyscalls, type Syscalls } from './syscalls.js'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

/** fsync(2): resolves when the data of a file, or the entries of a folder, are on the medium. */
export const syncFile = promisify(fsync)

/** An open file. The caller closes it. */
interface Descriptor {
  readonly fd: number
  readonly calls: Syscalls
  readonly stats: BigIntStats
}

export class Locator {
  /** `sync`: changes are flushed to the medium before a method resolves. */
  constructor(
    readonly root: RootFolder,
    readonly sync: boolean,
  ) {}

  /**
   * Runs `work` with the location of `path`. Its folder is open until `work` settles. With `create`, rejects with
   * `parent_missing` if the folder does not exist.
   */
  async at<T>(
    path: Path,
    options: { readonly follow: boolean; readonly create?: boolean },
    work: (location: Location) => Promise<T>,
  ): Promise<T> {
    const located = this.root.locate(path, options)
    const location = located instanceof Promise ? await located : located
    try {
      return await work(location)
    } catch (error) {
      // The folder was removed after it was opened.
      if (options.create === true && systemCode(error) === 'ENOENT') {
        throw new GatewayError('parent_missing', { cause: error })
      }
      throw error
    } finally {
      location.folder.close()
    }
  }

  /** Flushes the entries of a folder, without which a new name is not durable. */
  syncFolder(folder: Folder): Awaitable<void> {
    return this.sync && process.platform !== 'win32' ? this.#flushFolder(folder) : undefined
  }

  async #flushFolder(folder: Folder): Promise<void> {
    const fd = await asyncSyscalls.open(folder.selfPath, O_RDONLY)
    try {
      await syncFile(fd)
    } finally {
      await asyncSyscalls.close(fd)
    }
  }

  /**
   * Opens a regular file. Anything else is rejected: opening a device can have side effects, and opening a pipe can
   * block.
   */
  async openFile(path: Path, flags: number): Promise<Descriptor> {
    const { folder, stats: located, calls, at } = await this.root.locate(path, { follow: true })
    try {
      assertFile(located)
      const fd = await calls.open(at, flags | O_NOFOLLOW | O_NONBLOCK)
      try {
        const stats = await calls.fstat(fd)
        assertFile(stats)
        return { fd, calls, stats }
      } catch (error) {
        await calls.close(fd)
        throw error
      }
    } finally {
      folder.close()
    }
  }
}

export function requireExisting({ stats, name }: Location): BigIntStats {
  if (!stats || isReserved(name)) throw new GatewayError('not_found')
  return stats
}

export function assertFile(stats: BigIntStats | undefined): asserts stats is BigIntStats {
  if (!stats) throw new GatewayError('not_found')
  if (stats.isDirectory()) throw new GatewayError('is_folder')
  if (!stats.isFile()) throw new GatewayError('denied', { reason: 'not a regular file' })
}

export function assertReplaceable({ stats }: Location, createOnly: boolean): void {
  if (stats?.isDirectory() === true) throw new GatewayError('is_folder')
  if (stats && createOnly) throw new GatewayError('exists')
}
