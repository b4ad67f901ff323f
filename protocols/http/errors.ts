/** Maps error codes of the core to codes and messages of the API. Clients parse both. */
import {
  isGatewayError,
  NoStorageError,
  toGatewayError,
  type ErrorCode,
  type GatewayError,
} from '../../src/contract/errors.js'
import { RelativePathError } from '../../src/contract/path.js'

/** An error with the code and message that the API sends. */
export class ApiError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message)
    this.name = 'ApiError'
  }
}

export const accessDeniedMessage = 'password is incorrect or you have no permission'

interface Rule {
  /** The `code` of the envelope. */
  readonly code: number
  /** The HTTP status of responses without an envelope, such as downloads. */
  readonly status: number
  /** The message. Absent: the reason of the error. Clients match the end of the message, so nothing may be appended. */
  readonly text?: string | ((error: GatewayError) => string)
}

const table: Readonly<Record<ErrorCode, Rule>> = {
  not_found: { code: 500, status: 404, text: missingText },
  parent_missing: { code: 500, status: 404, text: 'failed to get parent dir: object not found' },
  exists: { code: 403, status: 409, text: existsText },
  not_dir: { code: 500, status: 404, text: 'not a folder' },
  is_dir: { code: 500, status: 400, text: 'not a file' },
  not_empty: { code: 500, status: 409, text: 'the folder is not empty' },
  denied: { code: 403, status: 403 },
  hidden: { code: 403, status: 403, text: accessDeniedMessage },
  password_required: { code: 403, status: 403, text: accessDeniedMessage },
  unauthenticated: { code: 401, status: 401 },
  throttled: { code: 429, status: 429 },
  invalid: { code: 400, status: 400 },
  precondition_failed: { code: 412, status: 412 },
  unsupported: { code: 500, status: 501, text: 'not support' },
  locked: { code: 423, status: 423 },
  range: { code: 416, status: 416 },
  too_large: { code: 413, status: 413 },
  no_space: { code: 507, status: 507 },
  busy: { code: 503, status: 503 },
  unavailable: { code: 500, status: 502 },
  timeout: { code: 504, status: 504 },
  aborted: { code: 500, status: 500 },
  internal: { code: 500, status: 500, text: 'internal error' },
}

function missingText(error: GatewayError): string {
  if (!(error instanceof NoStorageError)) return 'object not found'
  const suffix = error.reason === 'storage not found' ? `; rawPath: ${error.path ?? '/'}` : ''
  return `failed get storage: ${error.reason}${suffix}`
}

/** `file [name] exists` if the reason names the file, else `file exists`. */
function existsText(error: GatewayError): string {
  return error.reason.startsWith('file [') ? error.reason : 'file exists'
}

export interface ApiErrorBody {
  readonly code: number
  readonly status: number
  readonly message: string
  /** Seconds for the header Retry-After. */
  readonly retryAfter?: number | undefined
}

/** The code, status and message to send for a thrown value. */
export function toApiErrorBody(thrown: unknown): ApiErrorBody {
  if (thrown instanceof ApiError) {
    const { code, message } = thrown
    return { code, status: code, message }
  }
  const error = toGatewayError(thrown)
  const { retryAfter } = error
  if (error instanceof RelativePathError) return { code: 403, status: 403, message: error.reason }
  // On 403 clients prompt for a password. No password allows a change of a mount point.
  if (error.code === 'denied' && error.reason.endsWith('root folder is not allowed')) {
    return { code: 500, status: 500, message: error.reason }
  }
  const { code, status, text } = table[error.code]
  const message = text === undefined ? error.reason : typeof text === 'string' ? text : text(error)
  return { code, status, message, retryAfter }
}

/**
 * Whether the error is unexpected and has to be logged: neither an `ApiError` nor an error of the core but `internal`.
 */
export function isUnexpectedError(thrown: unknown): boolean {
  return !(thrown instanceof ApiError) && (!isGatewayError(thrown) || thrown.code === 'internal')
}
