/** Replaces a file on servers that cannot replace by renaming. */
import { setTimeout as pause } from 'node:timers/promises'
import { GatewayError } from '../../src/contract/errors.js'
import type { DriverLog } from '../../src/contract/log.js'
import { siblingPathOf, nameOf, type Path } from '../../src/contract/path.js'
import type { FtpConnection } from './connection.js'
import type { FtpConnections } from './connections.js'
import { isUnspecificRefusal, translated } from './errors.js'
import type { Files } from './files.js'

/** The files of one replacement. */
interface ReplacementPaths {
  /** The new file, before. */
  readonly from: Path
  /** The old file, before; the new file, after. */
  readonly to: Path
  /** The old file, in the meantime. */
  readonly backup: Path
}

export class FileReplacer {
  readonly #pending = new Set<Promise<void>>()

  constructor(
    private readonly files: Files,
    private readonly connections: FtpConnections,
    private readonly log: DriverLog,
  ) {}

  /**
   * Renames the old file to a backup, renames `from` to `to`, and deletes the backup. If that fails, restores the
   * backup, over another connection if this one was lost. The name of the backup is visible and is never swept, so that
   * users can find it after a failure. If the backup could not be restored, the error contains its name.
   */
  async replace(on: FtpConnection, from: Path, to: Path): Promise<void> {
    const work = this.#run(on, from, to)
    this.#pending.add(work)
    try {
      await work
    } finally {
      this.#pending.delete(work)
    }
  }

  /** Resolves when no replacement is pending, or after `timeout` milliseconds. */
  async whenIdle(timeout: number): Promise<void> {
    const expired = pause(timeout, undefined, { ref: false })
    if (this.#pending.size > 0) await Promise.race([Promise.allSettled(this.#pending), expired])
  }

  async #run(on: FtpConnection, from: Path, to: Path): Promise<void> {
    const paths = { from, to, backup: siblingPathOf(to, 'replaced') }
    await on.send(`RNFR ${this.files.wire(to)}`).catch(rethrowRefusal)
    try {
      await on.send(`RNTO ${this.files.wire(paths.backup)}`)
      await on.rename(this.files.wire(from), this.files.wire(to))
    } catch (error) {
      const restoring = this.connections.repair(on, (open) => this.#restoreOrConfirm(open, paths))
      const isReplaced = await restoring.catch((reason: unknown) => this.#reportUnrestored(paths, error, reason))
      if (!isReplaced) return rethrowRefusal(error)
    }
    await this.connections
      .repair(on, (open) => this.#deleteBackup(open, paths.backup))
      .catch((error: unknown) => {
        this.log.warn({ err: error, path: paths.backup }, 'cannot delete the backup of a replaced file')
      })
  }

  /**
   * After an error: resolves to true if the file was replaced nevertheless, and to false if the old file has its name,
   * restored if necessary. Rejects if the state is unclear.
   */
  async #restoreOrConfirm(on: FtpConnection, { from, to, backup }: ReplacementPaths): Promise<boolean> {
    if ((await this.files.kindAt(on, to)) === 'nothing') {
      await on.rename(this.files.wire(backup), this.files.wire(to))
      return false
    }
    if ((await this.files.kindAt(on, from)) === 'nothing') return true
    // Without a backup, the old file was never renamed. With one, another client has created `to`.
    if ((await this.files.kindAt(on, backup)) !== 'nothing') throw new GatewayError('exists')
    return false
  }

  #reportUnrestored({ to, backup }: ReplacementPaths, error: unknown, reason: unknown): never {
    this.log.error({ err: reason, path: to, backup }, 'cannot restore the backup of a file')
    throw new GatewayError(translated(error).code, {
      reason: `the original file may now be named "${nameOf(backup)}"`,
      cause: error,
    })
  }

  async #deleteBackup(on: FtpConnection, backup: Path): Promise<void> {
    await on.send(`DELE ${this.files.wire(backup)}`).catch(async (error: unknown) => {
      if (on.broken || (await this.files.kindAt(on, backup)) !== 'nothing') throw error
    })
  }
}

function rethrowRefusal(error: unknown): never {
  if (isUnspecificRefusal(error)) {
    throw new GatewayError('denied', { reason: 'the FTP server does not allow replacing the file', cause: error })
  }
  throw error
}
