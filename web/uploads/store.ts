/** Storing an upload: as a folder, as the body of one request, or in parts. */
import { post } from '../api/client.ts'
import { folderPasswords } from '../files/folder-passwords.ts'
import { conflict, isConflict, numberedPath } from './conflict.ts'
import { sendBody } from './send-body.ts'
import { setSent } from './upload-list.ts'
import type { Upload } from './upload.ts'

/** Size in bytes up to which a file is sent before it is known whether its name exists. */
const maxUnasked = 256 * 1024

/** Numbers that are tried for a name if both files are kept. */
const maxNumber = 1000

/**
 * Resolves when the file is stored. Rejects with `ApiError`, with the reason of the signal, and with `DOMException` if the
 * file cannot be read. `onSent` is called when all bytes are sent.
 */
export async function store(upload: Upload, signal: AbortSignal, onSent: () => void): Promise<void> {
  const choice = upload.choice ?? upload.batch.choice
  for (let number = 1; ; number++) {
    try {
      await send(upload, choice === 'replace', signal, onSent)
      return
    } catch (error) {
      if (choice !== 'keepBoth' || !isConflict(error) || number > maxNumber) throw error
      upload.path = numberedPath(upload.wantedPath, number)
    }
  }
}

async function send(upload: Upload, overwrite: boolean, signal: AbortSignal, onSent: () => void): Promise<void> {
  const { file, path } = upload
  if (file === undefined) await post('/api/fs/mkdir', { path }, { signal })
  else await put(upload, file, overwrite, signal, onSent)
}

async function put(
  upload: Upload,
  file: File,
  overwrite: boolean,
  signal: AbortSignal,
  onSent: () => void,
): Promise<void> {
  if (!overwrite && file.size > maxUnasked && (await exists(upload.path, signal))) throw conflict()
  await sendBody('PUT', '/api/fs/put', fileHeaders(upload, file, overwrite), file, {
    signal,
    onProgress(sent) {
      setSent(upload, Math.min(sent, file.size))
      if (sent >= file.size) onSent()
    },
  })
}

/** The headers that describe a file to the server. */
export function fileHeaders({ path }: Upload, file: File, overwrite: boolean): Record<string, string> {
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

async function exists(path: string, signal: AbortSignal): Promise<boolean> {
  try {
    await post('/api/fs/get', { path, password: folderPasswords.of(path) }, { signal })
    return true
  } catch {
    // Whatever else is wrong, the upload itself reports.
    signal.throwIfAborted()
    return false
  }
}
