/**
 * Resumable uploads of large files: stores their tokens, so that a later run of the task can resume them, and discards
 * orphaned uploads (docs/decisions/0015).
 */
import { settlesWithin } from '../base/cancellation.js'
import { hasDetail, isTransient } from '../base/errors.js'
import type { Log } from '../base/log.js'
import type { Path } from '../base/path.js'
import type { ResumableUpload, UploadWork } from '../storage/fallbacks/resumable-write.js'
import type { Storage } from '../storage/storage.js'
import type { UploadRow } from '../database/tables/uploads.js'
import type { Store } from '../database/tables.js'

/** Maximum time in milliseconds for which a task waits until its uploads are discarded. */
const discardTimeout = 2000
/** Milliseconds until a failed discard is retried. */
const defaultRetryDelay = 60_000

/** The columns of a row that identify the upload of a file: everything but its token. */
type FileUpload = Omit<UploadRow, 'id' | 'token'>

/** The upload of a session, which ends with the process at the latest. */
export interface SessionUpload extends ResumableUpload {
  /** Discards what the backend has of it. Must be called when the session ends. */
  discard(): Promise<void>
}

interface TaskUploadsOptions {
  readonly store: Store['uploads']
  /** Undefined if the storage is not running. */
  readonly storageOf: (id: number) => Pick<Storage, 'dropUpload'> | undefined
  readonly log: Log
}

export class TaskUploads {
  /** IDs of rows whose files are being written or discarded. */
  readonly #busy = new Set<number>()
  /** IDs of rows whose uploads could not be discarded. */
  readonly #failed = new Set<number>()
  #retryTimer: NodeJS.Timeout | undefined

  constructor(
    private readonly options: TaskUploadsOptions,
    private readonly retryDelay = defaultRetryDelay,
  ) {}

  close(): void {
    clearTimeout(this.#retryTimer)
  }

  /** Tokens of all uploads that may be resumed. */
  tokens(): Promise<readonly string[]> {
    return this.options.store.tokens()
  }

  /** IDs of all tasks that have resumable uploads. */
  tasksWithUploads(): Promise<readonly string[]> {
    return this.options.store.tasksWithUploads()
  }

  /** The upload of one file of a task. `source`: the state of the file, which must differ whenever its bytes differ. */
  forFile(taskId: string, path: Path, source: string): ResumableUpload {
    return {
      withResume: async (storageId, work) => {
        const file = { taskId, path, source, storageId }
        return this.#withResume(file, await this.#findEarlier(file), work)
      },
    }
  }

  /**
   * The upload of the file of a session, whose source is read from an offset. Its row is an orphan from the start, so
   * that the next process discards what a killed one has left; until the session ends, nothing else uses it.
   */
  forSession(path: Path): SessionUpload {
    let held: UploadRow | undefined
    const discard = async () => {
      const row = held
      held = undefined
      if (!row) return
      this.#busy.delete(row.id)
      await this.#discard(row)
    }
    return {
      readsFromOffset: true,
      discard,
      withResume: async (storageId, work) => {
        if (held && held.storageId !== storageId) await discard()
        const file = { taskId: undefined, path, source: '', storageId }
        return this.#withResume(file, held, work, (row) => {
          held = row
          if (row) this.#busy.add(row.id)
        })
      },
    }
  }

  /**
   * Discards all uploads of this task. Resolves when they are discarded, or after a timeout; the rest continues in the
   * background.
   */
  async discardAll(taskId: string): Promise<void> {
    await this.options.store.orphanAll(taskId)
    const dropped = this.#discardOrphans(({ id }) => !this.#failed.has(id))
    await settlesWithin(dropped, discardTimeout)
  }

  /** Discards the orphaned uploads of a storage that has started. Never rejects. */
  discardUnused({ row }: Pick<Storage, 'row'>): Promise<void> {
    return this.#discardOrphans(({ storageId }) => storageId === row.id)
  }

  /** Discards uploads of a storage that was deleted, and their rows with it. Never rejects. */
  async discardOn(storage: Pick<Storage, 'row' | 'dropUpload'>, tokens: readonly string[]): Promise<void> {
    for (const token of tokens) {
      await storage.dropUpload(token).catch((error: unknown) => {
        const details = { err: error, storage: storage.row.mountPath }
        this.options.log.warn(details, 'could not discard an upload of a deleted storage')
      })
    }
  }

  /** `hold` is called with the row of an upload that can be resumed, or with undefined once there is none. */
  async #withResume(
    file: FileUpload,
    earlier: UploadRow | undefined,
    work: UploadWork,
    hold: (row: UploadRow | undefined) => void = () => undefined,
  ) {
    const { store } = this.options
    let row = earlier
    let hasEnded = false
    const storeToken = async (token: string) => {
      // A driver may report a token after its upload failed.
      if (hasEnded || row?.token === token) return
      if (row) await store.setToken(row.id, token)
      row = { ...file, token, id: row?.id ?? (await store.insert({ ...file, token })) }
      this.#busy.add(row.id)
    }
    const finish = () => {
      hasEnded = true
      if (row) this.#busy.delete(row.id)
      return row
    }
    if (row) this.#busy.add(row.id)
    try {
      const entry = await work(row?.token, storeToken)
      const current = finish()
      hold(undefined)
      if (current) await (entry ? store.delete(current.id) : this.#discard(current))
      return entry
    } catch (error) {
      const current = finish()
      const isResumable = isTransient(error) && !hasDetail(error, 'source_changed')
      hold(isResumable ? current : undefined)
      if (current && !isResumable) await this.#discard(current)
      throw error
    }
  }

  /** The upload of the same bytes on this storage. Discards one of other bytes or on another storage. */
  async #findEarlier(file: FileUpload & { readonly taskId: string }): Promise<UploadRow | undefined> {
    const row = await this.options.store.of(file.taskId, file.path)
    if (!row || (row.source === file.source && row.storageId === file.storageId)) return row
    await this.#discard(row)
    return undefined
  }

  async #discard(row: UploadRow): Promise<void> {
    await this.options.store.orphan(row.id)
    await this.#dropUpload(row)
  }

  async #discardOrphans(selects: (row: UploadRow) => boolean): Promise<void> {
    try {
      for (const row of await this.options.store.orphaned()) if (selects(row)) await this.#dropUpload(row)
    } catch (error) {
      this.options.log.warn({ err: error }, 'could not read the orphaned uploads')
    }
  }

  #retryFailed(): void {
    this.#retryTimer = undefined
    void this.#discardOrphans(({ id }) => this.#failed.has(id))
  }

  /**
   * Discards the upload, then deletes its row. If the storage is not running, the row remains until it starts; after a
   * failure the discard is retried.
   */
  async #dropUpload({ id, storageId, token }: UploadRow): Promise<void> {
    const { store, storageOf, log } = this.options
    const storage = storageOf(storageId)
    if (!storage || this.#busy.has(id)) return
    this.#busy.add(id)
    try {
      await storage.dropUpload(token)
      await store.delete(id)
      this.#failed.delete(id)
    } catch (error) {
      this.#failed.add(id)
      this.#retryTimer ??= setTimeout(() => this.#retryFailed(), this.retryDelay).unref()
      log.warn({ err: error, storage: storageId }, 'could not discard an orphaned upload; retrying later')
    } finally {
      this.#busy.delete(id)
    }
  }
}
