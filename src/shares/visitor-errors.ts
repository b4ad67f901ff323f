/**
 * The errors that visitors of a share get. They do not know where its files are, nor how these are stored: texts of
 * storages and names of the tree are left out.
 */
import { GatewayError, toGatewayError, type ErrorCode, type ErrorDetail } from '../base/errors.js'
import { storageOfError } from '../base/log.js'

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

/** Codes whose reasons are about the request alone, so that visitors get them, unless a storage has given them. */
const ownReasons: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['throttled', 'precondition_failed'])

/** In place of the reasons of storages, where the sentence of the code says too little. */
const reasonsOfStorages: Readonly<Partial<Record<ErrorCode, string>>> = {
  invalid: 'this name or this content cannot be stored here',
}

/** The error that a visitor gets. */
export function visitorError(thrown: unknown): GatewayError {
  const error = toGatewayError(thrown)
  const { code, detail, retryAfter } = error
  if (detail !== undefined && toldDetails.has(detail)) return error
  // No protocol tells the reason of an internal error.
  if (code === 'internal') return error
  const isOfStorage = storageOfError(error) !== undefined
  // The path of the request has no names but the visitor's.
  if (!isOfStorage && (code === 'invalid' || code === 'aborted')) return error
  // The account of the creator, or the share, has just changed.
  if (code === 'unauthenticated') return new GatewayError('not_found', { detail: 'share_ended', cause: error })
  const reason = isOfStorage ? reasonsOfStorages[code] : ownReasons.has(code) ? error.reason : undefined
  const told = refusedToCreator.includes(code) ? 'not_found' : code
  return new GatewayError(told, { reason, retryAfter, cause: error })
}

/** Runs `work`, and rejects with the error for a visitor. */
export async function asVisitor<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw visitorError(error)
  }
}
