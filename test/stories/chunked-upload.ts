/** A client of uploads in chunks. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'

interface Snapshot {
  readonly upload_id: string
  readonly chunk_size: number
  readonly total_chunks: number
  readonly frontier: number
}

export interface ChunkedAnswer {
  readonly code: number
  readonly message: string
  readonly data: Snapshot
}

/** One request of an upload. */
export async function askUpload(
  url: string,
  token: string,
  [method, step]: readonly [method: string, step: string],
  headers: Readonly<Record<string, string>>,
): Promise<ChunkedAnswer> {
  const response = await fetch(`${url}/api/fs/multipart/${step}`, {
    method,
    headers: { Authorization: token, ...headers },
  })
  return (await response.json()) as ChunkedAnswer
}

/** Starts an upload of `size` bytes. */
export async function beginUpload(url: string, token: string, path: string, size: number): Promise<Snapshot> {
  const headers = { 'File-Path': encodeURIComponent(path), 'X-File-Size': String(size) }
  const { code, message, data } = await askUpload(url, token, ['POST', 'init'], headers)
  if (code !== 200) throw new Error(message)
  return data
}

/** Sends one chunk of the local file. */
export async function sendChunk(
  url: string,
  token: string,
  { upload_id: id, chunk_size: chunkSize }: Snapshot,
  file: string,
  index: number,
): Promise<ChunkedAnswer> {
  const start = index * chunkSize
  const end = Math.min(start + chunkSize, (await stat(file)).size) - 1
  const headers = { Authorization: token, 'X-Upload-Id': id, 'X-Chunk-Index': index, 'Content-Length': end - start + 1 }
  const answer = await new Promise<string>((resolve, reject) => {
    const upload = request(`${url}/api/fs/multipart/chunk`, { method: 'PUT', headers }, (response) => {
      text(response).then(resolve, reject)
    })
    pipeline(createReadStream(file, { start, end, highWaterMark: 1024 * 1024 }), upload).catch(reject)
  })
  return JSON.parse(answer) as ChunkedAnswer
}

/** Sends a local file, three chunks at a time. */
export async function sendInChunks(url: string, token: string, file: string, path: string): Promise<void> {
  const upload = await beginUpload(url, token, path, (await stat(file)).size)
  let next = 0
  const sender = async () => {
    while (next < upload.total_chunks) {
      const index = next++
      for (;;) {
        const { code, message } = await sendChunk(url, token, upload, file, index)
        if (code === 200) break
        if (code !== 429) throw new Error(message)
      }
    }
  }
  await Promise.all([sender(), sender(), sender()])
  const { code, message } = await askUpload(url, token, ['POST', 'complete'], { 'X-Upload-Id': upload.upload_id })
  if (code !== 200) throw new Error(message)
}
