/** How a new file takes the name of an old one on servers that rename over nothing. */
import { setTimeout as pause } from 'node:timers/promises'
import type { DriverLog } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { besideOf, nameOf, type Path } from '../../src/path.js'
import type { Connection } from './connection.js'
import type { Connections } from './connections.js'
import { isBareRefusal, translated } from './errors.js'
import type { Files } from './files.js'

/** The files of one replacement. The old one waits at `aside`. */
interface Places {
  readonly from: Path
  readonly to: Path
  readonly aside: Path
}

export class Replacing {
  readonly #underWay = new Set<Promise<void>>()

  constructor(
    private readonly files: Files,
    private readonly connections: Connections,
    private readonly log: DriverLog,
  ) {}

  /**
   * The old file steps aside, and goes once the new one has its name. Where that cannot be it gets its name back, over another
   * connection if this one was lost. Its name meanwhile is one that is shown, and that nothing removes later: whatever happens, it is
   * there to be found. The error says so where it did not get its name back.
   */
  async replace(on: Connection, from: Path, to: Path): Promise<void> {
    const work = this.#inTurn(on, from, to)
    this.#underWay.add(work)
    try {
      await work
    } finally {
      this.#underWay.delete(work)
    }
  }

  /** Once none is under way, or after so many milliseconds. */
  async settled(limit: number): Promise<void> {
    const late = pause(limit, undefined, { ref: false })
    if (this.#underWay.size > 0) await Promise.race([Promise.allSettled(this.#underWay), late])
  }

  async #inTurn(on: Connection, from: Path, to: Path): Promise<void> {
    const places = { from, to, aside: besideOf(to, 'replaced') }
    await on.ask(`RNFR ${this.files.wire(to)}`).catch(refused)
    try {
      await on.ask(`RNTO ${this.files.wire(places.aside)}`)
      await on.rename(this.files.wire(from), this.files.wire(to))
    } catch (error) {
      const settling = this.connections.putRight(on, (sound) => this.#settle(sound, places))
      const isReplaced = await settling.catch((reason: unknown) => this.#leave(places, error, reason))
      if (!isReplaced) return refused(error)
    }
    await this.connections
      .putRight(on, (sound) => this.#clear(sound, places.aside))
      .catch((error: unknown) => {
        this.log.warn({ err: error, path: places.aside }, 'a file that was replaced could not be removed')
      })
  }

  /** Looks what came of it; false: the old file has its name, again or still. Rejects where neither is sure. */
  async #settle(on: Connection, { from, to, aside }: Places): Promise<boolean> {
    if ((await this.files.kindAt(on, to)) === 'nothing') {
      await on.rename(this.files.wire(aside), this.files.wire(to))
      return false
    }
    if ((await this.files.kindAt(on, from)) === 'nothing') return true
    // The old one never left, or somebody else has taken its name.
    if ((await this.files.kindAt(on, aside)) !== 'nothing') throw new GatewayError('exists')
    return false
  }

  #leave({ to, aside }: Places, error: unknown, reason: unknown): never {
    this.log.error({ err: reason, path: to, aside }, 'a file that was to be replaced may have another name now')
    throw new GatewayError(translated(error).code, {
      reason: `the file that was to be replaced may be called "${nameOf(aside)}" now`,
      cause: error,
    })
  }

  async #clear(on: Connection, aside: Path): Promise<void> {
    await on.ask(`DELE ${this.files.wire(aside)}`).catch(async (error: unknown) => {
      if (on.broken || (await this.files.kindAt(on, aside)) !== 'nothing') throw error
    })
  }
}

function refused(error: unknown): never {
  if (isBareRefusal(error)) {
    throw new GatewayError('denied', { reason: 'the FTP server does not let the file be replaced', cause: error })
  }
  throw error
}
