/** Files that are written beside their place, under names that nobody is shown, until they take their own. */
import { randomBytes } from 'node:crypto'
import type { Entry, WriteOptions } from '../../src/driver.js'
import { isGatewayError } from '../../src/errors.js'
import { parentOf, type Path } from '../../src/path.js'
import { assertGoing } from '../lib/aborting.js'
import { stagedName } from '../lib/staged-names.js'
import type { Connection } from './connection.js'
import { timesOf } from './entry.js'
import { ifMissing, ifUnsupported } from './errors.js'
import type { Leavings } from './leavings.js'
import type { Places } from './places.js'

/** An old file whose place is being taken. Never swept: where a run dies in that moment, it is all there is of the file. */
const asidePrefix = '.~tidegate-aside-'

export interface Staged {
  readonly host: string
  readonly handle: Buffer
  isOpen: boolean
}

export class Staging {
  /** `instance`: the name of this run of the program. */
  constructor(
    private readonly instance: string,
    private readonly places: Places,
    private readonly leavings: Leavings,
  ) {}

  /** A new file beside `path`. */
  async create(on: Connection, path: Path): Promise<Staged> {
    const host = this.places.within(parentOf(path), stagedName(this.instance))
    const handle = await on.open(host, 'new', 0o600).catch((error: unknown) => {
      // It may have been made all the same.
      if (on.broken) this.leavings.add((other) => other.unlink(host))
      return this.places.explainNew(on, error, path)
    })
    return { host, handle, isOpen: true }
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
    return this.places.entryAt(on, path, false)
  }

  async discard(on: Connection, staged: Staged): Promise<void> {
    if (staged.isOpen) await on.closeHandle(staged.handle).catch(() => undefined)
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
