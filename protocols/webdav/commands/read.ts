/** OPTIONS, GET and HEAD. */
import type { ServerResponse } from 'node:http'
import { isGatewayError } from '../../../src/errors.js'
import { sendFile } from '../../lib/send.js'
import { Refusal } from '../errors.js'
import { allowedMethods, answer, checkIf, type Command } from '../exchange.js'

/** Answered without signing in: clients ask before they know that they have to (RFC 4918 §10.1). */
export function answerOptions(response: ServerResponse): void {
  answer(response, 200, { dav: '1, 2, 3', 'ms-author-via': 'DAV', allow: allowedMethods })
}

export const get: Command = async (exchange) => {
  const { request, response, fs, path, ask } = exchange
  await checkIf(exchange)
  const link = await fs.link(path, ask)
  // Headers that the address wants cannot be put into a redirect.
  if (link && Object.keys(link.headers ?? {}).length === 0) {
    answer(response, 302, { location: link.url, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
    return
  }
  try {
    // It watches the connection itself.
    await sendFile(request, response, { fs, path, ask: { password: ask.password } })
  } catch (error) {
    if (response.headersSent || !isGatewayError(error, 'is_dir')) throw error
    // A folder has nothing to send; that it is there is all that HEAD asks.
    if (request.method !== 'HEAD') throw new Refusal(405, 'a folder', { headers: { allow: folderMethods } })
    answer(response, 200, { 'content-type': 'httpd/unix-directory' })
  }
}

const folderMethods = allowedMethods.replace('GET, HEAD, PUT, ', 'HEAD, ')
