/** COPY and MOVE (RFC 4918 §9.8, §9.9). */
import { GatewayError, isGatewayError } from '../../../src/base/errors.js'
import { isWithin } from '../../../src/base/path.js'
import type { TransferResult } from '../../../src/tree/operation-options.js'
import { WebdavError } from '../errors.js'
import { sendFailures, memberFailures } from '../multistatus.js'
import { sendStatus, expectDepth, type Command, type WebdavRequest } from '../webdav-request.js'

export const copy: Command = async (webdavRequest) => {
  // RFC 4918 §9.8.3 defines 0 and infinity. webdavclient3 sends 1 with every COPY, and means the whole folder.
  const deep = expectDepth(webdavRequest, [0, 1, 'infinity'], 'infinity') !== 0
  await transfer(webdavRequest, (to, options) => webdavRequest.fs.copy(webdavRequest.path, to, { ...options, deep }))
}

export const move: Command = async (webdavRequest) => {
  // For a folder, only infinity is allowed (RFC 4918 §9.9.2), and 1 is accepted as for COPY. For a file, Depth has no
  // effect.
  expectDepth(webdavRequest, ['infinity', 1, 0], 'infinity')
  const depth = webdavRequest.headers.depth
  if (depth === 0 && (await webdavRequest.fs.stat(webdavRequest.path, webdavRequest.access)).kind === 'folder') {
    throw new WebdavError('shallow_move')
  }
  await transfer(webdavRequest, (to, options) => webdavRequest.fs.move(webdavRequest.path, to, options))
}

type Operation = (
  to: WebdavRequest['path'],
  options: WebdavRequest['change'] & { readonly overwrite: boolean },
) => Promise<TransferResult>

async function transfer(webdavRequest: WebdavRequest, operation: Operation): Promise<void> {
  const { response, path, headers, change } = webdavRequest
  const to = headers.destination
  if (to === undefined) throw new GatewayError('invalid', { reason: 'the Destination header is missing' })
  // A copy into itself would not terminate. Replacing a folder that contains the source would remove the source.
  if (isWithin(path, to) || isWithin(to, path)) {
    throw new WebdavError('overlapping_paths')
  }
  let result: TransferResult
  try {
    result = await operation(to, { ...change, overwrite: headers.overwrite })
  } catch (error) {
    const failures = memberFailures(error, path) ?? memberFailures(error, to)
    if (failures !== undefined) {
      await sendFailures(webdavRequest, failures)
      return
    }
    if (isGatewayError(error, 'exists')) throw new WebdavError('destination_exists', { subject: error.message })
    throw error
  }
  sendStatus(response, result.created ? 201 : 204)
}
