/** Resumable uploads. */
import type { Path } from '../../base/path.js'

/** A resumable upload of a large file to a storage; the driver stores the received part. */
export interface UploadRow {
  readonly id: number
  /** Undefined for an orphaned upload, which is to be discarded. */
  readonly taskId: string | undefined
  /** Path in the whole tree: of the source, or of the target for an upload task. */
  readonly path: Path
  /** State of the source from which the bytes were read. */
  readonly source: string
  readonly storageId: number
  readonly token: string
}

/**
 * Resumable uploads. They are orphaned when their task is deleted, and deleted with their storage. Each belongs to a
 * node, which alone changes it.
 */
export interface UploadRows {
  of(taskId: string, path: Path): Promise<UploadRow | undefined>
  /**
   * `exists` for a taken path of the same task, `not_found` for a task that was deleted or that this node does not
   * own.
   */
  insert(row: Omit<UploadRow, 'id'>): Promise<number>
  /** A missing upload, or one of another node, is no error, here and below. */
  setToken(id: number, token: string): Promise<void>
  /** Orphans the upload: it belongs to no task any more. */
  orphan(id: number): Promise<void>
  orphanAll(taskId: string): Promise<void>
  /** Uploads of this node without a task. */
  orphaned(): Promise<UploadRow[]>
  /** Tokens of the uploads that belong to a task. */
  tokens(): Promise<string[]>
  /** Ids of the tasks that have uploads. */
  tasksWithUploads(): Promise<string[]>
  delete(id: number): Promise<void>
}
