/** Texts for failures, in plain words. */
import { ApiError } from '../api/client.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('common', 'errors')

/** The message of a failure for the user. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError) return ofApi(error)
  return error instanceof Error ? error.message : String(error)
}

/** Failures without a text of the console are shown with the message of the server. */
function ofApi({ error, message }: ApiError): string {
  const { failures } = texts
  switch (error) {
    case 'unreachable':
      return texts.unreachable
    case 'not_found':
    case 'parent_missing':
    case 'target_missing':
      return failures.notFound
    case 'share_missing':
    case 'share_id_missing':
      return failures.shareMissing
    case 'share_ended':
      return failures.shareEnded
    case 'no_storage':
    case 'nothing_mounted':
      return failures.noStorage
    case 'storage_created':
      // The reason follows two clauses that say where it was found.
      return failures.storageNotStarted(message.split(': ').slice(2).join(': '))
    default:
      return message
  }
}
