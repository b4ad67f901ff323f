/** Maps the server's replies (RFC 959 §4.2, RFC 4217) and lost connections to GatewayErrors. */
import { FTPError } from 'basic-ftp'
import { GatewayError, type ErrorCode } from '../../src/base/errors.js'
import { networkError } from '../lib/network-errors.js'

/** Replies 550 and 553 have many causes. Only the text of the reply says which one, if at all. */
const byText: readonly (readonly [RegExp, ErrorCode | 'by code'])[] = [
  // First, because this text may contain the path, whose words must not match the other patterns.
  [/no such (file|directory)|not found|does not exist|cannot find/i, 'by code'],
  // Pure-FTPd and vsftpd only report that writing failed. Unless the disk is broken, it is full.
  [/no space|disk (is )?full|quota|during write to file|writing to local file/i, 'no_space'],
  [/permission|denied|not allowed|not permitted|forbidden|read.?only|prohibited/i, 'denied'],
  [/name too long/i, 'invalid'],
]

const byCode: Readonly<Record<number, ErrorCode>> = {
  421: 'unavailable',
  425: 'unavailable',
  426: 'unavailable',
  // Not `unauthenticated`, which concerns the client of the gateway.
  430: 'denied',
  434: 'unavailable',
  450: 'busy',
  451: 'unavailable',
  452: 'no_space',
  500: 'unsupported',
  501: 'invalid',
  502: 'unsupported',
  503: 'unavailable',
  504: 'unsupported',
  522: 'unavailable',
  530: 'denied',
  532: 'denied',
  533: 'unavailable',
  534: 'unavailable',
  552: 'no_space',
}

/** The server's reply code; undefined if the error is not a reply of the server. */
export function replyCode(error: unknown): number | undefined {
  const from = error instanceof GatewayError ? error.cause : error
  return from instanceof FTPError ? from.code : undefined
}

/** Whether the server refused the path without an identifiable reason. */
export function isUnspecificRefusal(error: unknown): boolean {
  const isPlain = error instanceof GatewayError && (error.code === 'unavailable' || error.code === 'invalid')
  return isPlain && [501, 550, 553].includes(replyCode(error) ?? 0)
}

/**
 * Whether the server refused this command, rather than failing to serve any command (421, 425, 426). Only for a refusal
 * the cause can be found by looking at the path.
 */
export function isRefusal(error: unknown): boolean {
  const code = replyCode(error)
  return code !== undefined && code !== 421 && code !== 425 && code !== 426
}

/** Whether the server may have refused the command because it does not know its argument. */
export function isRefusalOfArgument(error: unknown): boolean {
  return [500, 501, 502, 504, 550, 553].includes(replyCode(error) ?? 0)
}

/** Ignores the server's refusal of an optional command; rethrows any other error. */
export function ignoreRefusal(error: unknown): undefined {
  const code = replyCode(error)
  if (code === undefined || code === 421) throw error
  return undefined
}

/**
 * Converts any thrown value to a GatewayError, with the original as `cause`. `reason` omits the server's text: it may
 * contain paths.
 */
export function translated(error: unknown): GatewayError {
  if (error instanceof FTPError) {
    const [, fromText] = byText.find(([pattern]) => pattern.test(error.message)) ?? []
    const code = fromText === undefined || fromText === 'by code' ? byCode[error.code] : fromText
    const isSignIn = error.code === 430 || error.code === 530
    if (code !== undefined) return new GatewayError(code, { cause: error, ...(isSignIn && credentialsRefused) })
    return new GatewayError('unavailable', {
      reason: 'the FTP server refused the request without a reason',
      cause: error,
    })
  }
  // The body of an upload was cut off. Lost connections were translated before they get here.
  const isCutBody = error instanceof Error && (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE'
  return isCutBody ? new GatewayError('aborted', { cause: error }) : networkError(error, 'FTP server', 'have no scheme')
}

const credentialsRefused = { reason: 'the FTP server refused the user name or the password' }
