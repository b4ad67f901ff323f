/** Maps the answers of 115's web API to `GatewayError`s. */
import { GatewayError, type ErrorCode } from '../../src/base/errors.js'
import type { ApiAnswer, ApiCall, AnswerMeaning } from '../lib/json-api/api-client.js'
import { field, flagOf, numberOf, textOf } from '../lib/json-api/lenient.js'

export const serverName = '115 server'

/** The cause of every error that an answer has led to. */
export class Answer115 extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(`code ${code}: ${message.slice(0, 500)}`)
  }
}

/** The reason of errors after the server has ended the sign-in. */
export const signedOutReason = 'sign in to 115 again: the cookie of the storage is not valid any more'

/** The address of the call that asks whether the cookie is valid. */
export const signInCheck = 'https://my.115.com/?ct=guide&ac=status'

const meanings: Readonly<Record<number, readonly [ErrorCode, string?]>> = {
  // Signing in
  99: ['denied', signedOutReason],
  990001: ['denied', signedOutReason],
  40101004: ['denied', `the ${serverName} finds the address of this machine unusual`],
  40101009: ['denied', `the ${serverName} asks for the password`],
  40101010: ['denied', `the ${serverName} asks for a second factor`],
  40101017: ['denied', `the ${serverName} has refused the sign-in`],
  40101030: ['denied', `the ${serverName} asks for a mobile number in the account`],
  40101032: ['denied', signedOutReason],
  40101033: ['denied', signedOutReason],
  40101035: ['denied', signedOutReason],
  40101037: ['denied', signedOutReason],
  40101038: ['denied', signedOutReason],
  40199002: ['denied', 'the QR code has expired: scan a new one'],
  911: ['denied', `the ${serverName} asks for a captcha: open 115 in a browser and answer it`],
  // Requests
  1001: ['invalid', `the ${serverName} rejects the parameters of the request`],
  200900: ['invalid', `the ${serverName} rejects the parameters of the request`],
  990002: ['invalid', `the ${serverName} rejects the parameters of the request`],
  40100000: ['invalid', `the ${serverName} rejects the parameters of the request`],
  10002: ['invalid', `the ${serverName} does not accept the digest of the file`],
  400: ['unavailable', `the ${serverName} does not accept the signature of the upload`],
  402: ['unavailable', `the ${serverName} does not accept the account, size or folder of the upload`],
  20022: ['invalid', `the ${serverName} does not allow this operation`],
  // Files and folders
  20004: ['exists'],
  91002: ['invalid', 'a folder cannot be copied into itself'],
  800006: ['invalid', 'a folder cannot be moved into itself'],
  // Downloads
  50001: ['not_found'],
  50003: ['not_found'],
  50028: ['too_large', `the ${serverName} has no download link for a file of this size`],
  70005: ['not_found'],
  231011: ['not_found'],
  // Offline downloads
  10004: ['invalid', `the ${serverName} cannot download from this address`],
  10008: ['exists', `the ${serverName} already has a download of this address`],
  10010: ['no_space', 'the quota for offline downloads is used up'],
  // Shares
  4100000: ['denied', 'the share is closed'],
  4100008: ['denied', 'the receive code is wrong'],
  4100009: ['denied', 'the share was cancelled'],
  4100010: ['denied', 'the share was cancelled'],
  4100012: ['denied', 'the share needs a receive code'],
  4100018: ['denied', 'the share is not valid any more'],
  4100026: ['denied', 'there is no such share'],
  4100033: ['denied', 'the share is not valid any more'],
  4100068: ['denied', 'the share has been received too often'],
}

/** Codes after which no call succeeds before an admin signs in again. */
const signedOutCodes = [99, 990001, 40101032, 40101033, 40101035, 40101037, 40101038]

/** The code of an answer; 0 if it has none. */
export function codeOf(data: unknown): number {
  const codes = ['errno', 'errNo', 'errcode', 'code'].map((key) => numberOf(field(data, key)) ?? 0)
  return codes.find((code) => code !== 0) ?? 0
}

/** Whether an answer says that the call has succeeded. Some answers have no `state`. */
export function isSuccess(data: unknown): boolean {
  const state = field(data, 'state')
  return state === undefined ? codeOf(data) === 0 : flagOf(state)
}

export function meaningOf({ data }: ApiAnswer, { url, isAnonymous }: ApiCall): AnswerMeaning {
  if (typeof data !== 'object' || data === null) return protocolViolation('sent an answer of another API')
  if (isSuccess(data)) return 'ok'
  const isSignedOut = signedOutCodes.includes(codeOf(data)) || url.hostname === new URL(signInCheck).hostname
  return isSignedOut && isAnonymous !== true ? 'expired' : errorOf(data)
}

/** The error that an answer without success stands for. The vendor's text is only in its cause. */
export function errorOf(data: unknown): GatewayError {
  const texts = ['error', 'msg', 'message', 'error_msg', 'statusmsg'].map((key) => textOf(field(data, key)))
  const code = codeOf(data)
  const cause = new Answer115(code, texts.find((text) => text !== '') ?? '')
  const [error, reason] = meanings[code] ?? (['unavailable', `the ${serverName} reports code ${code}`] as const)
  return new GatewayError(error, { reason, cause })
}

/** Whether the server has answered with one of these codes. */
export function hasCode(error: unknown, ...codes: readonly number[]): boolean {
  const cause = error instanceof GatewayError ? error.cause : undefined
  return cause instanceof Answer115 && codes.includes(cause.code)
}

/** The error for an invalid answer. `what` completes the sentence "the 115 server …". */
export function protocolViolation(what: string): GatewayError {
  return new GatewayError('unavailable', { reason: `the ${serverName} ${what}` })
}
