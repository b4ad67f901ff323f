/** The SFTP status code of each error. */
import type { ErrorCode } from '../../src/contract/errors.js'
import { statusCode, type StatusCode } from './wire.js'

const { noSuchFile, permissionDenied, failure, unsupported } = statusCode

/** OpenSSH also reports ENOTDIR and a missing parent as NO_SUCH_FILE. A hidden file is reported as missing. */
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
