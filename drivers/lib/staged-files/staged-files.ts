/**
 * Staged files beside their targets, by path: they are written, get the names of their targets when they are complete,
 * and are removed otherwise. A server that moves in several steps may have removed the old file already, or may still
 * be moving. A staged file is therefore removed only if it cannot be the only copy: `settle` decides.
 */
import { put } from '../../../src/base/bounded-tables.js'
import { throwIfAborted } from '../../../src/base/cancellation.js'
import type { WriteOptions } from '../../../src/contract/call-options.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { isGatewayError } from '../../../src/base/errors.js'
import { childOf, nameOf, parentOf, type Path } from '../../../src/base/path.js'
import { BackgroundDeleter } from './background-deleter.js'
import { settle, type FoundFile, type ReplacingFiles } from './replacing.js'
import { isOrphan, stagedName, stagingRun } from './staged-names.js'

/** Timeout in milliseconds for the cleanup of a staged file. */
const cleanupTimeout = 15_000
/** Maximum number of staged files of this instance whose cleanup is pending. */
const maxPending = 1000

/** State of a staged file that has not got its name. Stored as JSON, so field names must not change. */
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
export type FileVersion = FoundFile & { readonly identity: string; readonly isFolder?: boolean }

/** A server that replaces files by moving others to their names. */
export interface MovingServer {
  /**
   * Moves a file. Without `overwrite`, it should not replace another, but reject with `exists` or
   * `precondition_failed`.
   */
  move(from: Path, to: Path, overwrite: boolean, signal?: AbortSignal): Promise<void>
  /** Undefined if nothing exists there. */
  find(path: Path, signal: AbortSignal): Promise<FileVersion | undefined>
  /** The effect of a move that rejected with this error. 'failed': the server may have changed something. */
  outcomeOf(error: unknown): 'nothing' | 'failed' | 'unknown'
  /** Milliseconds within which the server has ended a move in any case. */
  readonly timeout: number
}

interface StagedFilesDependencies {
  readonly env: Pick<DriverEnv, 'instance' | 'log' | 'state'>
  /** Rejects with `not_found`, unless a missing file is not an error. */
  readonly remove: (path: Path, signal: AbortSignal) => Promise<void>
  /** Serializes the changes of a name. */
  readonly exclusively: <T>(path: Path, work: () => Promise<T>, signal: AbortSignal | undefined) => Promise<T>
  /** Absent: files get their names otherwise. */
  readonly server?: MovingServer
  /** Whether a staged file may still get its name after that has failed. Otherwise it is removed. */
  readonly isNeeded?: (staged: Path) => boolean
}

export class StagedFiles {
  readonly #pending = new Map<Path, UnpublishedFile>()
  readonly #deleter = new BackgroundDeleter<Path>((staged) => this.removeOrphan(staged))

  constructor(private readonly dependencies: StagedFilesDependencies) {}

  /**
   * Writes a staged file with `fill`, and gives it its name with `publish`, exclusively for the path: by `move`, or
   * otherwise. The old file is intact until the new one is stored.
   */
  async write<T>(
    path: Path,
    { signal, beforePublish }: WriteOptions,
    fill: (staged: Path) => Promise<void>,
    publish: (move: (old: FileVersion | undefined, overwrite: boolean) => Promise<void>, staged: Path) => Promise<T>,
  ): Promise<T> {
    const { env, exclusively, isNeeded } = this.dependencies
    const staged = childOf(parentOf(path), stagedName(env.instance.name))
    const progress = { isMoving: false }
    const move = (old: FileVersion | undefined, overwrite: boolean) => {
      progress.isMoving = true
      return this.#move(staged, path, old, overwrite)
    }
    try {
      await fill(staged)
      throwIfAborted(signal)
      await beforePublish?.()
      return await exclusively(path, () => publish(move, staged), signal)
    } catch (error) {
      if (!progress.isMoving && isNeeded?.(staged) !== true) await this.discard(staged)
      throw error
    }
  }

  /** Removes a file for which no move was requested. Never rejects: what cannot be removed now is removed later. */
  async discard(staged: Path): Promise<void> {
    await this.#cleanUp(staged, {}).catch(ignoreDeferred)
  }

  /** Whether `name` is a staged file, which listings leave out. Schedules the cleanup of an orphaned one. */
  isStaged(folder: Path, name: string): boolean {
    if (stagingRun(name) === undefined) return false
    const staged = childOf(folder, name)
    if (this.isOrphan(staged)) this.#deleter.enqueue(staged)
    return true
  }

  /** Whether nothing will be published from a staged file any more, but by its cleanup. */
  isOrphan(staged: Path): boolean {
    return this.#pending.has(staged) || isOrphan(nameOf(staged), this.dependencies.env.instance)
  }

  async removeOrphan(staged: Path): Promise<void> {
    const file = this.#pending.get(staged) ?? (await this.#stored(staged)) ?? {}
    if (Date.now() >= (file.until ?? 0)) await this.#cleanUp(staged, file)
  }

  /**
   * Moves the staged file to `target`; `old` is the file that it replaces. Where there is none, the server is told not
   * to replace any: it may take the name for that of another file. A file that another client has created since is
   * replaced nevertheless, if `overwrite` permits it. The move cannot be canceled, because the server would continue
   * and its outcome would be unknown. Rejects with the error of the server, after the cleanup was done or scheduled.
   */
  async #move(staged: Path, target: Path, old: FileVersion | undefined, overwrite: boolean): Promise<void> {
    const server = this.#server
    let move = { target, hasBegun: true, until: Date.now() + server.timeout, ...(old && { old: old.identity }) }
    await this.#store(staged, move)
    try {
      await server.move(staged, target, overwrite && old !== undefined).catch(async (error: unknown) => {
        const isTaken = isGatewayError(error, 'exists', 'precondition_failed')
        const created = overwrite && !old && isTaken ? await this.#find(target) : undefined
        if (!created || created.isFolder === true) throw error
        move = { ...move, old: created.identity, until: Date.now() + server.timeout }
        await this.#store(staged, move)
        await server.move(staged, target, true)
      })
    } catch (error) {
      const outcome = server.outcomeOf(error)
      if (outcome === 'unknown') await this.#checkMoved(staged, move)
      else await this.#cleanUp(staged, { ...move, hasBegun: outcome === 'failed', until: 0 }).catch(ignoreDeferred)
      throw error
    }
    await this.#forget(staged, move)
  }

  get #server(): MovingServer {
    const { server } = this.dependencies
    if (!server) throw new Error('files do not get their names by moves here')
    return server
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

  #find(path: Path): Promise<FileVersion | undefined> {
    return this.#server.find(path, AbortSignal.timeout(cleanupTimeout))
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
    const { remove, env } = this.dependencies
    const found = target && (await this.#server.find(target, signal))
    if (target === undefined || (hasBegun !== true && found)) return remove(staged, signal)
    const files: ReplacingFiles = {
      find: async (path) => (path === target ? found : this.#server.find(path, signal)),
      move: (from, to) => this.#server.move(from, to, false, signal),
      remove: (path) => remove(path, signal),
    }
    const settled = await settle(files, { from: staged, to: target, isStaged: true, ...(old !== undefined && { old }) })
    if (settled.outcome !== 'both') return
    env.log.warn({ target, kept: settled.kept }, 'file may be truncated, complete copy stored beside it')
  }

  // Pending cleanups: in memory, and stored for later instances if an old file may be lost. Not in a journal: the node
  // that finds the staged file of an ended one must know of the move before it removes the file.

  #defer(staged: Path, file: UnpublishedFile): void {
    put(this.#pending, staged, file, maxPending)
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
