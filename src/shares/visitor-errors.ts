/**
 * The errors that visitors of a share get. They do not know where its files are, nor how these are stored: texts of
 * storages and names of the tree are left out.
 */
import { GatewayError, toGatewayError, type ErrorCode, type ErrorDetail } from '../base/errors.js'

/** Details that visitors get unchanged: they are about the share, or about a name that the visitor has sent. */
const toldDetails: ReadonlySet<ErrorDetail> = new Set<ErrorDetail>([
  'share_missing',
  'share_ended',
  'share_code_wrong',
  'share_id_missing',
  'share_not_writable',
  'share_full',
  'system_file',
])

/** Codes by which the policy refuses something to the creator of a share. Visitors get `not_found` for them. */
export const refusedToCreator: readonly ErrorCode[] = ['denied', 'hidden', 'password_required']

/** Codes whose reasons are about the request alone, so that visitors get them. */
const ownReasons: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['throttled', 'precondition_failed'])

/** The error that a visitor gets. */
export function visitorError(thrown: unknown): GatewayError {
  const error = toGatewayError(thrown)
  if (error.detail !== undefined && toldDetails.has(error.detail)) return error
  // The path of the request, which has no names but the visitor's.
  if (error.code === 'invalid' || error.code === 'internal' || error.code === 'aborted') return error
  // The account of the creator, or the share, has just changed.
  if (error.code === 'unauthenticated') return new GatewayError('not_found', { detail: 'share_ended', cause: error })
  const code = refusedToCreator.includes(error.code) ? 'not_found' : error.code
  const reason = ownReasons.has(error.code) ? error.reason : undefined
  return new GatewayError(code, { reason, retryAfter: error.retryAfter, cause: error })
}

/** Runs `work`, and rejects with the error for a visitor. */
export async function asVisitor<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw visitorError(error)
  }
}
