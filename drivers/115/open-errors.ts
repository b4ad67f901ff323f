/** Maps the answers of 115's official API to `GatewayError`s. */
import { GatewayError, type ErrorCode } from '../../src/base/errors.js'
import type { ApiAnswer, AnswerMeaning } from '../lib/json-api/api-client.js'
import { field, flagOf, textOf } from '../lib/json-api/lenient.js'
import { protocolViolation, serverName } from './errors.js'

/** The cause of every error that an answer has led to. */
export class Open115Answer extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(`code ${code}: ${message.slice(0, 500)}`)
  }
}

/** Wrong parameters, although it begins like the codes about tokens. */
const wrongParameters = '40100000'

const meanings: Readonly<Record<string, readonly [ErrorCode, string?]>> = {
  20004: ['exists'],
  430004: ['not_found'],
  231011: ['not_found'],
  70005: ['not_found'],
  50003: ['not_found'],
  800006: ['invalid', 'a folder cannot be moved into itself'],
  91002: ['invalid', 'a folder cannot be copied into itself'],
  50028: ['too_large', `the ${serverName} has no download link for a file of this size`],
  10002: ['invalid', `the ${serverName} does not accept the digest of the file`],
  10004: ['invalid', `the ${serverName} cannot download this address`],
  10008: ['exists', `the ${serverName} has a download of this address already`],
  10010: ['no_space', `the quota for offline downloads of the ${serverName} is used up`],
  911: ['denied', `the ${serverName} asks for a captcha: sign in to its website`],
  20022: ['invalid', `the ${serverName} rejects this change`],
  1001: ['invalid', `the ${serverName} rejects this request or this name`],
  200900: ['invalid', `the ${serverName} rejects this request or this name`],
  990002: ['invalid', `the ${serverName} rejects this request or this name`],
  [wrongParameters]: ['invalid', `the ${serverName} rejects this request or this name`],
}

/** `hasCredentials`: a code about the access token means that it has expired, or was replaced. */
export function meaningOf({ data }: ApiAnswer, hasCredentials: boolean): AnswerMeaning {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) {
    return protocolViolation('sent an answer of another API')
  }
  if (flagOf(field(data, 'state'))) return 'ok'
  const code = textOf(field(data, 'code'))
  const isAboutToken = code !== wrongParameters && /^(?:99$|401)/.test(code)
  if (isAboutToken && hasCredentials) return 'expired'
  const cause = new Open115Answer(code, textOf(field(data, 'message')))
  return errorOf(cause, isAboutToken)
}

/** The error for a code in an answer. */
export function errorOf(cause: Open115Answer, isAboutToken = false): GatewayError {
  if (isAboutToken) {
    return new GatewayError('denied', { reason: `the ${serverName} does not accept the tokens of this storage`, cause })
  }
  const [error, reason] = Object.hasOwn(meanings, cause.code)
    ? (meanings[cause.code] ?? ['unavailable'])
    : (['unavailable', `the ${serverName} refuses the request with code ${cause.code}`] as const)
  return new GatewayError(error, { reason, cause })
}
