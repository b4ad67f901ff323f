/** Texts for failures, in plain words. */
import { ApiError, unreachable } from '../api/client.ts'
import { texts } from '../texts.ts'

/** The message of a failure for the user. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError && error.code === unreachable) return texts.unreachable
  return error instanceof Error ? error.message : String(error)
}
