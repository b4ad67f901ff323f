/** OPTIONS, GET and HEAD. */
import type { ServerResponse } from 'node:http'
import { isGatewayError } from '../../../src/base/errors.js'
import { urlClientOf } from '../../lib/client.js'
import { davClasses } from '../../lib/dav-classes.js'
import { sendFile, type RedirectRoute } from '../../lib/send.js'
import { WebdavError } from '../errors.js'
import { webdav } from '../index.js'
import { allowedMethods, sendStatus, checkIf, type Command, type WebdavRequest } from '../webdav-request.js'

/** Answers OPTIONS, without authentication: clients send it before they know that it is required (RFC 4918 §10.1). */
export function sendOptions(response: ServerResponse): void {
  sendStatus(response, 200, { ...davClasses, allow: allowedMethods })
}

export const get: Command = async (webdavRequest) => {
  if (webdavRequest.headers.conditions.if) await checkIf(webdavRequest)
  try {
    await send(webdavRequest)
  } catch (error) {
    if (webdavRequest.response.headersSent || !isGatewayError(error, 'is_folder', 'not_found')) throw error
    // A folder that exists only as the parent of mounts is on no storage, and yields `not_found`.
    const isFolder = error.code === 'is_folder' || (await isExistingFolder(webdavRequest))
    if (!isFolder) throw error
    sendFolder(webdavRequest)
  }
}

function send(webdavRequest: WebdavRequest): Promise<void> {
  const { request, response, prefix, fs, path, name, isVisitor, access, address } = webdavRequest
  if (isVisitor) return sendFile(request, response, { fs, path, name, access })
  const redirect = ({ url }: RedirectRoute) => {
    // A URL of this gateway is relative to the site path, which is the prefix without the path of this protocol.
    const location = url.startsWith('/') ? prefix.slice(0, -webdav.path.length) + url : url
    sendStatus(response, 302, { location, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' })
  }
  const client = urlClientOf(request, { address })
  return sendFile(request, response, { fs, path, access, redirection: { route: 'file server', client, redirect } })
}

async function isExistingFolder({ fs, path, access }: WebdavRequest): Promise<boolean> {
  try {
    return (await fs.stat(path, access)).kind === 'folder'
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return false
    throw error
  }
}

/** Responds to HEAD of a folder. Throws a 405 for GET, since a folder has no content. */
function sendFolder({ request, response }: WebdavRequest): void {
  if (request.method !== 'HEAD') throw new WebdavError('folder_content', { headers: { allow: folderMethods } })
  sendStatus(response, 200, { 'content-type': 'httpd/unix-directory' })
}

const folderMethods = allowedMethods.replace('GET, HEAD, PUT, ', 'HEAD, ')
