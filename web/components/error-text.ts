/** Texts for failures, in plain words. */
import { ApiError, unreachable } from '../api/client.ts'
import { texts } from '../texts.ts'

/** The message of a failure for the user. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError) return ofApi(error)
  return error instanceof Error ? error.message : String(error)
}

/** The API writes the cause at the end of the message. Its other messages are shown as they are. */
function ofApi({ code, message }: ApiError): string {
  const { failures } = texts
  if (code === unreachable) return texts.unreachable
  if (message.endsWith('object not found')) return failures.notFound
  if (message.startsWith('failed get storage: storage not found')) return failures.noStorage
  if (message === 'permission denied') return failures.denied
  const notStarted = /^failed init storage but storage is already created: (?:failed init storage: )?(.*)$/s.exec(
    message,
  )
  return notStarted ? failures.storageNotStarted(notStarted[1] ?? '') : message
}
