/** The SFTP response to each error code. */
import { toGatewayError, type ErrorCode } from '../../src/base/errors.js'
import { errorText } from '../lib/error-text.js'
import { MalformedPacket } from './packets.js'
import { statusCode, type StatusCode } from './wire.js'

const { noSuchFile, permissionDenied, failure, unsupported } = statusCode

interface ResponseRule {
  readonly status: StatusCode
}

/**
 * OpenSSH also reports ENOTDIR and a missing parent as NO_SUCH_FILE (OpenSSH: sftp-server.c). A hidden file is reported
 * as missing.
 */
export const errorResponses: Readonly<Record<ErrorCode, ResponseRule>> = {
  not_found: { status: noSuchFile },
  parent_missing: { status: noSuchFile },
  exists: { status: failure },
  not_folder: { status: noSuchFile },
  is_folder: { status: failure },
  not_empty: { status: failure },
  denied: { status: permissionDenied },
  hidden: { status: noSuchFile },
  password_required: { status: permissionDenied },
  unauthenticated: { status: permissionDenied },
  throttled: { status: failure },
  invalid: { status: failure },
  precondition_failed: { status: failure },
  unsupported: { status: unsupported },
  locked: { status: failure },
  range: { status: failure },
  too_large: { status: failure },
  no_space: { status: failure },
  busy: { status: failure },
  unavailable: { status: failure },
  timeout: { status: failure },
  aborted: { status: failure },
  internal: { status: failure },
}

/** The status and message to send for a thrown value. */
interface ErrorResponse extends ResponseRule {
  readonly message: string
}

/** The response to a thrown value. */
export function toErrorResponse(thrown: unknown): ErrorResponse {
  if (thrown instanceof MalformedPacket) return { status: statusCode.badMessage, message: thrown.message }
  const error = toGatewayError(thrown)
  return { ...errorResponses[error.code], message: errorText(error) }
}
