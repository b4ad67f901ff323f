/**
 * Publishes staged files: moves them to their targets, and cleans up after a failed move. A server that moves in
 * several steps may have removed the old file already, or may still be moving. A staged file is therefore removed only
 * if it cannot be the only copy: `settle` decides.
 */
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { isGatewayError } from '../../src/contract/errors.js'
import { childOf, type Path } from '../../src/contract/path.js'
import { BackgroundDeleter } from './background-deleter.js'
import { settle, type FoundFile, type ReplacingFiles } from './replacing.js'
import { isOrphan, stagingRun } from './staged-names.js'

/** Timeout in milliseconds for the cleanup of a staged file. */
const cleanupTimeout = 15_000
/** Maximum number of staged files of this instance whose cleanup is pending. */
const maxPending = 1000

/** State of a staged file that was not published. Stored as JSON, so field names must not change. */
interface UnpublishedFile {
  /** The target of the move; undefined if no move was requested. */
  readonly target?: Path
  /** Identity of the file that was at `target` before the move; undefined if there was none. */
  readonly old?: string
  /** The server may have changed `target`. */
  readonly hasBegun?: boolean
  /** Time in milliseconds since the epoch until which the server may still be processing the move. */
  readonly until?: number
}

/** A file on the server. */
export type StagedVersion = FoundFile & { readonly identity: string; readonly isFolder?: boolean }

interface PublishingDependencies {
  /** Moves a file. Without `overwrite`, it should not replace another, but reject with `exists` or `precondition_failed`. */
  move(from: Path, to: Path, overwrite: boolean, signal?: AbortSignal): Promise<void>
  /** Rejects with `not_found`, unless a missing file is not an error. */
  delete(path: Path, signal: AbortSignal): Promise<void>
  /** Undefined if nothing exists there. */
  find(path: Path, signal: AbortSignal): Promise<StagedVersion | undefined>
  /** The effect of a move that rejected with this error. 'failed': the server may have changed something. */
  outcomeOf(error: unknown): 'nothing' | 'failed' | 'unknown'
  /** Milliseconds within which the server has ended a move in any case. */
  readonly timeout: number
  readonly env: Pick<DriverEnv, 'instance' | 'log' | 'state'>
}

export class StagedPublishing {
  readonly #pending = new Map<Path, UnpublishedFile>()
  readonly #deleter: BackgroundDeleter<Path>

  constructor(private readonly dependencies: PublishingDependencies) {
    this.#deleter = new BackgroundDeleter((staged) => this.#cleanUpOrphan(staged))
  }

  /**
   * Moves the staged file to `target`; `old` is the file that it replaces. Where there is none, the server is told not to replace
   * any: it may take the name for that of another file. A file that another client has created since is replaced nevertheless,
   * if `overwrite` permits it. The move cannot be canceled, because the
   * server would continue and its outcome would be unknown. Rejects with the error of the server, after the cleanup was
   * done or scheduled.
   */
  async move(staged: Path, target: Path, old: StagedVersion | undefined, overwrite: boolean): Promise<void> {
    const { timeout } = this.dependencies
    let move = { target, hasBegun: true, until: Date.now() + timeout, ...(old && { old: old.identity }) }
    await this.#store(staged, move)
    try {
      await this.dependencies.move(staged, target, overwrite && old !== undefined).catch(async (error: unknown) => {
        const isTaken = isGatewayError(error, 'exists', 'precondition_failed')
        const created = overwrite && !old && isTaken ? await this.#find(target) : undefined
        if (!created || created.isFolder === true) throw error
        move = { ...move, old: created.identity }
        await this.#store(staged, move)
        await this.dependencies.move(staged, target, true)
      })
    } catch (error) {
      const outcome = this.dependencies.outcomeOf(error)
      if (outcome === 'unknown') await this.#checkMoved(staged, move)
      else await this.#cleanUp(staged, { ...move, hasBegun: outcome === 'failed', until: 0 }).catch(ignoreDeferred)
      throw error
    }
    await this.#forget(staged, move)
  }

  /** Removes a staged file for which no move was requested. Never rejects. */
  async discard(staged: Path): Promise<void> {
    await this.#cleanUp(staged, {}).catch(ignoreDeferred)
  }

  /** Whether `name` is a staged file, which listings leave out. Schedules the cleanup of an orphaned one. */
  isStaged(folder: Path, name: string): boolean {
    if (stagingRun(name) === undefined) return false
    const staged = childOf(folder, name)
    if (this.#pending.has(staged) || isOrphan(name, this.dependencies.env.instance)) this.#deleter.enqueue(staged)
    return true
  }

  async #cleanUpOrphan(staged: Path): Promise<void> {
    const file = this.#pending.get(staged) ?? (await this.#stored(staged)) ?? {}
    if (Date.now() >= (file.until ?? 0)) await this.#cleanUp(staged, file)
  }

  /**
   * After an unknown outcome: if the staged file no longer exists, the move has succeeded. Otherwise its cleanup is
   * deferred.
   */
  async #checkMoved(staged: Path, move: UnpublishedFile): Promise<void> {
    this.#defer(staged, move)
    const remaining = await this.#find(staged).catch(() => true)
    if (remaining === undefined) await this.#forget(staged, move)
  }

  #find(path: Path): Promise<StagedVersion | undefined> {
    return this.dependencies.find(path, AbortSignal.timeout(cleanupTimeout))
  }

  /** Cleans up. On failure, rejects and defers the cleanup until a listing finds the file. */
  async #cleanUp(staged: Path, file: UnpublishedFile): Promise<void> {
    try {
      await this.#finish(staged, file, AbortSignal.timeout(cleanupTimeout))
    } catch (error) {
      if (!isGatewayError(error, 'not_found')) {
        this.dependencies.env.log.warn({ err: error, staged }, 'cannot clean up staged file, will retry')
        this.#defer(staged, file)
        await this.#store(staged, file).catch(() => undefined)
        throw error
      }
    }
    await this.#forget(staged, file)
  }

  /** Settles the move, which the server must have finished, or removes a staged file that was not moved. */
  async #finish(staged: Path, { target, old, hasBegun }: UnpublishedFile, signal: AbortSignal): Promise<void> {
    const { dependencies } = this
    const found = target && (await dependencies.find(target, signal))
    if (target === undefined || (hasBegun !== true && found)) {
      await dependencies.delete(staged, signal)
      return
    }
    const files: ReplacingFiles = {
      find: async (path) => (path === target ? found : dependencies.find(path, signal)),
      move: (from, to) => dependencies.move(from, to, false, signal),
      remove: (path) => dependencies.delete(path, signal),
    }
    const settled = await settle(files, { from: staged, to: target, isStaged: true, ...(old !== undefined && { old }) })
    if (settled.outcome !== 'both') return
    const { kept } = settled
    dependencies.env.log.warn({ target, kept }, 'file may be truncated, complete copy stored beside it')
  }

  // Pending cleanups: in memory, and stored for later instances if an old file may be lost

  #defer(staged: Path, file: UnpublishedFile): void {
    const [oldest] = this.#pending.keys()
    if (oldest !== undefined && this.#pending.size >= maxPending) this.#pending.delete(oldest)
    this.#pending.set(staged, file)
  }

  async #store(staged: Path, file: UnpublishedFile): Promise<void> {
    if (file.old !== undefined) await this.dependencies.env.state.set(keyOf(staged), JSON.stringify(file))
  }

  async #stored(staged: Path): Promise<UnpublishedFile | undefined> {
    const text = await this.dependencies.env.state.get(keyOf(staged))
    return text === undefined ? undefined : (JSON.parse(text) as UnpublishedFile)
  }

  async #forget(staged: Path, { old }: UnpublishedFile): Promise<void> {
    this.#pending.delete(staged)
    if (old !== undefined) await this.dependencies.env.state.set(keyOf(staged), undefined).catch(() => undefined)
  }
}

function ignoreDeferred(): void {
  // The failure was logged, and the cleanup is deferred.
}

function keyOf(staged: Path): string {
  return `unsettled: ${staged}`
}
