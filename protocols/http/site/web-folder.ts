/** The folder of a built web client on the disk of this machine: reading from it, and never from anywhere else. */
import { constants } from 'node:fs'
import { open, realpath, type FileHandle } from 'node:fs/promises'
import { join, relative, resolve, sep } from 'node:path'
import type { OpenFile } from '../../../src/driver.js'
import { GatewayError } from '../../../src/errors.js'

// A pipe of that name must not keep us waiting for its other end.
const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Faults that mean: there is no such file here. */
const missing = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'EISDIR', 'ENAMETOOLONG'])

export class WebFolder {
  readonly path: string

  /** A relative path is relative to the working directory. */
  constructor(path: string) {
    this.path = resolve(path)
  }

  /**
   * Opens the file of these names below the folder, for reading. A symbolic link is followed where it leads to something inside;
   * the folder may be one itself, and be pointed elsewhere at any time. `not_found` where there is no regular file inside that can be read.
   */
  async open(names: readonly string[]): Promise<OpenFile> {
    if (!names.every(isPlainName)) throw new GatewayError('not_found')
    try {
      const [root, file] = await Promise.all([realpath(this.path), realpath(join(this.path, ...names))])
      if (!relative(root, file).split(sep).every(isPlainName)) throw new GatewayError('not_found')
      return await openedFile(await open(file, readFlags), names.at(-1) ?? '')
    } catch (error) {
      if (missing.has((error as NodeJS.ErrnoException).code ?? ''))
        throw new GatewayError('not_found', { cause: error })
      throw error
    }
  }
}

/** A name of one file or folder, not hidden; no way up, no second name inside. */
export function isPlainName(name: string): boolean {
  // eslint-disable-next-line no-control-regex -- refusing control characters is the point
  return name !== '' && !name.startsWith('.') && !/[/\\\u0000-\u001f\u007f]/.test(name)
}

async function openedFile(handle: FileHandle, name: string): Promise<OpenFile> {
  try {
    const stats = await handle.stat({ bigint: true })
    if (!stats.isFile()) throw new GatewayError('not_found')
    const revision = [stats.ino, stats.size, stats.mtimeNs].map((number) => number.toString(36)).join('-')
    return {
      entry: { name, kind: 'file', size: Number(stats.size), modified: stats.mtime, revision },
      read: async (into, position) => (await handle.read(into, 0, into.length, position)).bytesRead,
      close: () => handle.close(),
    }
  } catch (error) {
    await handle.close()
    throw error
  }
}
