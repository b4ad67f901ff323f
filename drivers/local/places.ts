/** Places on the disk as every method needs them: found, opened, and known to be what the method is for. */
import { constants, fsync, type BigIntStats } from 'node:fs'
import { promisify } from 'node:util'
import { GatewayError } from '../../src/errors.js'
import type { Path } from '../../src/path.js'
import { patientCalls, type Calls } from './calls.js'
import { systemCode } from './errors.js'
import type { Folder } from './folder.js'
import { isReserved, type Place, type RootFolder } from './root-folder.js'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants

/** Resolves when the bytes of a file, or the names in a folder, are on the medium. */
export const syncFile = promisify(fsync)

/** A file that is open. Whoever asked for it closes it. */
export interface Descriptor {
  readonly fd: number
  readonly calls: Calls
  readonly stats: BigIntStats
}

export class Places {
  /** `sync`: what changes is to be on the medium before the answer. */
  constructor(
    readonly root: RootFolder,
    readonly sync: boolean,
  ) {}

  /** Runs `work` with the place of `path`, whose folder stays open meanwhile. `create`: `parent_missing` where there is none. */
  async at<T>(
    path: Path,
    options: { readonly follow: boolean; readonly create?: boolean },
    work: (place: Place) => Promise<T>,
  ): Promise<T> {
    const place = await this.root.locate(path, options)
    try {
      return await work(place)
    } catch (error) {
      // The folder was removed after it was opened.
      if (options.create === true && systemCode(error) === 'ENOENT') {
        throw new GatewayError('parent_missing', { cause: error })
      }
      throw error
    } finally {
      place.folder.close()
    }
  }

  /** A name is on the medium only when its folder is. */
  async syncFolder(folder: Folder): Promise<void> {
    if (!this.sync || process.platform === 'win32') return
    const fd = await patientCalls.open(folder.self, O_RDONLY)
    try {
      await syncFile(fd)
    } finally {
      await patientCalls.close(fd)
    }
  }

  /** Opens a file and nothing else: a device or a pipe could do anything, or wait for ever. */
  async openFile(path: Path, flags: number): Promise<Descriptor> {
    return this.at(path, { follow: true }, async ({ stats: found, calls, at }) => {
      assertFile(found)
      const fd = await calls.open(at, flags | O_NOFOLLOW | O_NONBLOCK)
      try {
        const stats = await calls.fstat(fd)
        assertFile(stats)
        return { fd, calls, stats }
      } catch (error) {
        await calls.close(fd)
        throw error
      }
    })
  }
}

export function existing({ stats, name }: Place): BigIntStats {
  if (!stats || isReserved(name)) throw new GatewayError('not_found')
  return stats
}

export function assertFile(stats: BigIntStats | undefined): asserts stats is BigIntStats {
  if (!stats) throw new GatewayError('not_found')
  if (stats.isDirectory()) throw new GatewayError('is_dir')
  if (!stats.isFile()) throw new GatewayError('denied', { reason: 'not a regular file' })
}

export function assertNotRoot({ name }: Place): void {
  if (name === '.') throw new GatewayError('denied', { reason: 'the root of a storage stays' })
}

export function assertReplaceable({ stats }: Place, createOnly: boolean): void {
  if (stats?.isDirectory() === true) throw new GatewayError('is_dir')
  if (stats && createOnly) throw new GatewayError('exists')
}
