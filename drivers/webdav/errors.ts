/** Maps statuses of a WebDAV server to `GatewayError`s (RFC 9110 §15, RFC 4918 §11). */
import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError, type ErrorCode } from '../../src/base/errors.js'
import { retryAfter } from '../../src/base/retry-after.js'

export const serverName = 'WebDAV server'

const denied = 'access denied by the WebDAV server'
const rateLimited = 'too many requests to the WebDAV server'

const statusErrors: Readonly<Record<number, readonly [ErrorCode, string?]>> = {
  400: ['invalid', 'the WebDAV server rejects this request or this name'],
  401: ['denied', 'the WebDAV server does not accept the credentials of this storage'],
  402: ['no_space', 'the WebDAV server requires payment'],
  403: ['denied', denied],
  404: ['not_found'],
  405: ['unsupported', 'the WebDAV server does not support that here'],
  408: ['timeout'],
  409: ['parent_missing'],
  410: ['not_found'],
  412: ['precondition_failed'],
  413: ['too_large', 'larger than the WebDAV server accepts'],
  414: ['invalid', 'the path is too long for the WebDAV server'],
  416: ['range'],
  423: ['locked', 'locked on the WebDAV server'],
  424: ['denied', denied],
  429: ['unavailable', rateLimited],
  451: ['denied', denied],
  501: ['unsupported', 'the WebDAV server does not support that'],
  503: ['unavailable', 'the WebDAV server is temporarily unavailable'],
  504: ['timeout', 'the upstream server of the WebDAV server timed out'],
  507: ['no_space'],
  // RFC 5842 §7.2
  508: ['invalid', 'the WebDAV server reports a loop: it may be this gateway itself, whose folders Alias can show'],
  509: ['unavailable', rateLimited],
}

/** The cause of every error that a response of the server has led to. Holds the status, which no error code keeps. */
export class WebdavStatus extends Error {
  constructor(readonly status: number) {
    super(`WebDAV answered with status ${status}`)
  }
}

/** The error for a response with this status. `Retry-After` is taken from `headers`. */
export function statusError(status: number, headers: IncomingHttpHeaders = {}): GatewayError {
  const meaning =
    statusErrors[status] ?? (status >= 500 ? (['unavailable', 'the WebDAV server has failed'] as const) : undefined)
  const [code, reason] = meaning ?? (['unavailable', 'the server does not behave like a WebDAV server'] as const)
  return new GatewayError(code, { reason, retryAfter: retryAfter(headers), cause: new WebdavStatus(status) })
}

/** The error for an invalid response. `what` completes the sentence "the WebDAV server …". */
export function protocolViolation(what: string): GatewayError {
  return new GatewayError('unavailable', { reason: `the ${serverName} ${what}` })
}
