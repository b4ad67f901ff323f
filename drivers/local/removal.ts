/** Removal of folder trees, and the recycle bin. */
import { randomBytes } from 'node:crypto'
import { cp, mkdir, opendir, rename, rm, unlink, writeFile } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { GatewayError } from '../../src/base/errors.js'
import { reservedPrefix, type Path } from '../../src/base/path.js'
import { decodeUtf8 } from '../../src/base/utf8.js'
import { systemCode } from './errors.js'
import type { Folder } from './folder.js'
import type { Location, RootFolder } from './root-folder.js'
import { asyncSyscalls } from './syscalls.js'

/**
 * Removes everything in the folder, but not the folder itself, whatever the bytes of the names. Each folder is opened
 * by its real path, so symlinks are not followed. After an abort, the remaining entries are unchanged.
 */
export async function removeTree(root: RootFolder, host: string, signal?: AbortSignal): Promise<void> {
  const folder = await root.openRealPath(host)
  if (!folder) return
  const subfolders: string[] = []
  try {
    for await (const bytes of namesOf(folder)) {
      if (signal?.aborted) throw new GatewayError('aborted')
      const name = decodeUtf8(bytes) ?? (await renamed(folder, bytes))
      const stats = await folder.calls.lstat(folder.pathOf(name))
      if (stats?.isDirectory() === true) subfolders.push(name)
      else if (stats) await ignoreMissing(() => folder.calls.unlink(folder.pathOf(name)))
    }
  } finally {
    folder.close()
  }
  for (const name of subfolders) {
    const child = join(host, name)
    await removeTree(root, child, signal)
    await removeFolder(root, host, (parent) => parent.pathOf(name))
  }
}

/** The names of the members, as the bytes that the file system stores. */
async function* namesOf(folder: Folder): AsyncGenerator<Buffer> {
  // The types of Node lack the names of this encoding.
  const directory = await opendir(folder.selfPath, { encoding: 'buffer' as BufferEncoding })
  for await (const { name } of directory) yield name as unknown as Buffer
}

/** Renames a member whose name is not UTF-8, which no other call can address, to a hidden name. Resolves to it. */
async function renamed(folder: Folder, bytes: Buffer): Promise<string> {
  const name = `${reservedPrefix}removed-${randomBytes(8).toString('hex')}`
  await ignoreMissing(() => rename(Buffer.concat([Buffer.from(folder.pathOf('')), bytes]), folder.pathOf(name)))
  return name
}

async function removeFolder(root: RootFolder, parentHost: string, at: (parent: Folder) => string): Promise<void> {
  const parent = await root.openRealPath(parentHost)
  if (!parent) return
  try {
    await ignoreMissing(() => parent.calls.rmdir(at(parent)))
  } finally {
    parent.close()
  }
}

async function ignoreMissing(call: () => void | Promise<void>): Promise<void> {
  try {
    await call()
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error
  }
}

export class RecycleBin {
  /** `host`: the absolute real path of an existing folder. */
  constructor(
    private readonly root: RootFolder,
    private readonly host: string,
  ) {}

  /** Whether the path is the recycle bin or inside it. Files removed there are deleted permanently. */
  contains(host: string): boolean {
    return host === this.host || host.startsWith(this.host + sep)
  }

  /**
   * Moves the entry at `location` into the bin, under the same relative path. If that name is taken, a timestamp is
   * appended.
   */
  async recycle(location: Location, path: Path): Promise<void> {
    if (this.host.startsWith(location.host + sep)) {
      throw new GatewayError('denied', { reason: 'this folder contains the recycle bin' })
    }
    const preferred = join(this.host, path)
    await mkdir(dirname(preferred), { recursive: true })
    const target = await takeName(preferred, location.stats?.isDirectory() === true)
    try {
      await asyncSyscalls.rename(location.at, target)
      return
    } catch (error) {
      if (systemCode(error) !== 'EXDEV') {
        await rm(target, { recursive: true, force: true })
        throw error
      }
    }
    await this.#copyAcross(location, target)
  }

  /** Copies the entry completely to a bin on another file system, then removes the original. */
  async #copyAcross(location: Location, target: string): Promise<void> {
    try {
      if (location.stats?.isSymbolicLink() === true) await unlink(target)
      await cp(location.at, target, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true })
    } catch (error) {
      await rm(target, { recursive: true, force: true })
      throw error
    }
    if (location.stats?.isDirectory() !== true) {
      await location.calls.unlink(location.at)
      return
    }
    await removeTree(this.root, location.host)
    await location.calls.rmdir(location.at)
  }
}

/** Takes a free name by an empty file or folder, which the entry replaces: no other remover takes the same one. */
async function takeName(preferred: string, isFolder: boolean): Promise<string> {
  const timestamp = new Date().toISOString().replace(/\D/g, '').slice(0, 14)
  const suffix = randomBytes(3).toString('hex')
  for (const name of [preferred, `${preferred}_${timestamp}`, `${preferred}_${timestamp}_${suffix}`]) {
    try {
      await (isFolder ? mkdir(name) : writeFile(name, '', { flag: 'wx' }))
      return name
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error
    }
  }
  throw new GatewayError('exists', { reason: 'this name already exists in the recycle bin' })
}
