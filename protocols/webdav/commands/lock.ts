/** LOCK and UNLOCK (RFC 4918 §9.10, §9.11). */
import { GatewayError, isGatewayError } from '../../../src/errors.js'
import { LockedError, type Lock } from '../../../src/locks.js'
import { isWithin } from '../../../src/path.js'
import { lockQuestion } from '../bodies.js'
import { Refusal } from '../errors.js'
import { answer, answerXml, expectDepth, href, type Command, type Exchange } from '../exchange.js'
import { lockDiscovery } from '../locks.js'
import { Multistatus, statusLine } from '../multistatus.js'
import { readXml } from '../xml.js'

export const lock: Command = async (exchange) => {
  const { request, response, fs, path, slash, change, headers } = exchange
  const depth = expectDepth(exchange, [0, 'infinity'], 'infinity')
  const body = await readXml(request)
  if (body === undefined) {
    await refresh(exchange)
    return
  }
  const wish = { ...lockQuestion(body), deep: depth === 'infinity', seconds: headers.timeout }
  try {
    const { lock: granted, created } = await fs.lock(path, wish, { ...change, makesFile: !slash })
    if (response.destroyed) {
      // Nobody will ever hear of the token, so nobody could give the lock back.
      await fs.unlock(path, granted.token)
      return
    }
    answerXml(response, created ? 201 : 200, discovery(exchange, granted), { 'lock-token': `<${granted.token}>` })
  } catch (error) {
    if (slash && isGatewayError(error, 'not_found')) throw new Refusal(409, 'a folder is made before it is locked')
    if (!(error instanceof LockedError)) throw error
    answerConflict(exchange, error.lock)
  }
}

/** RFC 4918 §9.10.3: where it is a member that is locked, that is told of it, and that the rest depends on it. */
function answerConflict(exchange: Exchange, standing: Lock): void {
  const { response, path } = exchange
  const root = href(exchange, standing.path, false)
  const condition = `<D:no-conflicting-lock><D:href>${root}</D:href></D:no-conflicting-lock>`
  if (standing.path === path || !isWithin(path, standing.path)) {
    answerXml(response, 423, `<D:error xmlns:D="DAV:">${condition}</D:error>`)
    return
  }
  const multistatus = new Multistatus(response)
  const told = `${statusLine(423)}<D:error>${condition}</D:error>`
  multistatus.add(`<D:response><D:href>${root}</D:href>${told}</D:response>`)
  multistatus.add(`<D:response><D:href>${href(exchange, path, false)}</D:href>${statusLine(424)}</D:response>`)
  multistatus.end()
}

/** RFC 4918 §9.10.2: no body; the If header names the one lock. */
async function refresh(exchange: Exchange): Promise<void> {
  const { response, fs, path, change, headers } = exchange
  const [token, ...others] = headers.lockTokens
  if (token === undefined || others.length > 0) {
    throw new GatewayError('invalid', { reason: 'a refresh names one lock token in its If header' })
  }
  const refreshed = await fs.refreshLock(path, token, headers.timeout, change)
  answerXml(response, 200, discovery(exchange, refreshed))
}

function discovery({ prefix }: Exchange, granted: Lock): string {
  return `<D:prop xmlns:D="DAV:">${lockDiscovery([granted], prefix, Date.now())}</D:prop>`
}

export const unlock: Command = async ({ response, fs, path, ask, headers }) => {
  const token = headers.lockToken
  if (token === undefined) throw new GatewayError('invalid', { reason: 'the Lock-Token header is missing' })
  try {
    await fs.unlock(path, token, ask)
  } catch (error) {
    if (!isGatewayError(error, 'precondition_failed', 'invalid')) throw error
    throw new Refusal(409, error.message, { condition: 'lock-token-matches-request-uri' })
  }
  answer(response, 204)
}
