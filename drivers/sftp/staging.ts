/** Staged files: they are written next to the target, under a hidden name, and renamed to their final name. */
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { WriteOptions } from '../../src/contract/call-options.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry } from '../../src/contract/entry.js'
import { isGatewayError } from '../../src/base/errors.js'
import { contentMode } from '../../src/contract/modes.js'
import { childOf, parentOf, type Path } from '../../src/base/path.js'
import { KeyedMutex } from '../lib/keyed-mutex.js'
import { Replacements, type ReplacingFiles } from '../lib/staged-files/replacing.js'
import { stagingRun, stagedName, type ResumableFile } from '../lib/staged-files/staged-names.js'
import type { ServerConnection } from './connection.js'
import type { ServerConnections } from './connections.js'
import { timesOf } from './entry.js'
import { falseIfMissing, ignoreRefusal } from './errors.js'
import type { SftpLocations } from './locations.js'
import type { Orphans } from './orphans.js'

/** Maximum bytes of a name on most file systems. */
const maxNameLength = 255

interface SftpStagedFile {
  /** Path in the storage, though its name is hidden. */
  readonly path: Path
  readonly host: string
  readonly handle: Buffer
  isOpen: boolean
}

export class SftpStaging {
  /** The replacements on servers that cannot replace by renaming. */
  readonly replacements: Replacements
  /** The name of this run of the daemon. */
  readonly #instance: string
  /** Server paths of the staged files that are being written. */
  readonly #open = new Set<string>()
  /** Serializes the replacements of each name. */
  readonly #mutex = new KeyedMutex()

  constructor(
    env: Pick<DriverEnv, 'instance' | 'state' | 'log'>,
    connections: ServerConnections,
    private readonly locations: SftpLocations,
    private readonly orphans: Orphans,
  ) {
    this.#instance = env.instance.name
    this.replacements = new Replacements({
      files: replacingFiles(connections, locations),
      maxName: maxNameLength,
      env,
      exclusively: (path, work) => this.#mutex.run(path, work),
    })
  }

  /** Whether this run has created the staged file and no longer writes it. */
  isReleased(host: string): boolean {
    return stagingRun(host.slice(host.lastIndexOf('/') + 1)) === this.#instance && !this.#open.has(host)
  }

  /** Creates a staged file next to `path`. */
  async create(on: ServerConnection, path: Path): Promise<SftpStagedFile> {
    const name = stagedName(this.#instance)
    const host = this.locations.serverPathIn(parentOf(path), name)
    this.#open.add(host)
    const handle = await on.open(host, 'new', 0o600).catch((error: unknown) => {
      this.#open.delete(host)
      // The server may have created the file although the response was lost.
      if (on.broken) this.orphans.add((other) => other.unlink(host))
      return this.locations.refineCreateError(on, error, path)
    })
    return { path: childOf(parentOf(path), name), host, handle, isOpen: true }
  }

  /**
   * Opens the staged file of an earlier upload of `whole` for writing. Resolves to undefined if it does not exist or
   * does not fit the upload; in the latter case deletes it.
   */
  async reopen(
    on: ServerConnection,
    { path, committed: held }: ResumableFile,
    whole: { readonly path: Path; readonly size: number },
  ) {
    const host = this.locations.serverPath(path)
    const stats = await on.lstat(host).catch(falseIfMissing)
    if (stats === false) return undefined
    const isBeside = parentOf(path) === parentOf(whole.path)
    if (isBeside && held > 0 && stats.isFile() && held <= stats.size && stats.size <= whole.size) {
      const staged: SftpStagedFile = { path, host, handle: await on.open(host, 'update'), isOpen: true }
      this.#open.add(host)
      return staged
    }
    // A failure has no effect on the new upload, which uses another name.
    await on.unlink(host).catch(() => undefined)
    return undefined
  }

  /** Closes the staged file without deleting it, so that the upload can be resumed. */
  async release(on: ServerConnection, staged: SftpStagedFile): Promise<void> {
    this.#open.delete(staged.host)
    if (staged.isOpen) await on.closeHandle(staged.handle).catch(() => undefined)
    staged.isOpen = false
  }

  /**
   * Renames the staged file to `path`, after `beforePublish`. Rejects with `exists` if `createOnly` and the name is in
   * use.
   */
  async publish(on: ServerConnection, staged: SftpStagedFile, path: Path, options: WriteOptions): Promise<Entry> {
    const { mode = 0o644, modified, createOnly } = options
    // Closed already if an earlier attempt was refused. The server may then have given the handle to another file.
    if (staged.isOpen) {
      // The core stores what the server does not set.
      const attributes = { mode: contentMode(mode), ...timesOf(modified) }
      await on.setHandleAttributes(staged.handle, attributes).catch(ignoreRefusal)
      staged.isOpen = false
      await on.closeHandle(staged.handle)
    }
    await options.beforePublish?.()
    throwIfAborted(options.signal)
    if (createOnly === true) await this.renameNew(on, staged.path, path)
    else await this.renameReplacing(on, staged.path, path, true)
    this.#open.delete(staged.host)
    return this.locations.entryAt(on, path, false)
  }

  /** Deletes the staged file; if the connection is lost, later on another one. Never rejects. */
  async discard(on: ServerConnection, staged: SftpStagedFile): Promise<void> {
    await this.release(on, staged)
    // It may still have to take the name of a file that was set aside.
    if (this.replacements.isNeeded(staged.path)) return
    await on.unlink(staged.host).catch(() => undefined)
    if (on.broken) this.orphans.add((other) => other.unlink(staged.host))
  }

  /** Renames `from` to `to`. Rejects with `exists` or `is_folder` if `to` exists. */
  async renameNew(on: ServerConnection, from: Path, to: Path): Promise<void> {
    const { locations } = this
    await on
      .renameNew(locations.serverPath(from), locations.serverPath(to))
      .catch((error: unknown) => locations.refineRenameError(on, error, to))
  }

  /** Renames `from` to `to`, replacing a file. `isStaged`: `from` is a staged file. */
  async renameReplacing(on: ServerConnection, from: Path, to: Path, isStaged: boolean): Promise<void> {
    const { locations } = this
    try {
      await on.renameReplacing(locations.serverPath(from), locations.serverPath(to))
    } catch (error) {
      if (!isGatewayError(error, 'unsupported')) return locations.refineRenameError(on, error, to)
      await this.#replace(on, from, to, isStaged)
    }
  }

  async #replace(on: ServerConnection, from: Path, to: Path, isStaged: boolean): Promise<void> {
    const { locations, replacements } = this
    try {
      // Where there is no old file, nothing has to be set aside.
      await on.renameNew(locations.serverPath(from), locations.serverPath(to))
    } catch (error) {
      if (on.broken || isGatewayError(error, 'not_found', 'denied')) return locations.refineRenameError(on, error, to)
      try {
        await this.#mutex.run(to, () => replacements.replace(from, to, isStaged))
      } catch (failure) {
        // The failure of a replacement that is settled later says which name the old file has, so the failure is thrown
        // as it is.
        if (replacements.isNeeded(from)) throw failure
        await locations.refineRenameError(on, failure, to)
      }
    }
  }
}

/** The files of the server as replacements use them: over any connection. */
function replacingFiles(connections: ServerConnections, locations: SftpLocations): ReplacingFiles {
  const host = (path: Path) => locations.serverPath(path)
  return {
    find: async (path) => {
      const stats = await connections.useWithRetry((on) => on.lstat(host(path)).catch(falseIfMissing))
      return stats === false ? undefined : { size: stats.size }
    },
    move: (from, to) => connections.use((on) => on.renameNew(host(from), host(to))),
    remove: async (path) => {
      await connections.useWithRetry((on) => on.unlink(host(path)).catch(falseIfMissing))
    },
  }
}
