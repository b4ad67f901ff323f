/** Maps codes and details of errors to codes and messages of the API. Clients parse both. */
import { toGatewayError, type ErrorCode, type ErrorDetail, type GatewayError } from '../../src/contract/errors.js'
import { logInternal, type Log } from '../../src/contract/log.js'

/** An error with the code and message that the API sends. `cause`: the error that it words for the client. */
export class ApiError extends Error {
  constructor(
    readonly code: number,
    message: string,
    cause?: unknown,
  ) {
    super(message, { cause })
    this.name = 'ApiError'
  }
}

const accessDeniedMessage = 'password is incorrect or you have no permission'

interface Answer {
  /** The `code` of the envelope. */
  readonly code: number
  /** The HTTP status of responses without an envelope, such as downloads. */
  readonly status: number
  /** The message. Absent: the reason of the error. Clients match the end of the message, so nothing may be appended. */
  readonly text?: Text
}

type Text = string | ((error: GatewayError) => string)

const table: Readonly<Record<ErrorCode, Answer>> = {
  not_found: { code: 500, status: 404, text: 'object not found' },
  parent_missing: { code: 500, status: 404, text: 'failed to get parent dir: object not found' },
  exists: { code: 403, status: 409, text: 'file exists' },
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

/** The text of each detail, with the code of the error unless it has its own. */
const details: Readonly<Record<ErrorDetail, Text | Required<Answer>>> = {
  relative_path: { code: 403, status: 403, text: 'using relative path is not allowed' },
  name_taken: ({ subject = '' }) => `file [${subject}] exists`,
  into_itself: { code: 500, status: 500, text: 'the destination folder is a subfolder of the source folder' },
  // On 403 clients prompt for a password. No password allows a change of a mount point.
  mount_moved: { code: 500, status: 500, text: 'move root folder is not allowed' },
  mount_removed: { code: 500, status: 500, text: 'delete root folder is not allowed' },
  refresh_denied: 'Refresh without permission',
  system_file: 'system file upload ignored',
  parent_hidden: accessDeniedMessage,
  dangling_symlink: 'object not found',
  nothing_mounted: 'failed get storage: storage not found; please add a storage first',
  no_storage: ({ path = '/' }) => `failed get storage: storage not found; rawPath: ${path}`,
  storage_starting: 'Loading storage, please wait',
  storage_failed: ({ reason }) => `storage status: ${reason}: storage not init`,
  storage_enabled: 'this storage have enabled',
  storage_disabled: 'this storage have disabled',
  driver_unknown: ({ subject = '' }) => `failed get driver new: no driver named: ${subject}`,
  wrong_key: ({ reason }) => reason,
  driver_changed: 'driver cannot be changed',
  source_changed: ({ reason }) => reason,
  wrong_credentials: 'Invalid username or password',
  code_required: 'Invalid 2FA code',
  sign_in_throttled:
    'Too many unsuccessful sign-in attempts have been made using an incorrect username or password, Try again later.',
  account_missing: 'failed find user: record not found',
  account_disabled: 'Current user is disabled, replace please',
  guest_disabled: 'Guest user is disabled, login please',
  password_changed: 'Password has been changed, login please',
  token_revoked: 'token is invalidated',
  token_expired: 'token is expired',
  token_not_active: 'token not active yet',
  admins_only: 'Permission denied',
  built_in_role: 'admin or guest user can not be created',
  built_in_deleted: { code: 500, status: 500, text: 'cannot delete admin or guest' },
  role_changed: 'role can not be changed',
  admin_disabled: 'admin user can not be disabled',
  signature_missing: 'expire missing',
  signature_malformed: 'expire invalid',
  signature_expired: 'sign expired',
  signature_wrong: 'sign invalid',
  proxy_refused: 'proxy not allowed',
  setting_refused: {
    code: 500,
    status: 500,
    text: ({ subject = '', reason }) => `failed to execute hook on ${subject}: ${reason}`,
  },
  costly_pattern: ({ reason }) => reason,
  setting_in_use: { code: 500, status: 500, text: ({ subject = '' }) => `setting [${subject}] is not deprecated` },
  search_off: { code: 404, status: 404, text: 'search not available' },
  index_running: 'index is running',
  index_idle: 'index is not running',
  upload_gone: ({ reason }) => reason,
  task_missing: { code: 404, status: 404, text: 'task not found' },
  tool_unknown: ({ subject = '' }) => `tool ${subject} not found`,
  tool_failed: ({ subject = '', reason }) => `failed init offline download tool ${subject}: ${reason}`,
}

/** The text of the error's detail, else its reason. */
export function messageOf(error: GatewayError): string {
  const rule = error.detail && details[error.detail]
  return textOf(typeof rule === 'object' ? rule.text : rule, error)
}

function textOf(text: Text | undefined, error: GatewayError): string {
  return typeof text === 'function' ? text(error) : (text ?? error.reason)
}

interface ApiErrorBody {
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
  const { detail, retryAfter } = error
  const special = detail && details[detail]
  const { code, status, text } = typeof special === 'object' ? special : table[error.code]
  const message = detail === undefined ? textOf(text, error) : messageOf(error)
  return { code, status, message, retryAfter }
}

/** Logs an unexpected error, or the one that an ApiError words, unless it is logged already. `details`: the request. */
export function logUnexpected(log: Log, thrown: unknown, details: object): void {
  const error = thrown instanceof ApiError ? thrown.cause : thrown
  if (error !== undefined) logInternal(log, toGatewayError(error), details)
}
