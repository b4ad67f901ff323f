/** Headers of uploads. */
import { folderPasswords } from '../session/folder-passwords.ts'

/** The headers that describe a file to the server. */
export function fileHeaders(path: string, file: File, overwrite: boolean): Record<string, string> {
  const password = folderPasswords.headerOf(path)
  return {
    'File-Path': encodeURIComponent(path),
    'Last-Modified': String(file.lastModified),
    'X-File-Size': String(file.size),
    Overwrite: String(overwrite),
    ...(password !== '' && { Password: password }),
  }
}
