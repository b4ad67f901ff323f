/** Why an upload has failed, in plain words. */
import { ApiError, isSignedOut, type ErrorName } from '../api/client.ts'
import { messageOf } from '../components/error-text.ts'
import { texts } from '../texts.ts'

const byName: Readonly<Partial<Record<ErrorName, string>>> = {
  denied: texts.uploads.denied,
  exists: texts.uploads.exists,
  unreachable: texts.uploads.lost,
  too_large: texts.uploads.tooLarge,
  locked: texts.uploads.locked,
  no_space: texts.uploads.noSpace,
  is_folder: texts.uploads.isFolder,
  not_folder: texts.uploads.parentIsFile,
  system_file: texts.uploads.systemFile,
  share_full: texts.uploads.shareFull,
  share_not_writable: texts.uploads.denied,
  share_missing: texts.failures.shareMissing,
  share_ended: texts.failures.shareEnded,
  share_code_wrong: texts.files.shareCode.wrong,
}

export function failureText(error: unknown): string {
  if (error instanceof DOMException) return texts.uploads.unreadable
  if (!(error instanceof ApiError)) return messageOf(error)
  if (isSignedOut(error)) return texts.uploads.signedOut
  return (error.error && byName[error.error]) ?? texts.uploads.refused(error.message)
}
