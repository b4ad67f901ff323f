/** How far the index is: kept in the setting `index_progress`, so that it outlives a restart. */

export interface IndexProgress {
  /** Names that the run has seen; after it, those in the index. */
  readonly objCount: number
  readonly isDone: boolean
  /** When a run last came to its end. */
  readonly lastDone: Date | undefined
  /** What went wrong; empty for nothing. */
  readonly error: string
}

export const noProgress: IndexProgress = { objCount: 0, isDone: true, lastDone: undefined, error: '' }

/** In the names of the wire. */
export function progressObject({ objCount, isDone, lastDone, error }: IndexProgress) {
  return { obj_count: objCount, is_done: isDone, last_done_time: lastDone?.toISOString() ?? null, error }
}

export function progressText(progress: IndexProgress): string {
  return JSON.stringify(progressObject(progress))
}

/** What cannot be read counts as nothing: an admin may have written anything there. */
export function storedProgress(text: string): IndexProgress {
  try {
    const stored = JSON.parse(text) as Partial<Record<string, unknown>> | null
    const { obj_count: count, is_done: isDone, last_done_time: time, error } = stored ?? {}
    const lastDone = typeof time === 'string' ? new Date(time) : undefined
    return {
      objCount: typeof count === 'number' && Number.isSafeInteger(count) ? count : 0,
      isDone: isDone !== false,
      lastDone: lastDone === undefined || Number.isNaN(lastDone.getTime()) ? undefined : lastDone,
      error: typeof error === 'string' ? error : '',
    }
  } catch {
    return noProgress
  }
}
