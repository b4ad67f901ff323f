/** Why an upload has failed, in plain words. */
import { ApiError, isSignedOut, type ErrorName } from '../api/client.ts'
import { messageOf } from '../components/error-text.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('uploads')

/** What a failure means here, where that is not what it means elsewhere. */
function ownTexts(): Readonly<Partial<Record<ErrorName, string>>> {
  const { lost, denied, exists, isFolder, parentIsFile } = texts.uploads
  return {
    unreachable: lost,
    denied,
    share_not_writable: denied,
    exists,
    is_folder: isFolder,
    not_folder: parentIsFile,
  }
}

export function failureText(error: unknown): string {
  if (error instanceof DOMException) return texts.uploads.unreadable
  if (isSignedOut(error)) return texts.uploads.signedOut
  return (error instanceof ApiError && error.error && ownTexts()[error.error]) || messageOf(error)
}
