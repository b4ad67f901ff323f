/**
 * Maps the answers of Aliyundrive's open API to `GatewayError`s: errors have a code, and most a status other than 200.
 */
import { GatewayError, isGatewayError, type ErrorCode } from '../../src/base/errors.js'
import type { ApiAnswer, AnswerMeaning } from '../lib/json-api/api-client.js'
import { field, textOf } from '../lib/json-api/lenient.js'

export const serverName = 'Aliyundrive server'

/** The cause of every error that an answer has led to. */
class AliyundriveAnswer extends Error {
  constructor(
    readonly code: string,
    status: number,
  ) {
    super(`code ${code}, status ${status}`)
  }
}

/** Codes that ask for a new access token. */
const expiredCodes = ['AccessTokenInvalid', 'AccessTokenExpired', 'I400JD']

/** What codes mean, by what they begin with; the first that matches counts. */
const meanings: readonly (readonly [RegExp, ErrorCode, string?])[] = [
  [/^NotFound/, 'not_found'],
  [/^AlreadyExist/, 'exists'],
  [/^(?:QuotaExhausted|ExceedMaxCapacity|SpaceNotEnough|ExceedCapacityForbidden)/, 'no_space'],
  [/^(?:EntityTooLarge|FileSizeExceed|ExceedUploadSize|InvalidParameter\.Size)/, 'too_large'],
  [/^InvalidResource\.FileTypeFolder/, 'is_folder'],
  [/^InvalidParameter/, 'invalid', `the ${serverName} rejects this request or this name`],
  [/^(?:Forbidden|NoPermission|PermissionDenied|UserNotAllowed)/, 'denied', `access denied by the ${serverName}`],
]

const statuses: Readonly<Record<number, readonly [ErrorCode, string?]>> = {
  400: ['invalid', `the ${serverName} rejects this request or this name`],
  401: ['denied', `the ${serverName} does not accept the credentials of this storage`],
  403: ['denied', `access denied by the ${serverName}`],
  404: ['not_found'],
  409: ['exists'],
}

export function meaningOf({ status, data }: ApiAnswer): AnswerMeaning {
  const code = textOf(field(data, 'code'))
  if (status < 400 && code === '') return 'ok'
  if (expiredCodes.includes(code)) return 'expired'
  if (code.startsWith('TooManyRequests')) return 'slow down'
  const cause = new AliyundriveAnswer(code, status)
  const byCode = meanings.find(([pattern]) => pattern.test(code))
  if (byCode) return new GatewayError(byCode[1], { reason: byCode[2], cause })
  const [error, reason] = statuses[status] ?? (['unavailable', `the ${serverName} has failed`] as const)
  return new GatewayError(error, { reason, cause })
}

/** Whether the error is an answer of the server with a code that begins so. */
export function hasCode(error: unknown, beginning: string): boolean {
  return isGatewayError(error) && error.cause instanceof AliyundriveAnswer && error.cause.code.startsWith(beginning)
}

/** Whether the server has answered, and so has done nothing. */
export function isRefusal(error: unknown): boolean {
  return isGatewayError(error) && error.cause instanceof AliyundriveAnswer
}

/** Whether it is not known what the server has done. */
export function isUnanswered(error: unknown): boolean {
  return isGatewayError(error, 'unavailable', 'timeout') && error.retryAfter === undefined
}

/** The error for an invalid answer. `what` completes the sentence "the Aliyundrive server …". */
export function protocolViolation(what: string): GatewayError {
  return new GatewayError('unavailable', { reason: `the ${serverName} ${what}` })
}
