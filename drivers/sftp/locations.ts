/**
 * Maps paths to paths of the server, looks up their entries, and refines errors: the protocol has few status codes, and
 * servers use even fewer, so the cause of a failure is found by looking at the path.
 */
import type { Stats } from 'ssh2'
import type { WriteOptions } from '../../src/contract/call-options.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError, toGatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { nameOf, parentOf, root, trimTrailing, type Path } from '../../src/base/path.js'
import type { ServerConnection } from './connection.js'
import { entryOf } from './entry.js'

/** Available bytes below which a disk is considered full. */
const fullDiskThreshold = 1024 * 1024

export class SftpLocations {
  readonly #root: string

  /** `rootFolder`: the server's path of the storage's root. */
  constructor(rootFolder: string) {
    this.#root = trimTrailing(rootFolder, '/')
  }

  /** The server's path of `path`. */
  serverPath(path: Path): string {
    return path === '/' ? this.#root || '/' : this.#root + path
  }

  /** The server's path of a name in this folder. The name may be one that a `Path` cannot represent. */
  serverPathIn(folder: Path, name: string): string {
    return `${this.serverPath(folder).replace(/\/$/, '')}/${name}`
  }

  /**
   * The entry at the path. For a symlink: its target's, or with `ofSymlink` its own. Rejects with `not_found` or
   * `not_folder`.
   */
  async entryAt(on: ServerConnection, path: Path, ofSymlink: boolean): Promise<Entry> {
    const host = this.serverPath(path)
    const stats = await on.lstat(host).catch((error: unknown) => this.refineError(on, error, path))
    const name = nameOf(path)
    if (!stats.isSymbolicLink() || ofSymlink) return entryOf(name, stats)
    return this.target(on, host, name, stats)
  }

  /**
   * The entry of a symlink's target, under the symlink's name; the symlink's own entry if it is dangling or
   * inaccessible.
   */
  async target(on: ServerConnection, host: string, name: string, symlink: Stats): Promise<Entry> {
    try {
      return { ...entryOf(name, await on.stat(host)), isSymlink: true }
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'denied')) return entryOf(name, symlink)
      if (!on.broken && isGatewayError(error)) return entryOf(name, symlink) // a symlink loop
      throw error
    }
  }

  /** The entry at the path, with a symlink resolved; undefined if there is none. */
  async entryOrUndefined(on: ServerConnection, path: Path): Promise<Entry | undefined> {
    return undefinedIfMissing(this.entryAt(on, path, false), 'not_folder')
  }

  /**
   * The file that a write would replace, if any. Rejects with `is_folder` for a folder, and with `exists` if
   * `createOnly`.
   */
  async replaceable(on: ServerConnection, path: Path, { createOnly }: WriteOptions): Promise<Entry | undefined> {
    const old = await this.entryOrUndefined(on, path)
    if (old?.kind === 'folder') throw new GatewayError('is_folder')
    if (old && createOnly === true) throw new GatewayError('exists')
    return old
  }

  async #kindAt(on: ServerConnection, path: Path): Promise<'file' | 'folder' | 'nothing'> {
    try {
      return (await on.stat(this.serverPath(path))).isDirectory() ? 'folder' : 'file'
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return 'nothing'
      throw error
    }
  }

  /**
   * Rejects with the refined error of a request for an existing entry: `not_folder` if a file is in place of the
   * folder.
   */
  async refineError(on: ServerConnection, error: unknown, path: Path): Promise<never> {
    const known = toGatewayError(error)
    if (on.broken || known.code === 'denied' || known.code === 'no_space') throw known
    const isUnspecific = known.code === 'unavailable' || known.code === 'not_found'
    if (isUnspecific && (await this.#kindAt(on, path)) === 'file')
      throw new GatewayError('not_folder', { cause: error })
    throw known
  }

  /**
   * Rejects with the refined error of opening a file for reading: `is_folder` for a folder, which some servers refuse
   * to open.
   */
  async refineReadError(on: ServerConnection, error: unknown, path: Path): Promise<never> {
    const isRefused = !on.broken && isGatewayError(error, 'unavailable')
    if (isRefused && (await this.#kindAt(on, path)) === 'folder') throw new GatewayError('is_folder', { cause: error })
    return this.refineError(on, error, path)
  }

  /** Rejects with the refined error of creating an entry: `no_space`, `not_folder` or `parent_missing`. */
  async refineCreateError(on: ServerConnection, error: unknown, path: Path): Promise<never> {
    const known = toGatewayError(error)
    if (on.broken || known.code === 'no_space') throw known
    if (await this.#isFull(on, known)) throw new GatewayError('no_space', { cause: error })
    const parent = await this.#kindAt(on, parentOf(path))
    if (parent === 'folder') throw known
    throw new GatewayError(parent === 'file' ? 'not_folder' : 'parent_missing', { cause: error })
  }

  /** Rejects with the refined error of writing bytes: `no_space` if the disk is full. */
  async refineWriteError(on: ServerConnection, error: unknown): Promise<never> {
    const isFull = isGatewayError(error) && (await this.#isFull(on, error))
    throw isFull ? new GatewayError('no_space', { cause: error }) : error
  }

  /** The protocol has no status for a full disk. A generic failure with almost no space available is considered one. */
  async #isFull(on: ServerConnection, error: GatewayError): Promise<boolean> {
    if (on.broken || error.code !== 'unavailable') return false
    const usage = await on.usage(this.serverPath(root)).catch(() => undefined)
    return usage !== undefined && usage.f_bavail * usage.f_frsize < fullDiskThreshold
  }

  /** Rejects with the refined error of a rename to `path`: `is_folder` or `exists` if the name is in use. */
  async refineRenameError(on: ServerConnection, error: unknown, path: Path): Promise<never> {
    const known = toGatewayError(error)
    if (on.broken || known.code === 'no_space') throw known
    const kind = await this.#kindAt(on, path)
    if (kind === 'folder') throw new GatewayError('is_folder', { cause: error })
    if (kind === 'file' && known.code !== 'denied') throw new GatewayError('exists', { cause: error })
    return this.refineCreateError(on, error, path)
  }
}
