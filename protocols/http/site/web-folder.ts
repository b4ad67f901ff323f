/** Reads files of a built web client from a local folder. Does not read outside of that folder. */
import { constants } from 'node:fs'
import { open, realpath, type FileHandle } from 'node:fs/promises'
import { join, relative, resolve, sep } from 'node:path'
import type { OpenFile } from '../../../src/contract/capabilities.js'
import { GatewayError } from '../../../src/base/errors.js'

// O_NONBLOCK: opening a FIFO must not block until it has a writer.
const readFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Error codes that count as `not_found`. */
const notFoundCodes = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'EISDIR', 'ENAMETOOLONG'])

export class WebFolder {
  readonly path: string

  /** A relative path is relative to the working directory. */
  constructor(path: string) {
    this.path = resolve(path)
  }

  /**
   * Opens a file for reading. `names` are the segments of its path below the folder. Follows symlinks to targets inside
   * the folder. The folder itself may be a symlink, which is resolved on each call. Rejects with `not_found` if there
   * is no readable regular file.
   */
  async open(names: readonly string[]): Promise<OpenFile> {
    if (!names.every(isPlainName)) throw new GatewayError('not_found')
    try {
      const [root, file] = await Promise.all([realpath(this.path), realpath(join(this.path, ...names))])
      if (!relative(root, file).split(sep).every(isPlainName)) throw new GatewayError('not_found')
      return await openedFile(await open(file, readFlags), names.at(-1) ?? '')
    } catch (error) {
      if (notFoundCodes.has((error as NodeJS.ErrnoException).code ?? ''))
        throw new GatewayError('not_found', { cause: error })
      throw error
    }
  }
}

/**
 * Whether the name is a single path segment: not empty or hidden, without slashes, backslashes and control characters.
 */
export function isPlainName(name: string): boolean {
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
