/** What the server's status codes (draft-ietf-secsh-filexfer-02 §7) and a lost connection mean to the gateway. */
import { GatewayError, isGatewayError, toGatewayError, type ErrorCode } from '../../src/errors.js'

const byStatus: Readonly<Record<number, ErrorCode>> = {
  2: 'not_found',
  3: 'denied',
  5: 'invalid',
  6: 'unavailable',
  7: 'unavailable',
  8: 'unsupported',
}

export const statusFailure = 4

/** The server's status code; undefined for everything that is none. */
export function statusOf(error: unknown): number | undefined {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined
  return typeof code === 'number' ? code : undefined
}

/** Any thrown value as a GatewayError, with the original as `cause`. A bare failure is `internal` until somebody knows more. */
export function translated(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  const status = statusOf(error)
  if (status === undefined) {
    const isCutBody = (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE'
    return isCutBody ? new GatewayError('aborted', { cause: error }) : toGatewayError(error)
  }
  const text = (error as Error).message
  if (status === statusFailure && /no space|quota/i.test(text)) return new GatewayError('no_space', { cause: error })
  const code = byStatus[status]
  if (code !== undefined) return new GatewayError(code, { cause: error })
  return new GatewayError('unavailable', { reason: 'the server refuses it without a reason', cause: error })
}

/** For what may be gone; false then. */
export function ifMissing(error: unknown): false {
  if (isGatewayError(error, 'not_found')) return false
  throw error
}

/** For what a server may go without. */
export function ifUnsupported(error: unknown): void {
  if (!isGatewayError(error, 'unsupported')) throw error
}
