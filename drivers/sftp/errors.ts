/** Maps the server's status codes (draft-ietf-secsh-filexfer-02 §7) and lost connections to GatewayErrors. */
import { GatewayError, isGatewayError, toGatewayError, type ErrorCode } from '../../src/base/errors.js'

const byStatus: Readonly<Record<number, ErrorCode>> = {
  2: 'not_found',
  3: 'denied',
  5: 'invalid',
  6: 'unavailable',
  7: 'unavailable',
  8: 'unsupported',
}

const statusFailure = 4

/** The server's status code; undefined if the error is not a status of the server. */
function statusOf(error: unknown): number | undefined {
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined
  return typeof code === 'number' ? code : undefined
}

/**
 * Converts any thrown value to a GatewayError, with the original as `cause`. SSH_FX_FAILURE, which does not say what
 * failed, becomes `unavailable`, or `no_space` if its message says so.
 */
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
  return new GatewayError('unavailable', { reason: 'the server refused the request without a reason', cause: error })
}

/** Turns `not_found` into false; rethrows any other error. */
export function falseIfMissing(error: unknown): false {
  if (isGatewayError(error, 'not_found')) return false
  throw error
}

/** Ignores `unsupported` and `denied`: a server that does not offer a request replies with either. */
export function ignoreRefusal(error: unknown): void {
  if (!isGatewayError(error, 'unsupported', 'denied')) throw error
}
