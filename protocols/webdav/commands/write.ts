/** PUT, MKCOL and DELETE. */
import type { Entry } from '../../../src/contract/entry.js'
import { etagOf } from '../../../src/tree/preconditions.js'
import { receiveBody } from '../../lib/request-body.js'
import { HttpError } from '../errors.js'
import { sendFailures, memberFailures } from '../multistatus.js'
import { allowedMethods, sendStatus, expectDepth, hasBody, type Command } from '../webdav-request.js'
import { parseUploadHeaders } from '../upload-headers.js'
import { verifiedSource } from '../../../src/contract/sources.js'

/** Responds once the content is stored. */
export const put: Command = async (webdavRequest) => {
  const { request, response, fs, path, change, slash } = webdavRequest
  if (slash) throw new HttpError('put_folder', { headers: { allow: allowedMethods } })
  const metadata = parseUploadHeaders(request.headers)
  const { modified } = metadata
  const source = verifiedSource(await receiveBody(request, metadata))
  const { entry, created } = await fs.write(path, source, { ...change, modified })
  sendStatus(response, created ? 201 : 204, {
    etag: etagOf(entry),
    ...(modified !== undefined && isStored(modified, entry) ? { 'x-oc-mtime': 'accepted' } : {}),
  })
}

/** Whether the entry has this modification time, in the resolution of any backend. Some have no such times, or only some. */
function isStored(modified: Date, entry: Entry): boolean {
  return Math.abs(entry.modified.getTime() - modified.getTime()) < coarsestStep
}

/** The coarsest resolution of backends' times, in milliseconds. */
const coarsestStep = 2000

export const mkcol: Command = async ({ request, response, fs, path, change }) => {
  if (hasBody(request)) throw new HttpError('mkcol_body')
  await fs.mkdir(path, change)
  sendStatus(response, 201)
}

export const remove: Command = async (webdavRequest) => {
  const { response, fs, path, change } = webdavRequest
  expectDepth(webdavRequest, ['infinity'], 'infinity') // RFC 4918 §9.6.1
  try {
    await fs.remove(path, change)
  } catch (error) {
    const failures = memberFailures(error, path)
    if (failures === undefined) throw error
    await sendFailures(webdavRequest, failures)
    return
  }
  sendStatus(response, 204)
}
