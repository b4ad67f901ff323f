/** The API response to each error code and detail. Clients parse the codes, the messages and the names. */
import {
  errorCodes,
  errorDetails,
  isGatewayError,
  toGatewayError,
  type ErrorCode,
  type ErrorDetail,
  type GatewayError,
} from '../../../src/base/errors.js'
import { logInternal, type Log } from '../../../src/base/log.js'

/** Names of failures that the core does not know, and on which clients decide, each with its HTTP status. */
const ownStatuses = {
  /** The API has no endpoint of this path. */
  endpoint_missing: 404,
  /** The endpoint of this path has other methods. */
  method_not_allowed: 405,
  /** No account, rule, storage, session, upload or other record of this id or name: not a file. */
  record_missing: 404,
  /** The user has signed in too long ago for this request. */
  recent_sign_in_required: 403,
  /** The storage was added, and did not start. */
  storage_created: 502,
} as const

/**
 * The name of a failure: the `error` of the envelope. It is the detail or the code of the error, and tells no more than
 * its text: causes that share a text share a name.
 */
export type ErrorName = Exclude<ErrorCode | ErrorDetail, 'hidden' | 'parent_hidden'> | keyof typeof ownStatuses

/** The name of a GatewayError. */
export function errorNameOf({ code, detail }: Pick<GatewayError, 'code' | 'detail'>): ErrorName {
  const hasTextOfCode =
    detail !== undefined && detailResponses[detail] === textOfCode && errorResponses[code].text !== undefined
  return nameOfCause(hasTextOfCode ? code : (detail ?? code))
}

/** The name of a code or detail. That a name is hidden is not told. */
export function nameOfCause<Cause extends string>(
  cause: Cause,
): Exclude<Cause, 'hidden' | 'parent_hidden'> | 'password_required' {
  const isHidden = cause === 'hidden' || cause === 'parent_hidden'
  return isHidden ? 'password_required' : (cause as Exclude<Cause, 'hidden' | 'parent_hidden'>)
}

/**
 * A response to one endpoint's clients that the table does not have. Not a GatewayError, because the core does not know
 * it. `status`: the HTTP status of responses without an envelope. `cause`: the error that it words.
 */
export class ApiError extends Error {
  constructor(
    readonly code: number,
    readonly error: ErrorName,
    message: string,
    readonly status: number,
    cause?: unknown,
  ) {
    super(message, { cause })
    this.name = 'ApiError'
  }
}

const accessDeniedMessage = 'password is incorrect or you have no permission'

interface ResponseRule {
  /** The `code` of the envelope. */
  readonly code: number
  /** The HTTP status of responses without an envelope: downloads and problem documents. */
  readonly status: number
  /** The message. Absent: the reason of the error. Clients match the end of the message, so nothing may be appended. */
  readonly text?: Text
}

type Text = string | ((error: GatewayError) => string)

/** `status` absent: that of the error's code. */
type DetailRule = Omit<ResponseRule, 'status'> & Partial<Pick<ResponseRule, 'status'>>

const errorResponses: Readonly<Record<ErrorCode, ResponseRule>> = {
  not_found: { code: 500, status: 404, text: 'object not found' },
  parent_missing: { code: 500, status: 404, text: 'failed to get parent dir: object not found' },
  exists: { code: 403, status: 409, text: 'file exists' },
  not_folder: { code: 500, status: 404, text: 'not a folder' },
  is_folder: { code: 500, status: 400, text: 'not a file' },
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

/** The text of an error whose detail has none of its own. */
function textOfCode(error: GatewayError): string {
  return textOf(errorResponses[error.code].text, error)
}

/** The text of each detail, with the code of the error unless it has its own. */
const detailResponses: Readonly<Record<ErrorDetail, Text | DetailRule>> = {
  relative_path: { code: 403, status: 403, text: 'using relative path is not allowed' },
  name_taken: ({ subject = '' }) => `file [${subject}] exists`,
  into_itself: { code: 500, text: 'the destination folder is a subfolder of the source folder' },
  // On 403 clients prompt for a password. No password allows a change of a mount point.
  mount_moved: { code: 500, text: 'move root folder is not allowed' },
  mount_renamed: { code: 500, text: 'rename root folder is not allowed' },
  mount_removed: { code: 500, text: 'delete root folder is not allowed' },
  root_made: { code: 500, text: 'the root folder cannot be made' },
  in_place: { code: 500, text: ({ subject = '' }) => `${subject} in place` },
  target_missing: { code: 500, text: 'failed to get dst dir: failed to get obj: object not found' },
  target_not_folder: { code: 500, text: 'failed to get dst dir: not a folder' },
  refresh_denied: 'Refresh without permission',
  system_file: 'system file upload ignored',
  parent_hidden: accessDeniedMessage,
  dangling_symlink: textOfCode,
  reserved_name: ({ reason }) => reason,
  share_missing: { code: 500, status: 404, text: 'the share does not exist' },
  share_ended: { code: 500, status: 410, text: 'the share has expired or is no longer valid' },
  // On 403 clients prompt for the code.
  share_code_wrong: 'wrong share code',
  share_id_missing: 'invalid share id',
  share_refused: { code: 500, status: 403, text: ({ subject = '' }) => `permission denied to share path [${subject}]` },
  share_not_writable: ({ reason }) => reason,
  share_full: ({ reason }) => reason,
  audit_full: ({ reason }) => reason,
  nothing_mounted: 'failed get storage: storage not found; please add a storage first',
  no_storage: ({ path = '/' }) => `failed get storage: storage not found; rawPath: ${path}`,
  storage_starting: 'Loading storage, please wait',
  storage_failed: ({ subject = '', reason }) =>
    `storage status: the storage ${subject} does not work: ${reason}: storage not init`,
  storage_enabled: 'this storage have enabled',
  storage_disabled: 'this storage have disabled',
  driver_unknown: ({ subject = '' }) => `failed get driver new: no driver named: ${subject}`,
  storage_refused: ({ reason }) => reason,
  wrong_key: ({ reason }) => reason,
  driver_changed: 'driver cannot be changed',
  source_changed: ({ reason }) => reason,
  size_required: textOfCode,
  daemon_required: ({ reason }) => reason,
  wrong_credentials: 'Invalid username or password',
  code_required: 'Invalid 2FA code',
  sign_in_throttled:
    'Too many unsuccessful sign-in attempts have been made using an incorrect username or password, Try again later.',
  account_missing: 'failed find user: record not found',
  account_disabled: 'Current user is disabled, replace please',
  account_expired: ({ reason }) => reason,
  credential_expired: ({ reason }) => reason,
  network_refused: ({ reason }) => reason,
  two_step_set_up_required: ({ reason }) => reason,
  passkey_refused: 'the passkey was not accepted, try again',
  provider_required: ({ reason }) => reason,
  provider_sign_in_due: ({ reason }) => reason,
  provider_off: { code: 403, text: 'Single sign-on is not enabled' },
  provider_settings: { code: 400, text: ({ reason }) => reason },
  // Why is for admins, who find it in the log: it tells of the network inside. The subject is a code of OAuth.
  provider_failed: {
    code: 400,
    text: ({ subject = 'the log of this server says why' }) =>
      `the answer of the provider is not accepted, or there is none (${subject})`,
  },
  provider_sign_in_expired: { code: 400, text: 'incorrect or expired state parameter' },
  identity_unknown: { code: 400, text: 'The single sign on platform is not bound to any users: record not found' },
  identity_refused: { code: 400, text: ({ reason }) => reason },
  directory_silent: ({ reason }) => reason,
  guest_disabled: 'Guest user is disabled, login please',
  password_changed: 'Password has been changed, login please',
  token_revoked: 'token is invalidated',
  token_expired: 'token is expired',
  token_not_active: 'token not active yet',
  protocol_denied: ({ reason }) => reason,
  method_refused: ({ reason }) => reason,
  key_refused: ({ reason }) => reason,
  admins_only: 'Permission denied',
  built_in_role: 'admin or guest user can not be created',
  built_in_deleted: { code: 500, text: 'cannot delete admin or guest' },
  role_changed: 'role can not be changed',
  admin_disabled: 'admin user can not be disabled',
  signature_missing: 'expire missing',
  signature_malformed: 'expire invalid',
  signature_expired: 'sign expired',
  signature_wrong: 'sign invalid',
  proxy_refused: 'proxy not allowed',
  setting_refused: {
    code: 500,
    text: ({ subject = '', reason }) => `failed to execute hook on ${subject}: ${reason}`,
  },
  costly_pattern: ({ reason }) => reason,
  setting_in_use: { code: 500, text: ({ subject = '' }) => `setting [${subject}] is not deprecated` },
  search_off: { code: 404, status: 404, text: 'search not available' },
  index_running: 'index is running',
  index_idle: 'index is not running',
  upload_gone: ({ reason }) => reason,
  task_missing: { code: 404, status: 404, text: 'task not found' },
  tool_unknown: ({ subject = '' }) => `tool ${subject} not found`,
  tool_failed: ({ subject = '', reason }) => `failed init offline download tool ${subject}: ${reason}`,
}

/** The names of all failures, in order. */
export const errorNames: readonly ErrorName[] = [
  ...new Set([
    ...errorCodes.map((code) => errorNameOf({ code, detail: undefined })),
    ...errorDetails.map((detail) => errorNameOf({ code: 'denied', detail })),
    ...(Object.keys(ownStatuses) as (keyof typeof ownStatuses)[]),
  ]),
].sort()

/** A response of the API: the `code`, `message` and `error` of the envelope. */
interface OwnResponse {
  readonly code: number
  readonly text: string
  readonly error: ErrorName
}

/**
 * The response of an endpoint to an error: its own, or the message and the name of the error with another code.
 * `status`: the HTTP status of responses without an envelope, if it is not that of the error.
 */
type EndpointResponse = OwnResponse | { readonly code: number; readonly status?: number }

/** The responses of an endpoint where they differ from the table. A detail takes precedence over a code. */
type EndpointResponses = Readonly<Partial<Record<ErrorCode | ErrorDetail, EndpointResponse>>>

/** Runs `work`, and gives its errors the responses of the endpoint. Other errors are rethrown. */
export async function withResponses<T>(responses: EndpointResponses, work: () => Promise<T> | T): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isGatewayError(error)) throw error
    const response = (error.detail && responses[error.detail]) ?? responses[error.code]
    throw response ? worded(error, response) : error
  }
}

/** The error for a response of the API itself. */
export function refused({ code, text, error }: OwnResponse): ApiError {
  const statuses: Readonly<Partial<Record<ErrorName, number>>> = ownStatuses
  const status = error in errorResponses ? errorResponses[error as ErrorCode].status : statuses[error]
  // The other codes are HTTP statuses.
  return new ApiError(code, error, text, code === 500 ? (status ?? code) : code)
}

/** The error with a response of the endpoint. */
export function worded(cause: GatewayError, response: EndpointResponse): ApiError {
  const own = { text: messageOf(cause), error: errorNameOf(cause), status: toErrorResponse(cause).status, ...response }
  return new ApiError(own.code, own.error, own.text, own.status, cause)
}

/** The error for a request that is not valid. */
export function badRequest(text: string): ApiError {
  return refused({ code: 400, text, error: 'invalid' })
}

/** The text of the error's detail, else its reason. */
export function messageOf(error: GatewayError): string {
  const rule = error.detail && detailResponses[error.detail]
  return textOf(typeof rule === 'object' ? rule.text : rule, error)
}

function textOf(text: Text | undefined, error: GatewayError): string {
  return typeof text === 'function' ? text(error) : (text ?? error.reason)
}

interface ErrorResponse {
  readonly code: number
  readonly status: number
  readonly message: string
  readonly error: ErrorName
  /** Seconds for the header Retry-After. */
  readonly retryAfter?: number | undefined
}

/** The code, status, message and name to send for a thrown value. */
export function toErrorResponse(thrown: unknown): ErrorResponse {
  if (thrown instanceof ApiError) {
    const { code, status, message, error } = thrown
    return { code, status, message, error }
  }
  const error = toGatewayError(thrown)
  const { detail, retryAfter } = error
  const special = detail && detailResponses[detail]
  const { code, status, text } = { ...errorResponses[error.code], ...(typeof special === 'object' && special) }
  const message = detail === undefined ? textOf(text, error) : messageOf(error)
  return { code, status, message, error: errorNameOf(error), retryAfter }
}

/** Logs an unexpected error, or the one that an ApiError words, unless it is logged already. `details`: the request. */
export function logUnexpected(log: Log, thrown: unknown, details: object): void {
  const error = thrown instanceof ApiError ? thrown.cause : thrown
  if (error !== undefined) logInternal(log, toGatewayError(error), details)
}
