/** Headers of uploads. */
import { folderPasswords } from '../files/folder-passwords.ts'

/** The headers that describe a file to the server. */
export function fileHeaders(path: string, file: File, overwrite: boolean): Record<string, string> {
  const password = folderPasswords.of(path)
  return {
    'File-Path': encodeURIComponent(path),
    'Last-Modified': String(file.lastModified),
    'X-File-Size': String(file.size),
    Overwrite: String(overwrite),
    ...(password !== '' && { Password: utf8(password) }),
  }
}

/** The text as a header value whose bytes are UTF-8: a header has one byte for each unit. */
function utf8(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text))
}
