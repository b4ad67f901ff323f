/** Answers to requests for the content of a file (RFC 9110 §14). */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import type { Content, Contents } from './contents.js'

/** Sends the content, or the one range that is requested. */
export async function sendContent(
  { method, headers: { range } }: IncomingMessage,
  response: ServerResponse,
  contents: Contents,
  content: Content,
): Promise<void> {
  const { size } = content
  const [, first, last = ''] = /^bytes=(\d+)-(\d*)$/.exec(range ?? '') ?? []
  const start = Number(first ?? 0)
  const end = last === '' ? size : Math.min(size, Number(last) + 1)
  if (first !== undefined && start >= end) {
    response.writeHead(416, { 'content-range': `bytes */${size}` }).end()
    return
  }
  response.writeHead(first === undefined ? 200 : 206, {
    'content-length': end - start,
    'accept-ranges': 'bytes',
    ...(first !== undefined && { 'content-range': `bytes ${start}-${end - 1}/${size}` }),
  })
  if (method === 'HEAD') response.end()
  // A client may go away before the end.
  else await pipeline(contents.read(content, start, end), response).catch(() => undefined)
}
