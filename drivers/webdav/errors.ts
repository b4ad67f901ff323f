/** What the statuses of a WebDAV server mean to the gateway (RFC 9110 §15, RFC 4918 §11). */
import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError, type ErrorCode } from '../../src/errors.js'
import { retryAfter } from '../lib/http-client.js'

export const serverName = 'WebDAV server'

const denied = 'the WebDAV server denies it'
const slower = 'the WebDAV server asks for fewer requests'

const meanings: Readonly<Record<number, readonly [ErrorCode, string?]>> = {
  400: ['invalid', 'the WebDAV server refuses this request or this name'],
  401: ['denied', 'the WebDAV server does not accept the credentials of this storage'],
  402: ['no_space', 'the WebDAV server wants to be paid'],
  403: ['denied', denied],
  404: ['not_found'],
  405: ['unsupported', 'the WebDAV server does not support that here'],
  408: ['timeout'],
  409: ['parent_missing'],
  410: ['not_found'],
  412: ['precondition_failed'],
  413: ['too_large', 'larger than the WebDAV server takes'],
  414: ['invalid', 'the path is too long for the WebDAV server'],
  416: ['range'],
  423: ['locked', 'locked on the WebDAV server'],
  424: ['denied', denied],
  429: ['unavailable', slower],
  451: ['denied', denied],
  501: ['unsupported', 'the WebDAV server does not support that'],
  503: ['unavailable', 'the WebDAV server is not available for the moment'],
  504: ['timeout', 'the WebDAV server waits for another one'],
  507: ['no_space'],
  509: ['unavailable', slower],
}

/** The cause of an error that is an answer of the server, rather than the lack of one. */
export class WebdavStatus extends Error {
  constructor(readonly status: number) {
    super(`WebDAV answered with status ${status}`)
  }
}

/** The error that an answer of this status stands for. */
export function refusal(status: number, headers: IncomingHttpHeaders = {}): GatewayError {
  const meaning =
    meanings[status] ?? (status >= 500 ? (['unavailable', 'the WebDAV server has failed'] as const) : undefined)
  const [code, reason] = meaning ?? (['unavailable', 'the server does not answer as a WebDAV server does'] as const)
  return new GatewayError(code, { reason, retryAfter: retryAfter(headers), cause: new WebdavStatus(status) })
}

/** An answer that no server should give. */
export function nonsense(what: string): GatewayError {
  return new GatewayError('unavailable', { reason: `the ${serverName} ${what}` })
}
