/** LOCK and UNLOCK (RFC 4918 §9.10, §9.11). */
import { GatewayError, isGatewayError } from '../../../src/base/errors.js'
import { isWithin } from '../../../src/base/path.js'
import { LockedError, type Lock } from '../../../src/locks/webdav-locks.js'
import { parseLockInfo } from '../bodies.js'
import { errorResponses, WebdavError, partStatuses } from '../errors.js'
import { lockDiscovery } from '../locks.js'
import { Multistatus, statusLine } from '../multistatus.js'
import {
  sendStatus,
  sendXml,
  expectDepth,
  href,
  readBody,
  type Command,
  type WebdavRequest,
} from '../webdav-request.js'

export const lock: Command = async (webdavRequest) => {
  const { response, fs, path, slash, change, headers } = webdavRequest
  const depth = expectDepth(webdavRequest, [0, 'infinity'], 'infinity')
  const body = await readBody(webdavRequest, 'lock')
  if (body === undefined) {
    await refresh(webdavRequest)
    return
  }
  const lockRequest = { ...parseLockInfo(body), deep: depth === 'infinity', seconds: headers.timeout }
  try {
    const { lock: granted, created } = await fs.lock(path, lockRequest, { ...change, makesFile: !slash })
    if (response.destroyed) {
      // The client never receives the token and could not unlock the resource.
      await fs.unlock(path, granted.token)
      return
    }
    sendXml(response, created ? 201 : 200, discovery(webdavRequest, granted), { 'lock-token': `<${granted.token}>` })
  } catch (error) {
    if (slash && isGatewayError(error, 'not_found')) throw new WebdavError('locked_folder_missing')
    if (!(error instanceof LockedError)) throw error
    sendConflict(webdavRequest, error.lock)
  }
}

/** RFC 4918 §9.10.3: if a member is locked, a 207 reports 423 for the member and 424 for the target. */
function sendConflict(webdavRequest: WebdavRequest, existing: Lock): void {
  const { response, path } = webdavRequest
  const { status } = errorResponses.locked
  const root = href(webdavRequest, existing.path, false)
  const condition = `<D:no-conflicting-lock><D:href>${root}</D:href></D:no-conflicting-lock>`
  if (existing.path === path || !isWithin(path, existing.path)) {
    sendXml(response, status, `<D:error xmlns:D="DAV:">${condition}</D:error>`)
    return
  }
  const multistatus = new Multistatus(response)
  const conflict = `${statusLine(status)}<D:error>${condition}</D:error>`
  multistatus.add(`<D:response><D:href>${root}</D:href>${conflict}</D:response>`)
  const dependent = statusLine(partStatuses.failed_dependency)
  multistatus.add(`<D:response><D:href>${href(webdavRequest, path, false)}</D:href>${dependent}</D:response>`)
  multistatus.end()
}

/** Refreshes a lock (RFC 4918 §9.10.2): a LOCK without a body, whose If header names exactly one lock. */
async function refresh(webdavRequest: WebdavRequest): Promise<void> {
  const { response, fs, path, change, headers } = webdavRequest
  const [token, ...others] = headers.lockTokens
  if (token === undefined || others.length > 0) {
    throw new GatewayError('invalid', { reason: 'a lock refresh requires exactly one lock token in the If header' })
  }
  const refreshed = await fs.refreshLock(path, token, headers.timeout, change)
  sendXml(response, 200, discovery(webdavRequest, refreshed))
}

function discovery({ prefix }: WebdavRequest, granted: Lock): string {
  return `<D:prop xmlns:D="DAV:">${lockDiscovery([granted], prefix, Date.now())}</D:prop>`
}

export const unlock: Command = async ({ response, fs, path, access, headers }) => {
  const token = headers.lockToken
  if (token === undefined) throw new GatewayError('invalid', { reason: 'the Lock-Token header is missing' })
  try {
    await fs.unlock(path, token, access)
  } catch (error) {
    // A hidden resource has no locks, as one that does not exist.
    if (!isGatewayError(error, 'precondition_failed', 'invalid', 'hidden')) throw error
    throw new WebdavError('lock_token_mismatch', { subject: error.message })
  }
  sendStatus(response, 204)
}
