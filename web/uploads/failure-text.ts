/** Why an upload has failed, in plain words. */
import { ApiError, type ErrorName } from '../api/client.ts'
import { messageOf } from '../components/error-text.ts'
import { texts } from '../texts.ts'

const byCode: Readonly<Record<number, string>> = {
  0: texts.uploads.lost,
  401: texts.uploads.signedOut,
  413: texts.uploads.tooLarge,
  423: texts.uploads.locked,
  507: texts.uploads.noSpace,
}

const byName: Readonly<Partial<Record<ErrorName, string>>> = {
  denied: texts.uploads.denied,
  exists: texts.uploads.exists,
  is_folder: texts.uploads.isFolder,
  not_folder: texts.uploads.parentIsFile,
  system_file: texts.uploads.systemFile,
}

export function failureText(error: unknown): string {
  if (error instanceof DOMException) return texts.uploads.unreadable
  if (!(error instanceof ApiError)) return messageOf(error)
  const { code, error: name, message } = error
  return byCode[code] ?? (name && byName[name]) ?? texts.uploads.refused(message)
}
