/** How every cause is told over SFTP. */
import type { ErrorCode, GatewayError } from '../../src/errors.js'
import { statusCode, type StatusCode } from './protocol.js'

const { noSuchFile, permissionDenied, failure, unsupported } = statusCode

/** OpenSSH tells ENOTDIR and a missing parent as NO_SUCH_FILE too; what is hidden is not there. */
export const statusOf: Readonly<Record<ErrorCode, StatusCode>> = {
  not_found: noSuchFile,
  parent_missing: noSuchFile,
  exists: failure,
  not_dir: noSuchFile,
  is_dir: failure,
  not_empty: failure,
  denied: permissionDenied,
  hidden: noSuchFile,
  password_required: permissionDenied,
  unauthenticated: permissionDenied,
  throttled: failure,
  invalid: failure,
  precondition_failed: failure,
  unsupported,
  locked: failure,
  range: failure,
  too_large: failure,
  no_space: failure,
  busy: failure,
  unavailable: failure,
  timeout: failure,
  aborted: failure,
  internal: failure,
}

/** What the user reads. A hidden thing sounds like a missing one; what is unforeseen is for the log alone. */
export function messageOf(error: GatewayError): string {
  if (error.code === 'hidden') return 'not found'
  return error.code === 'internal' ? 'internal error' : error.message
}
