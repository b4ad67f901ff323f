/**
 * Resumable uploads to a staged file on a server. Requests are pipelined, and a server that loses power loses what it
 * has not flushed, so the size of the file is not reliable. Instead the file is flushed at intervals, when no write is
 * pending. The token contains the position of the last flush.
 */
import type { Readable } from 'node:stream'
import { untilAborted } from '../../../src/base/cancellation.js'
import type { Upload } from '../../../src/contract/capabilities.js'
import type { Source } from '../../../src/contract/call-options.js'
import type { Driver } from '../../../src/contract/driver.js'
import type { Entry } from '../../../src/contract/entry.js'
import { toGatewayError, type GatewayError } from '../../../src/base/errors.js'
import { writeAll, type PipelinedFile } from '../streams/pipelined-io.js'
import { resumeTokenOf, type ResumableFile } from './staged-names.js'

export interface CheckpointPolicy {
  /** Milliseconds between flushes. */
  readonly interval: number
  /** Milliseconds that `close` waits for the server. */
  readonly closeTimeout: number
}

export const checkpointPolicy: CheckpointPolicy = { interval: 10_000, closeTimeout: 3000 }

/** An open staged file. */
interface OpenStagedFile {
  readonly resumable: ResumableFile
  readonly file: PipelinedFile
  /** Size of the complete file in bytes. */
  readonly size: number
  readonly signal: AbortSignal | undefined
  /** Flushes the file to the medium. Rejects with a GatewayError if the server does not confirm it. */
  readonly sync: () => Promise<void>
  /** Stores a new token. */
  readonly replaceToken: (token: string) => Promise<void>
  /** Runs operations on the server with the signal. Rejects with GatewayErrors only. */
  readonly run: <T>(work: () => Promise<T>) => Promise<T>
  /** Gives the file its final name. */
  readonly publish: () => Promise<Entry>
  /** Closes the file. If it was not published, the staged file is retained. Never rejects. */
  readonly close: () => Promise<void>
}

export class StagedUpload implements Upload {
  readonly token: string
  readonly committedOffset: number
  /** Position up to which everything is written, and position up to which it is flushed. */
  #written: number
  #committed: number
  #committedAt = 0
  /** After a failed flush, later writes are not reliable, whatever the server reports. */
  #syncError: GatewayError | undefined
  #writing: Promise<void> = Promise.resolve()
  #isPublished = false

  constructor(
    private readonly staged: OpenStagedFile,
    private readonly policy: CheckpointPolicy,
  ) {
    this.token = resumeTokenOf(staged.resumable)
    this.committedOffset = this.#written = this.#committed = staged.resumable.committed
  }

  write(from: Readable): Promise<void> {
    const { committedOffset: start } = this
    const { file, size, signal, run: within } = this.staged
    const rest: Source = { size: size - start, rereadable: false, read: () => Promise.resolve(from) }
    const { interval: every } = this.policy
    const startedAt = performance.now()
    const written = async (position: number) => {
      this.#written = position
      if (performance.now() - Math.max(startedAt, this.#committedAt) >= every) await this.#checkpoint()
    }
    this.#writing = writeAll(rest, file, signal, { start, interval: every, onWritten: written })
    return within(() => this.#writing)
  }

  /**
   * Flushes what is written, and stores a token for it. If the server cannot flush files, there is no token. Rejects if
   * a flush has failed: what was written may be lost.
   */
  async #checkpoint(): Promise<void> {
    const { resumable, sync, replaceToken } = this.staged
    const written = this.#written
    this.#assertFlushed()
    if (this.#syncError !== undefined || written <= this.#committed) return
    try {
      await sync()
    } catch (error) {
      // A server may report a failed flush only once, and the next one as successful.
      this.#syncError = toGatewayError(error)
    }
    this.#committedAt = performance.now()
    this.#assertFlushed()
    if (this.#syncError !== undefined) return
    await replaceToken(resumeTokenOf({ path: resumable.path, committed: written }))
    this.#committed = written
  }

  /** Throws the error of a flush, unless it means that the server flushes no file (as fsync(2) with EINVAL). */
  #assertFlushed(): void {
    const error = this.#syncError
    if (error && !['unsupported', 'denied', 'invalid'].includes(error.code)) throw error
  }

  async commit(): Promise<Entry> {
    this.#assertFlushed()
    const entry = await this.staged.run(() => this.staged.publish())
    this.#isPublished = true
    return entry
  }

  /** Waits for a limited time; the rest continues in the background. */
  async close(): Promise<void> {
    await untilAborted(this.#end(), AbortSignal.timeout(this.policy.closeTimeout)).catch(() => undefined)
  }

  async #end(): Promise<void> {
    await this.#writing.catch(() => undefined)
    // If this fails, the previous token remains valid.
    if (!this.#isPublished) await this.#checkpoint().catch(() => undefined)
    await this.staged.close()
  }
}

/**
 * Discards an upload that was opened too late for its caller. If it contains nothing, its staged file is deleted too.
 */
export async function discardLateUpload(driver: Pick<Driver, 'dropUpload'>, upload: Upload): Promise<void> {
  await upload.close()
  if (upload.committedOffset === 0) await driver.dropUpload?.(upload.token)
}
