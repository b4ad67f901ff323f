/**
 * Where things are on the server, what is there, and why something was refused: the protocol knows a handful of codes, and servers use
 * fewer.
 */
import type { Stats } from 'ssh2'
import type { Entry, WriteOptions } from '../../src/driver.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/errors.js'
import { nameOf, parentOf, root, type Path, withoutTrailing } from '../../src/path.js'
import type { Connection } from './connection.js'
import { entryOf } from './entry.js'

/** Bytes that are left on a disk that is called full: fewer than one request writes. */
const fullBelow = 1024 * 1024

export class Places {
  readonly #root: string

  /** `rootFolder`: the one that is shown. */
  constructor(rootFolder: string) {
    this.#root = withoutTrailing(rootFolder, '/')
  }

  /** As the server calls it. */
  host(path: Path): string {
    return path === '/' ? this.#root || '/' : this.#root + path
  }

  /** Of a name in this folder, which may be one that no path can have. */
  within(folder: Path, name: string): string {
    return `${this.host(folder).replace(/\/$/, '')}/${name}`
  }

  async entryAt(on: Connection, path: Path, ofLink: boolean): Promise<Entry> {
    const host = this.host(path)
    const stats = await on.lstat(host).catch((error: unknown) => this.explain(on, error, path))
    const name = nameOf(path)
    if (!stats.isSymbolicLink() || ofLink) return entryOf(name, stats)
    return this.target(on, host, name, stats)
  }

  /** What the link shows; itself where that is nothing. */
  async target(on: Connection, host: string, name: string, link: Stats): Promise<Entry> {
    try {
      return { ...entryOf(name, await on.stat(host)), isLink: true }
    } catch (error) {
      if (isGatewayError(error, 'not_found', 'denied')) return entryOf(name, link)
      if (!on.broken && isGatewayError(error)) return entryOf(name, link) // a circle of links
      throw error
    }
  }

  async look(on: Connection, path: Path): Promise<Entry | undefined> {
    return this.entryAt(on, path, false).catch((error: unknown) => {
      if (isGatewayError(error, 'not_found', 'not_dir')) return undefined
      throw error
    })
  }

  /** What would be replaced. */
  async replaceable(on: Connection, path: Path, { createOnly }: WriteOptions): Promise<Entry | undefined> {
    const old = await this.look(on, path)
    if (old?.kind === 'folder') throw new GatewayError('is_dir')
    if (old && createOnly === true) throw new GatewayError('exists')
    return old
  }

  async #kindAt(on: Connection, path: Path): Promise<'file' | 'folder' | 'nothing'> {
    try {
      return (await on.stat(this.host(path))).isDirectory() ? 'folder' : 'file'
    } catch (error) {
      if (isGatewayError(error, 'not_found')) return 'nothing'
      throw error
    }
  }

  /** Why something that should be there is not. */
  async explain(on: Connection, error: unknown, path: Path): Promise<never> {
    const known = toGatewayError(error)
    if (on.broken || known.code === 'denied' || known.code === 'no_space') throw known
    const isBare = known.code === 'unavailable' || known.code === 'not_found'
    if (isBare && (await this.#kindAt(on, path)) === 'file') throw new GatewayError('not_dir', { cause: error })
    throw known
  }

  /** Why something is no file that can be read: some servers open folders like files, others do not. */
  async explainUnread(on: Connection, error: unknown, path: Path): Promise<never> {
    const isRefused = !on.broken && isGatewayError(error, 'unavailable')
    if (isRefused && (await this.#kindAt(on, path)) === 'folder') throw new GatewayError('is_dir', { cause: error })
    return this.explain(on, error, path)
  }

  /** Why something could not be made. */
  async explainNew(on: Connection, error: unknown, path: Path): Promise<never> {
    const known = toGatewayError(error)
    if (on.broken || known.code === 'no_space') throw known
    if (await this.#isFull(on, known)) throw new GatewayError('no_space', { cause: error })
    const parent = await this.#kindAt(on, parentOf(path))
    if (parent === 'folder') throw known
    throw new GatewayError(parent === 'file' ? 'not_dir' : 'parent_missing', { cause: error })
  }

  /** Why bytes could not be written. */
  async explainUnwritten(on: Connection, error: unknown): Promise<never> {
    const isFull = isGatewayError(error) && (await this.#isFull(on, error))
    throw isFull ? new GatewayError('no_space', { cause: error }) : error
  }

  /** The protocol has no word for a full disk: a failure without a reason, where hardly a byte is left, is taken for that. */
  async #isFull(on: Connection, error: GatewayError): Promise<boolean> {
    if (on.broken || error.code !== 'unavailable') return false
    const usage = await on.usage(this.host(root)).catch(() => undefined)
    return usage !== undefined && usage.f_bavail * usage.f_frsize < fullBelow
  }

  /** Why a name could not be taken. */
  async explainTaken(on: Connection, error: unknown, path: Path): Promise<never> {
    const known = toGatewayError(error)
    if (on.broken || known.code === 'no_space') throw known
    const there = await this.#kindAt(on, path)
    if (there === 'folder') throw new GatewayError('is_dir', { cause: error })
    if (there === 'file' && known.code !== 'denied') throw new GatewayError('exists', { cause: error })
    return this.explainNew(on, error, path)
  }
}
