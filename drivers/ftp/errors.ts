/** What the server's answers (RFC 959 §4.2, RFC 4217) and a lost connection mean to the gateway. */
import { FTPError } from 'basic-ftp'
import { GatewayError, type ErrorCode } from '../../src/errors.js'
import { networkError } from '../lib/network-errors.js'

/** 550 and 553 say that it is not done; why, servers tell in words, if at all. */
const byWords: readonly (readonly [RegExp, ErrorCode | 'by code'])[] = [
  // Servers that name the path: no word of that counts then.
  [/no such (file|directory)|not found|does not exist|cannot find/i, 'by code'],
  // Pure-FTPd and vsftpd tell only that they could not write: that is a full disk, but for broken ones.
  [/no space|disk (is )?full|quota|during write to file|writing to local file/i, 'no_space'],
  [/permission|denied|not allowed|not permitted|forbidden|read.?only|prohibited/i, 'denied'],
  [/name too long/i, 'invalid'],
]

const byCode: Readonly<Record<number, ErrorCode>> = {
  421: 'unavailable',
  425: 'unavailable',
  426: 'unavailable',
  430: 'unauthenticated',
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
  530: 'unauthenticated',
  532: 'denied',
  533: 'unavailable',
  534: 'unavailable',
  552: 'no_space',
}

/** The server's code; undefined for everything that is none. */
export function replyCode(error: unknown): number | undefined {
  const from = error instanceof GatewayError ? error.cause : error
  return from instanceof FTPError ? from.code : undefined
}

/** Whether the server said no to this path, for a reason that could not be understood. */
export function isBareRefusal(error: unknown): boolean {
  const isPlain = error instanceof GatewayError && (error.code === 'unavailable' || error.code === 'invalid')
  return isPlain && [501, 550, 553].includes(replyCode(error) ?? 0)
}

/** Whether the server said no to what was asked for, and not that it, or the way to it, is out of order: only then it is worth to look why. */
export function isRefusal(error: unknown): boolean {
  const code = replyCode(error)
  return code !== undefined && code !== 421 && code !== 425 && code !== 426
}

/** The server's no to what it need not do. */
export function ifRefused(error: unknown): undefined {
  const code = replyCode(error)
  if (code === undefined || code === 421) throw error
  return undefined
}

/** Any thrown value as a GatewayError, with the original as `cause`. The server's words stay there: they may hold its paths. */
export function translated(error: unknown): GatewayError {
  if (error instanceof FTPError) {
    const [, inWords] = byWords.find(([words]) => words.test(error.message)) ?? []
    const code = inWords === undefined || inWords === 'by code' ? byCode[error.code] : inWords
    if (code !== undefined) return new GatewayError(code, { cause: error, ...(code === 'unauthenticated' && signIn) })
    return new GatewayError('unavailable', { reason: 'the FTP server refuses it without a reason', cause: error })
  }
  // The body's own end, not that of a connection: those are told of before they get here.
  const isCutBody = error instanceof Error && (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE'
  return isCutBody ? new GatewayError('aborted', { cause: error }) : networkError(error, 'FTP server')
}

const signIn = { reason: 'the FTP server refuses the user name or the password' }
