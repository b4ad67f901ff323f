/**
 * Uploads in parts, which continue where the server is: after a lost connection, a pause, or when the same file is
 * chosen again after the page was closed.
 */
import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import { ApiError, get, type Data } from '../api/client.ts'
import { fileHeaders } from './file-headers.ts'
import { sendBody } from './send-body.ts'
import { setSent } from './upload-list.ts'
import type { Upload } from './upload.ts'

/** Size of a part in bytes. The server may ask for smaller ones. */
const partSize = 10 * 2 ** 20

/** Bytes from the start of a file by which the server knows it again. */
const headSize = 2 ** 20

/** How often a part is sent again when the server asks for that, and after how many seconds. */
const maxTooEarly = 60
const defaultRetryAfter = 1

type Session = Data<'/api/fs/multipart/init'>

/** Stores a file, as `store` does. */
export async function sendInParts(
  upload: Upload,
  file: File,
  overwrite: boolean,
  signal: AbortSignal,
  onSent: () => void,
): Promise<void> {
  if (await wasCompleted(upload, signal)) return
  const headers = {
    ...fileHeaders(upload.path, file, overwrite),
    ...(await partHeaders(file)),
    ...(upload.session !== undefined && { 'X-Upload-Id': upload.session }),
  }
  const session = await sendBody('POST', '/api/fs/multipart/init', headers, null, { signal })
  upload.session = session.upload_id
  upload.confirmed = session.received_bytes
  setSent(upload, session.received_bytes)
  try {
    await sendParts(upload, file, session, signal)
    onSent()
    await sendBody('POST', '/api/fs/multipart/complete', sessionHeaders(session), null, { signal })
  } catch (error) {
    // It has ended while the computer was asleep, or the server was started again: a new one continues it.
    if (isSessionMissing(error)) throw new ApiError(error.message, 'unreachable')
    throw error
  }
}

/** Has the server discard what it has received. */
export async function discardParts(upload: Upload): Promise<void> {
  const { session } = upload
  if (session === undefined) return
  const headers = { 'X-Upload-Id': session }
  await sendBody('POST', '/api/fs/multipart/abort', headers, null, { signal: new AbortController().signal })
}

/** Whether only the answer to `complete` was lost. */
async function wasCompleted({ session }: Upload, signal: AbortSignal): Promise<boolean> {
  if (session === undefined) return false
  try {
    const query = { upload_id: session }
    return (await get('/api/fs/multipart/status', { query, signal })).state === 'completed'
  } catch (error) {
    if (isSessionMissing(error)) return false
    throw error
  }
}

async function partHeaders(file: File): Promise<Record<string, string>> {
  const head = new Uint8Array(await file.slice(0, headSize).arrayBuffer())
  return { 'X-Chunk-Size': String(partSize), 'X-File-Head-Sha256': bytesToHex(sha256(head)) }
}

function sessionHeaders({ upload_id: id }: Session): Record<string, string> {
  return { 'X-Upload-Id': id }
}

/**
 * Sends the parts that the server lacks, in order, because it stores them in order. The request of the next part is
 * open while one is sent, so that the connection does not idle between them.
 */
async function sendParts(upload: Upload, file: File, session: Session, signal: AbortSignal): Promise<void> {
  const requests = new Map<number, Promise<void>>()
  const progress = new Map<number, number>()
  const stop = new AbortController()
  const end = (): void => stop.abort(signal.reason)
  signal.addEventListener('abort', end)

  const showProgress = (): void => {
    let sent = upload.confirmed
    for (const bytes of progress.values()) sent += bytes
    setSent(upload, Math.min(sent, file.size))
  }
  const request = (index: number): Promise<void> => {
    const open = requests.get(index)
    if (open) return open
    const sent = sendPart(file, session, index, stop.signal, (bytes) => {
      progress.set(index, bytes)
      showProgress()
    }).finally(() => progress.delete(index))
    sent.catch(() => requests.delete(index))
    requests.set(index, sent)
    return sent
  }

  try {
    signal.throwIfAborted()
    for (let index = session.frontier; index < session.total_chunks; index++) {
      const isAhead = requests.has(index)
      const current = request(index)
      if (index + 1 < session.total_chunks) request(index + 1).catch(() => undefined)
      // The server does not wait for ever for a request that is ahead: it is repeated in its turn.
      await (isAhead ? current.catch(() => request(index)) : current)
      requests.delete(index)
      upload.confirmed = Math.min((index + 1) * session.chunk_size, file.size)
      showProgress()
    }
  } finally {
    signal.removeEventListener('abort', end)
    stop.abort()
  }
}

async function sendPart(
  file: File,
  session: Session,
  index: number,
  signal: AbortSignal,
  onProgress: (sent: number) => void,
): Promise<void> {
  const part = file.slice(index * session.chunk_size, (index + 1) * session.chunk_size)
  const headers = { ...sessionHeaders(session), 'X-Chunk-Index': String(index) }
  for (let attempt = 1; ; attempt++) {
    try {
      await sendBody('PUT', '/api/fs/multipart/chunk', headers, part, { signal, onProgress })
      return
    } catch (error) {
      if (!isTooEarly(error) || attempt > maxTooEarly) throw error
      await delay((error.retryAfter ?? defaultRetryAfter) * 1000, signal)
    }
  }
}

/** Whether the server does not know the session, or not any more. */
function isSessionMissing(error: unknown): error is ApiError {
  return error instanceof ApiError && error.error === 'record_missing'
}

/** Whether the server asks to send a part later. With the same name the upload itself may have failed. */
function isTooEarly(error: unknown): error is ApiError {
  if (!(error instanceof ApiError) || (error.error !== 'busy' && error.error !== 'throttled')) return false
  return (error.data as Pick<Session, 'state'> | null)?.state === 'receiving'
}

/** Resolves after milliseconds. Rejects with the reason of the signal. */
function delay(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer)
      reject(signal.reason as Error)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort)
      resolve()
    }, milliseconds)
    signal.addEventListener('abort', abort)
  })
}
