/** Replaces a file on servers that cannot replace by renaming: the part of `drivers/lib/replacing.ts` that is FTP's own. */
import { setTimeout as pause } from 'node:timers/promises'
import { GatewayError } from '../../src/contract/errors.js'
import type { DriverLog } from '../../src/contract/log.js'
import { siblingPathOf, nameOf, type Path } from '../../src/contract/path.js'
import { settle, type Replacement, type ReplacingFiles } from '../lib/replacing.js'
import type { FtpConnection } from './connection.js'
import type { FtpConnections } from './connections.js'
import { isUnspecificRefusal, translated } from './errors.js'
import type { Files } from './files.js'

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
    const paths = { from, to, backup: siblingPathOf(to, 'replaced'), isStaged: false }
    await on.send(`RNFR ${this.files.wire(to)}`).catch(rethrowRefusal)
    try {
      await on.send(`RNTO ${this.files.wire(paths.backup)}`)
      await on.rename(this.files.wire(from), this.files.wire(to))
    } catch (error) {
      const settling = this.connections.repair(on, (open) => settle(this.#filesOn(open), paths))
      const { outcome } = await settling.catch((reason: unknown) => this.#reportUnrestored(paths, error, reason))
      // Another client has created a file of this name.
      if (outcome === 'both') this.#reportUnrestored(paths, error, new GatewayError('exists'))
      if (outcome !== 'replaced') return rethrowRefusal(error)
    }
    await this.connections
      .repair(on, (open) => this.#deleteBackup(open, paths.backup))
      .catch((error: unknown) => {
        this.log.warn({ err: error, path: paths.backup }, 'cannot delete the backup of a replaced file')
      })
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

  #reportUnrestored(
    { to, backup }: Pick<Replacement, 'to'> & { readonly backup: Path },
    error: unknown,
    reason: unknown,
  ): never {
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
