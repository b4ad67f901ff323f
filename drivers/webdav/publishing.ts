/**
 * How a file that was stored aside takes its place, and what becomes of it where that fails. Servers that move in several steps may have
 * removed the old file by then, or may be at it still: the staged file goes only where it cannot be all there is.
 */
import type { DriverEnv } from '../../src/driver.js'
import { isGatewayError } from '../../src/errors.js'
import { besideOf, childOf, type Path } from '../../src/path.js'
import { isAbandoned, stagedBy } from '../lib/staged-names.js'
import { Sweep } from '../lib/sweep.js'
import { revisionOf } from './entry.js'
import { WebdavStatus } from './errors.js'
import type { Properties } from './multistatus.js'
import { patience, type WebdavServer } from './server.js'

/** Milliseconds that the server has for dropping what nobody wants any more. */
const cleanUpTime = 15_000
/** Staged files of this run that listings look out for. */
const unsettledAtMost = 1000

/** What is known of a staged file that is of no use, or maybe of the only one. */
interface Unsettled {
  /** Where it was to be moved; undefined where that was never asked for. */
  readonly target?: Path
  /** What the file at `target` was told by before; undefined where there was none. */
  readonly old?: string
  /** The server may have changed something at `target`. */
  readonly hasBegun?: boolean
  /** Milliseconds since 1970: before that, the server may be at work on it. */
  readonly until?: number
}

export interface PublishingOptions {
  readonly server: WebdavServer
  readonly env: DriverEnv
  /** What is at a path, if anything is. */
  readonly lookFor: (path: Path, signal: AbortSignal) => Promise<Properties | undefined>
}

export class Publishing {
  readonly #unsettled = new Map<Path, Unsettled>()
  readonly #sweep: Sweep<Path>

  constructor(private readonly parts: PublishingOptions) {
    this.#sweep = new Sweep((staged) => this.#settleMet(staged))
  }

  /**
   * Moves the staged file to `target`, where `old` is. No signal ends it: the server would go on, and nobody would know. Rejects as the
   * server does, and has taken care of the staged file then.
   */
  async move(staged: Path, target: Path, old: Properties | undefined, overwrite: boolean): Promise<void> {
    const move = { target, hasBegun: true, until: Date.now() + patience, ...(old && { old: identityOf(old) }) }
    await this.#remember(staged, move)
    try {
      await this.parts.server.move(staged, target, 'file', overwrite)
    } catch (error) {
      const outcome = outcomeOf(error)
      if (outcome === 'unknown') await this.#look(staged, move)
      else await this.#settle(staged, { ...move, hasBegun: outcome === 'failed', until: 0 }).catch(whenMet)
      throw error
    }
    await this.#forget(staged, move)
  }

  /** Removes a staged file that was not moved. */
  async discard(staged: Path): Promise<void> {
    await this.#settle(staged, {}).catch(whenMet)
  }

  /** Whether it is a file that is being written, which nobody sees. What runs have left of those is settled. */
  isStaged(folder: Path, name: string): boolean {
    if (stagedBy(name) === undefined) return false
    const staged = childOf(folder, name)
    if (this.#unsettled.has(staged) || isAbandoned(name, this.parts.env.instance)) this.#sweep.soon(staged)
    return true
  }

  async #settleMet(staged: Path): Promise<void> {
    const unsettled = this.#unsettled.get(staged) ?? (await this.#remembered(staged)) ?? {}
    if (Date.now() >= (unsettled.until ?? 0)) await this.#settle(staged, unsettled)
  }

  /** Whether the server is through with a move after all; until that is sure, nothing is done. */
  async #look(staged: Path, move: Unsettled): Promise<void> {
    this.#lookOut(staged, move)
    const isThere = await this.parts.lookFor(staged, AbortSignal.timeout(cleanUpTime)).catch(() => true)
    if (isThere === undefined) await this.#forget(staged, move)
  }

  /** Rejects where it cannot be settled now; then it is when it is met. */
  async #settle(staged: Path, unsettled: Unsettled): Promise<void> {
    try {
      await this.#finish(staged, unsettled, AbortSignal.timeout(cleanUpTime))
    } catch (error) {
      if (!isGatewayError(error, 'not_found')) {
        this.parts.env.log.warn({ err: error, staged }, 'a file that was being written is left behind for now')
        this.#lookOut(staged, unsettled)
        await this.#remember(staged, unsettled).catch(() => undefined)
        throw error
      }
    }
    await this.#forget(staged, unsettled)
  }

  /** Nothing works on the staged file any more: puts it where it is missed, or removes it. */
  async #finish(staged: Path, { target, old, hasBegun }: Unsettled, signal: AbortSignal): Promise<void> {
    const { server, lookFor, env } = this.parts
    const found = target && (await lookFor(target, signal))
    if (target && !found && old !== undefined) {
      await server.move(staged, target, 'file', false, signal)
    } else if (target && found && hasBegun === true && !(await this.#isWhole(staged, found, old, signal))) {
      // Half of it, or somebody else's: that is not for us to say, nor is the whole one to be hidden.
      const kept = besideOf(target, 'kept')
      env.log.warn({ target, kept }, 'a file may have been replaced by a part of the new one, which is kept beside it')
      await server.move(staged, kept, 'file', false, signal)
    } else {
      await server.delete(staged, 'file', signal)
    }
  }

  /** The old file as it was, or one as long as the new. */
  async #isWhole(staged: Path, found: Properties, old: string | undefined, signal: AbortSignal): Promise<boolean> {
    if (identityOf(found) === old) return true
    const { size } = await this.parts.server.look(staged, signal)
    return size !== undefined && size === found.size
  }

  // What is known of staged files: by this run, and by later ones where an old file may be lost

  #lookOut(staged: Path, unsettled: Unsettled): void {
    const [oldest] = this.#unsettled.keys()
    if (oldest !== undefined && this.#unsettled.size >= unsettledAtMost) this.#unsettled.delete(oldest)
    this.#unsettled.set(staged, unsettled)
  }

  async #remember(staged: Path, unsettled: Unsettled): Promise<void> {
    if (unsettled.old !== undefined) await this.parts.env.state.set(keyOf(staged), JSON.stringify(unsettled))
  }

  async #remembered(staged: Path): Promise<Unsettled | undefined> {
    const text = await this.parts.env.state.get(keyOf(staged))
    return text === undefined ? undefined : (JSON.parse(text) as Unsettled)
  }

  async #forget(staged: Path, { old }: Unsettled): Promise<void> {
    this.#unsettled.delete(staged)
    if (old !== undefined) await this.parts.env.state.set(keyOf(staged), undefined).catch(() => undefined)
  }
}

function whenMet(): void {
  // What cannot be done for now was told to the log.
}

function keyOf(staged: Path): string {
  return `unsettled: ${staged}`
}

/** By what a file is known again. */
function identityOf({ etag, size, modified }: Properties): string {
  return revisionOf(etag) ?? [size, modified?.getTime()].join(' ')
}

/** What a move that failed has done; unknown where the server has not said, or only one before it has. */
function outcomeOf(error: unknown): 'nothing' | 'failed' | 'unknown' {
  const status = error instanceof Error && error.cause instanceof WebdavStatus ? error.cause.status : undefined
  if (status === undefined || [408, 502, 504].includes(status)) return 'unknown'
  return status < 500 || [501, 503, 507].includes(status) ? 'nothing' : 'failed'
}
