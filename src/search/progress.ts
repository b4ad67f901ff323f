/** Progress of the search index, stored in the setting `index_progress`. */

export interface IndexProgress {
  /** During a run, the names read so far; after it, the names in the index. */
  readonly objCount: number
  readonly isDone: boolean
  /** When the last run completed. */
  readonly lastDone: Date | undefined
  /** Error text; empty for none. */
  readonly error: string
}

export const noProgress: IndexProgress = { objCount: 0, isDone: true, lastDone: undefined, error: '' }

/** The progress as the API represents it. */
export function progressObject({ objCount, isDone, lastDone, error }: IndexProgress) {
  return { obj_count: objCount, is_done: isDone, last_done_time: lastDone?.toISOString() ?? null, error }
}

export function progressText(progress: IndexProgress): string {
  return JSON.stringify(progressObject(progress))
}

/** Parses the stored progress. Invalid fields get defaults, because an admin can write any text to the setting. */
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
