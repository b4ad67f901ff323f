/** Why an upload has failed, in plain words. */
import { ApiError } from '../api/client.ts'
import { messageOf } from '../components/error-text.ts'
import { texts } from '../texts.ts'

const byCode: Readonly<Record<number, string>> = {
  0: texts.uploads.lost,
  401: texts.uploads.signedOut,
  413: texts.uploads.tooLarge,
  423: texts.uploads.locked,
  507: texts.uploads.noSpace,
}

/** What the server's messages mean for an upload. */
const byMessage: Readonly<Record<string, string>> = {
  'permission denied': texts.uploads.denied,
  'file exists': texts.uploads.exists,
  'not a file': texts.uploads.isFolder,
  'not a folder': texts.uploads.parentIsFile,
  'system file upload ignored': texts.uploads.systemFile,
}

export function failureText(error: unknown): string {
  if (error instanceof DOMException) return texts.uploads.unreadable
  if (!(error instanceof ApiError)) return messageOf(error)
  return byCode[error.code] ?? byMessage[error.message] ?? texts.uploads.refused(error.message)
}
