/**
 * Replaces a file on servers that cannot replace by renaming: the part of `drivers/lib/staged-files/replacing.ts` that
 * is FTP's own.
 */
import { settlesWithin } from '../../src/base/cancellation.js'
import { GatewayError } from '../../src/base/errors.js'
import type { DriverLog } from '../../src/base/log.js'
import { siblingPathOf, nameOf, type Path } from '../../src/base/path.js'
import { settle, type Replacement, type ReplacingFiles } from '../lib/staged-files/replacing.js'
import type { FtpConnection } from './connection.js'
import type { FtpConnections } from './connections.js'
import { isUnspecificRefusal, translated } from './errors.js'
import type { FtpFiles } from './files.js'

export class FileReplacer {
  readonly #pending = new Set<Promise<void>>()

  constructor(
    private readonly files: FtpFiles,
    private readonly connections: FtpConnections,
    private readonly log: DriverLog,
  ) {}

  /**
   * Renames the old file to a backup, renames `from` to `to`, and deletes the backup. If that fails, restores the
   * backup, over another connection if this one was lost. The name of the backup is visible and is never swept, so that
   * users can find it after a failure. If the backup could not be restored, the error contains its name.
   */
  async replace(on: FtpConnection, from: Path, to: Path): Promise<void> {
    const work = this.#run(on, { from, to, backup: siblingPathOf(to, 'replaced'), isStaged: false })
    this.#pending.add(work)
    await work.finally(() => this.#pending.delete(work))
  }

  /** Resolves when no replacement is pending, or after `timeout` milliseconds. */
  async whenIdle(timeout: number): Promise<void> {
    await settlesWithin(Promise.allSettled(this.#pending), timeout)
  }

  async #run(on: FtpConnection, replacement: Replacement & { readonly backup: Path }): Promise<void> {
    const { files, connections, log } = this
    const { from, to, backup } = replacement
    await on.send(`RNFR ${files.wire(to)}`).catch(rethrowRefusal)
    try {
      await on.send(`RNTO ${files.wire(backup)}`)
      await on.rename(files.wire(from), files.wire(to))
    } catch (error) {
      const unrestored = (reason: unknown): never => {
        log.error({ err: reason, path: to, backup }, 'cannot restore the backup of a file')
        throw new GatewayError(translated(error).code, {
          reason: `the original file may now be named "${nameOf(backup)}"`,
          cause: error,
        })
      }
      const settling = connections.repair(on, (open) => settle(this.#filesOn(open), replacement))
      const { outcome } = await settling.catch(unrestored)
      // Another client has created a file of this name.
      if (outcome === 'both') unrestored(new GatewayError('exists'))
      if (outcome !== 'replaced') return rethrowRefusal(error)
    }
    await connections
      .repair(on, (open) => this.#deleteBackup(open, backup))
      .catch((error: unknown) => log.warn({ err: error, path: backup }, 'cannot delete the backup of a replaced file'))
  }

  #filesOn(on: FtpConnection): ReplacingFiles {
    const { files } = this
    return {
      find: async (path) => ((await files.kindAt(on, path)) === 'nothing' ? undefined : {}),
      move: (from, to) => on.rename(files.wire(from), files.wire(to)),
      // `replace` deletes the backup, over another connection if necessary.
      remove: async () => undefined,
    }
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
