/** Why an upload has failed, in plain words. */
import { ApiError, isSignedOut, type ErrorName } from '../api/client.ts'
import { messageOf } from '../components/error-text.ts'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('errors', 'files', 'uploads')

function textByName(): Readonly<Partial<Record<ErrorName, string>>> {
  const { uploads, failures, files } = texts
  return {
    denied: uploads.denied,
    exists: uploads.exists,
    unreachable: uploads.lost,
    too_large: uploads.tooLarge,
    locked: uploads.locked,
    no_space: uploads.noSpace,
    is_folder: uploads.isFolder,
    not_folder: uploads.parentIsFile,
    system_file: uploads.systemFile,
    share_full: uploads.shareFull,
    share_not_writable: uploads.denied,
    share_missing: failures.shareMissing,
    share_ended: failures.shareEnded,
    share_code_wrong: files.shareCode.wrong,
  }
}

export function failureText(error: unknown): string {
  if (error instanceof DOMException) return texts.uploads.unreadable
  if (!(error instanceof ApiError)) return messageOf(error)
  if (isSignedOut(error)) return texts.uploads.signedOut
  return (error.error && textByName()[error.error]) ?? texts.uploads.refused(error.message)
}
