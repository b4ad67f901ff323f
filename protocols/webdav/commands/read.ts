/** OPTIONS, GET and HEAD. */
import type { ServerResponse } from 'node:http'
import { isGatewayError } from '../../../src/errors.js'
import { davClasses } from '../../lib/dav-classes.js'
import { sendFile } from '../../lib/send.js'
import { Refusal } from '../errors.js'
import { allowedMethods, answer, checkIf, type Command, type Exchange } from '../exchange.js'

/** Answered without signing in: clients ask before they know that they have to (RFC 4918 §10.1). */
export function answerOptions(response: ServerResponse): void {
  answer(response, 200, { ...davClasses, allow: allowedMethods })
}

export const get: Command = async (exchange) => {
  await checkIf(exchange)
  try {
    await send(exchange)
  } catch (error) {
    if (exchange.response.headersSent || !isGatewayError(error, 'is_dir', 'not_found')) throw error
    // A folder that only leads to mounts has no storage to say what it is.
    const isFolder = error.code === 'is_dir' || (await isFolderThere(exchange))
    if (!isFolder) throw error
    answerFolder(exchange)
  }
}

async function send({ request, response, prefix, fs, path, ask }: Exchange): Promise<void> {
  const delivery = await fs.delivery(path, { ...ask, route: 'webdav' })
  if (delivery.kind !== 'stream') {
    // An address of this gateway is one below its site, as the prefix is.
    const location = delivery.url.startsWith('/') ? prefix.replace(/\/dav$/, '') + delivery.url : delivery.url
    answer(response, 302, { location, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
    return
  }
  // It watches the connection itself.
  await sendFile(request, response, { fs, path, ask: { password: ask.password } })
}

async function isFolderThere({ fs, path, ask }: Exchange): Promise<boolean> {
  try {
    return (await fs.stat(path, ask)).kind === 'folder'
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return false
    throw error
  }
}

/** A folder has nothing to send; that it is there is all that HEAD asks. */
function answerFolder({ request, response }: Exchange): void {
  if (request.method !== 'HEAD') throw new Refusal(405, 'a folder', { headers: { allow: folderMethods } })
  answer(response, 200, { 'content-type': 'httpd/unix-directory' })
}

const folderMethods = allowedMethods.replace('GET, HEAD, PUT, ', 'HEAD, ')
