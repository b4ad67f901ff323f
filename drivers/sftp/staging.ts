/** Files that are written beside their place, under names that nobody is shown, until they take their own. */
import { randomBytes } from 'node:crypto'
import { assertGoing } from '../../src/aborting.js'
import type { Entry, WriteOptions } from '../../src/driver.js'
import { isGatewayError } from '../../src/errors.js'
import { childOf, parentOf, type Path } from '../../src/path.js'
import { stagedBy, stagedName, type KeptFile } from '../lib/staged-names.js'
import type { Connection } from './connection.js'
import { timesOf } from './entry.js'
import { ifMissing, ifUnsupported } from './errors.js'
import type { Leavings } from './leavings.js'
import type { Places } from './places.js'

/** An old file whose place is being taken. Never swept: where a run dies in that moment, it is all there is of the file. */
const asidePrefix = '.~tidegate-aside-'

export interface Staged {
  /** As paths go here, though no path has such a name. */
  readonly path: Path
  readonly host: string
  readonly handle: Buffer
  isOpen: boolean
}

export class Staging {
  /** Staged files that are being written. */
  readonly #open = new Set<string>()

  /** `instance`: the name of this run of the program. */
  constructor(
    private readonly instance: string,
    private readonly places: Places,
    private readonly leavings: Leavings,
  ) {}

  /** Whether this run has staged it, and has left it. */
  isLeft(host: string): boolean {
    return stagedBy(host.slice(host.lastIndexOf('/') + 1)) === this.instance && !this.#open.has(host)
  }

  /** A new file beside `path`. */
  async create(on: Connection, path: Path): Promise<Staged> {
    const name = stagedName(this.instance)
    const host = this.places.within(parentOf(path), name)
    this.#open.add(host)
    const handle = await on.open(host, 'new', 0o600).catch((error: unknown) => {
      this.#open.delete(host)
      // It may have been made all the same.
      if (on.broken) this.leavings.add((other) => other.unlink(host))
      return this.places.explainNew(on, error, path)
    })
    return { path: childOf(parentOf(path), name), host, handle, isOpen: true }
  }

  /** One that was left beside what it is for, to be written on; undefined, and nothing is left of it, where it cannot be relied on. */
  async reopen(on: Connection, { path, held }: KeptFile, whole: { readonly path: Path; readonly size: number }) {
    const host = this.places.host(path)
    const stats = await on.lstat(host).catch(ifMissing)
    if (stats === false) return undefined
    const isBeside = parentOf(path) === parentOf(whole.path)
    if (isBeside && held > 0 && stats.isFile() && held <= stats.size && stats.size <= whole.size) {
      const staged: Staged = { path, host, handle: await on.open(host, 'update'), isOpen: true }
      this.#open.add(host)
      return staged
    }
    // Whatever it is by now, it is in nobody's way.
    await on.unlink(host).catch(() => undefined)
    return undefined
  }

  /** It stays for a later run. */
  async leave(on: Connection, staged: Staged): Promise<void> {
    this.#open.delete(staged.host)
    if (staged.isOpen) await on.closeHandle(staged.handle).catch(() => undefined)
    staged.isOpen = false
  }

  /** The staged file takes its name. */
  async publish(on: Connection, staged: Staged, path: Path, options: WriteOptions): Promise<Entry> {
    const { mode = 0o644, modified, createOnly } = options
    await on.setHandleAttributes(staged.handle, { mode, ...timesOf(modified) }).catch(ifUnsupported)
    await on.closeHandle(staged.handle)
    staged.isOpen = false
    await options.beforePublish?.()
    assertGoing(options.signal)
    await (createOnly === true ? this.renameNew(on, staged.host, path) : this.renameOver(on, staged.host, path))
    this.#open.delete(staged.host)
    return this.places.entryAt(on, path, false)
  }

  async discard(on: Connection, staged: Staged): Promise<void> {
    await this.leave(on, staged)
    await on.unlink(staged.host).catch(() => undefined)
    if (on.broken) this.leavings.add((other) => other.unlink(staged.host))
  }

  /** Gives what is at `from` a name that nothing may have. */
  async renameNew(on: Connection, from: string, to: Path): Promise<void> {
    await on.renameNew(from, this.places.host(to)).catch((error: unknown) => this.places.explainTaken(on, error, to))
  }

  /** The same over a file. */
  async renameOver(on: Connection, from: string, to: Path): Promise<void> {
    try {
      await on.renameOver(from, this.places.host(to))
    } catch (error) {
      if (!isGatewayError(error, 'unsupported')) return this.places.explainTaken(on, error, to)
      await this.#replace(on, from, to)
    }
  }

  /** On a server that renames over nothing: for a moment there is no file of this name, and the old one waits beside. */
  async #replace(on: Connection, from: string, to: Path): Promise<void> {
    const host = this.places.host(to)
    const aside = this.places.within(parentOf(to), `${asidePrefix}${randomBytes(8).toString('hex')}`)
    const restore = async (by: Connection): Promise<void> => {
      const isTaken = await by.lstat(host).then(() => true, ifMissing)
      await (isTaken ? by.unlink(aside) : by.renameNew(aside, host)).catch(ifMissing)
    }
    try {
      await on.renameNew(host, aside).catch(ifMissing)
      await on.renameNew(from, host)
      await on.unlink(aside).catch(ifMissing)
    } catch (error) {
      if (on.broken) this.leavings.add(restore)
      else await restore(on)
      await this.places.explainTaken(on, error, to)
    }
  }
}
