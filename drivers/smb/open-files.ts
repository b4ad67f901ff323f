/** Open files of a share: requests for their content, of the size that the server accepts, and staged files. */
import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { OpenFile } from '../../src/contract/capabilities.js'
import { readPieces, writeBuffers, type PipelinedFile } from '../lib/streams/pipelined-io.js'
import { isStatus, translateError } from './errors.js'
import { afterChange, StatusError, status } from './client/errors.js'
import type { FileId } from './client/messages.js'
import type { Share } from './client/share.js'

/** Concurrent requests for one file, of at most 1 MiB each. */
const piecesAtOnce = 4

/** An open file for pipelined reads and writes. Rejects with GatewayErrors. */
export function pipelinedFile(share: Share, id: FileId): PipelinedFile {
  return {
    pieceSize: Math.min(share.negotiated.maxRead, share.negotiated.maxWrite),
    maxInFlight: piecesAtOnce,
    read: (position, length) => withErrorTranslation(share.read(id, position, length)),
    write: (position, piece) => withErrorTranslation(share.write(id, position, piece)),
  }
}

/** The operations of an `OpenFile` except `close` and `commit`. Rejects with GatewayErrors. */
export function fileOperations(
  share: Share,
  id: FileId,
): Required<Pick<OpenFile, 'read' | 'write' | 'truncate' | 'sync'>> {
  const pieces = pipelinedFile(share, id)
  return {
    read: (into, position) => readInto(pieces, into, position),
    write: (from, position) => writeBuffers(pieces, from, position),
    truncate: (size) => withErrorTranslation(share.truncate(id, size)),
    sync: () => withErrorTranslation(share.flush(id)),
  }
}

/** Reads until `into` is full or the file ends. Resolves to the number of bytes read. */
function readInto(pieces: PipelinedFile, into: Buffer, position: number): Promise<number> {
  return readPieces(into, pieces.pieceSize, async (piece, start) =>
    (await pieces.read(position + start, piece.length)).copy(piece),
  )
}

/** Settles as `work` does, with its errors as GatewayErrors. */
export async function withErrorTranslation<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw translateError(error)
  }
}

/**
 * A staged file: written under a hidden name and renamed to its final name when it is complete. It is marked
 * delete-on-close, so that the server removes it when its connection breaks, unless it belongs to a resumable upload.
 */
export class SmbStagedFile {
  #isOpen = true

  private constructor(
    readonly share: Share,
    readonly wirePath: string,
    readonly id: FileId,
  ) {}

  /** Creates the file. A `resumable` one is not marked delete-on-close; it remains until it is resumed or removed. */
  static async create(share: Share, wirePath: string, resumable = false): Promise<SmbStagedFile> {
    const id = resumable ? (await share.open(wirePath, 'new')).id : await share.createDeleteOnClose(wirePath)
    return new SmbStagedFile(share, wirePath, id)
  }

  /**
   * Reopens the staged file of an earlier upload. Undefined if it cannot be opened, or if `fits` rejects its size: then
   * it is removed.
   */
  static async reopen(
    share: Share,
    wirePath: string,
    fits: (size: number) => boolean,
  ): Promise<SmbStagedFile | undefined> {
    const opened = await share.open(wirePath, 'staged').catch((error: unknown) => {
      if (error instanceof StatusError) return undefined
      throw error
    })
    if (!opened) return undefined
    const staged = new SmbStagedFile(share, wirePath, opened.id)
    if (fits(opened.size)) return staged
    await staged.discard()
    return undefined
  }

  /** Renames it to `to`; with `replaces`, over an existing file. Rejects with a StatusError or a ConnectionError. */
  async publish(to: string, replaces: boolean, modified: Date | undefined): Promise<void> {
    await this.share.clearDeleteOnClose(this.id, modified)
    await renameOver(this.share, this.id, to, replaces)
    this.#isOpen = false
    await this.share.closeFile(this.id)
  }

  /** Closes it without removing it, unless it is marked delete-on-close. Never rejects. */
  async close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await this.share.closeFile(this.id).catch(() => undefined)
  }

  /** Removes it. Resolves to false if the removal is not certain. Never rejects. */
  async discard(): Promise<boolean> {
    if (!this.#isOpen) return true
    this.#isOpen = false
    try {
      await this.share.setDeleteOnClose(this.id)
      await this.share.closeFile(this.id)
      return true
    } catch {
      return false
    }
  }
}

/** Milliseconds before each retry: most open files are closed soon, especially those that have just been published. */
const retryDelays = [5, 20, 80] as const

/**
 * Renames an open file. Servers refuse to replace a file that is open elsewhere. If retries do not help, renames that
 * file instead and marks it delete-on-close.
 */
async function renameOver(share: Share, id: FileId, wirePath: string, replaces: boolean): Promise<void> {
  for (const delay of retryDelays) {
    try {
      await share.rename(id, wirePath, replaces)
      return
    } catch (error) {
      if (!replaces || !isTargetInUse(error)) throw error
    }
    await setTimeout(delay)
  }
  await replaceOpen(share, id, wirePath)
}

/**
 * Renames the file, folder or symlink at `from`. With `replaces`, an existing file at `to` is replaced, even if it is
 * open.
 */
export async function renamePath(share: Share, from: string, to: string, replaces: boolean): Promise<void> {
  const { id } = await share.open(from, 'changing')
  try {
    await renameOver(share, id, to, replaces)
  } finally {
    await share.closeFile(id).catch(() => undefined)
  }
}

function isTargetInUse(error: unknown): boolean {
  return isStatus(error, status.accessDenied, status.sharingViolation, status.deletePending)
}

/**
 * Replaces a file that is open elsewhere: renames it to a backup name and marks it delete-on-close. The backup name is
 * visible in listings, so that the old file can be found if this is interrupted.
 */
async function replaceOpen(share: Share, id: FileId, wirePath: string): Promise<void> {
  const old = await share.open(wirePath, 'changing')
  try {
    if (old.isFolder) throw new StatusError(status.fileIsADirectory)
    await share.rename(old.id, `${wirePath}~replaced-${randomBytes(4).toString('hex')}`, false)
    try {
      await afterChange(share.rename(id, wirePath, true))
    } catch (error) {
      await share.rename(old.id, wirePath, false).catch(async (restoreError: unknown) => {
        // Another client has created a file with this name, so the old file counts as replaced.
        if (!isStatus(restoreError, status.objectNameCollision)) throw restoreError
        await share.setDeleteOnClose(old.id)
      })
      throw error
    }
    await afterChange(share.setDeleteOnClose(old.id))
  } finally {
    await share.closeFile(old.id).catch(() => undefined)
  }
}
