/** Storing an upload: as a folder, as the body of one request, or in parts. */
import { post } from '../api/client.ts'
import { publicSettings, queryClient } from '../api/queries.ts'
import { shareTop } from '../components/places.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { conflict, isConflict, numberedPath } from './conflict.ts'
import { fileHeaders } from './file-headers.ts'
import { sendBody } from './send-body.ts'
import { setSent } from './upload-list.ts'
import type { Upload } from './upload.ts'

/** Size in bytes up to which a file is sent before it is known whether its name exists. */
const maxUnasked = 256 * 1024

/** Size in bytes up to which a file is sent by one request: that of a part. */
const maxWhole = 10 * 2 ** 20

/** Numbers that are tried for a name if both files are kept. */
const maxNumber = 1000

/**
 * Resolves when the file is stored. Rejects with `ApiError`, with the reason of the signal, and with `DOMException` if
 * the file cannot be read. `onSent` is called when all bytes are sent.
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
  if (file === undefined) await post('/api/fs/mkdir', { path }, { password: folderPasswords.of(path), signal })
  else if (file.size > maxWhole && shareTop(path) === undefined && (await takesParts())) {
    const { sendInParts } = await import('./multipart.ts')
    await sendInParts(upload, file, overwrite, signal, onSent)
  } else await put(upload, file, overwrite, signal, onSent)
}

/** Whether the server accepts uploads in parts. In a share it takes none. */
async function takesParts(): Promise<boolean> {
  const settings = await queryClient.query({
    ...publicSettings,
    staleTime: 60_000,
  })
  return settings.multipart_enabled === 'true'
}

/** Discards what the server has received of an upload that ends before its time. */
export async function discard(upload: Upload): Promise<void> {
  if (upload.session === undefined) return
  const { discardParts } = await import('./multipart.ts')
  // If this fails, the server discards it after a while.
  await discardParts(upload).catch(() => undefined)
}

async function put(
  upload: Upload,
  file: File,
  overwrite: boolean,
  signal: AbortSignal,
  onSent: () => void,
): Promise<void> {
  if (!overwrite && file.size > maxUnasked && (await exists(upload.path, signal))) throw conflict()
  await sendBody('PUT', '/api/fs/put', fileHeaders(upload.path, file, overwrite), file, {
    signal,
    onProgress(sent) {
      setSent(upload, Math.min(sent, file.size))
      if (sent >= file.size) onSent()
    },
  })
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
