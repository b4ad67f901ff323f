/**
 * The errors of Tidegate. Drivers and the core throw no others. Each protocol has one total table from `ErrorCode` to
 * its own statuses, so a new code does not compile until every protocol has a status for it.
 */
import type { Path } from './path.js'

export const errorCodes = [
  'not_found', // no entry has this name
  'parent_missing', // its parent folder does not exist
  'exists', // an entry has this name already
  'not_folder', // an operation on a folder; the entry is not one
  'is_folder', // an operation on a file; the entry is a folder
  'not_empty', // the folder has entries
  'denied', // the principal lacks the permission
  'hidden', // a folder rule hides it from the principal
  'password_required', // the password of a folder rule is missing or wrong
  'unauthenticated', // no valid credentials, or they were revoked
  'throttled', // too many attempts; see retryAfter
  'invalid', // the request is malformed
  'precondition_failed', // a condition such as If-Match does not hold
  'unsupported', // this storage does not have the operation
  'locked', // it has a lock whose token was not presented
  'range', // the requested range is outside the file
  'too_large', // larger than a limit
  'no_space', // the storage or a quota is full
  'busy', // another operation is changing it; a retry may succeed
  'unavailable', // the storage does not answer
  'timeout', // the operation took too long
  'aborted', // the caller canceled it
  'internal', // unexpected; logged in full, clients see no details
] as const

export type ErrorCode = (typeof errorCodes)[number]

/** The reason of an error that has neither a reason nor a detail. */
const sentences: Readonly<Record<ErrorCode, string>> = {
  not_found: 'not found',
  parent_missing: 'the parent folder does not exist',
  exists: 'already exists',
  not_folder: 'not a folder',
  is_folder: 'is a folder',
  not_empty: 'not empty',
  denied: 'permission denied',
  hidden: 'permission denied',
  password_required: 'the folder password is missing or wrong',
  unauthenticated: 'sign in first',
  throttled: 'too many tries',
  invalid: 'invalid request',
  precondition_failed: 'a precondition does not hold',
  unsupported: 'not supported here',
  locked: 'locked',
  range: 'range not satisfiable',
  too_large: 'too large',
  no_space: 'no space left',
  busy: 'busy, try again',
  unavailable: 'the storage does not answer',
  timeout: 'timed out',
  aborted: 'aborted',
  internal: 'internal error',
}

/**
 * Causes that callers distinguish, or that a protocol has a text of its own for, each with its reason. A detail is more
 * precise than the code of the error.
 */
const details = {
  // paths and the tree
  parent_hidden: 'permission denied',
  relative_path: 'a path cannot hold ".."',
  name_taken: 'the name is taken',
  into_itself: 'a folder cannot be moved or copied into itself',
  mount_moved: 'a mount point cannot be moved',
  mount_renamed: 'a mount point cannot be renamed',
  mount_removed: 'a mount point cannot be removed',
  root_made: 'the root folder cannot be made',
  in_place: 'source and target are the same',
  target_missing: 'the target folder does not exist',
  target_not_folder: 'the target is not a folder',
  refresh_denied: 'only a user who may write can refresh a listing',
  system_file: 'files of this name are not accepted (ignore_system_files)',
  dangling_symlink: 'a symlink that leads nowhere',
  reserved_name: 'this name cannot be used at the top of the tree',
  // shares
  share_missing: 'the share does not exist',
  share_ended: 'the share has expired or is no longer valid',
  share_code_wrong: 'the code of the share is missing or wrong',
  share_id_missing: 'the id of the share is missing',
  share_refused: 'this cannot be shared',
  share_not_writable: 'visitors may not change this',
  share_full: 'the limits of the share do not allow this upload',
  // storages
  nothing_mounted: 'no storage is mounted',
  no_storage: 'no storage is mounted at this path',
  storage_starting: 'the storage is still starting',
  storage_failed: 'the storage did not start',
  storage_enabled: 'the storage is enabled already',
  storage_disabled: 'the storage is disabled already',
  driver_unknown: 'there is no such driver',
  storage_refused: 'the storage refuses the request or its credentials',
  wrong_key: 'the content cannot be decrypted: it is damaged, or the password or the salt is wrong',
  driver_changed: 'the driver of a storage cannot be changed',
  source_changed: 'the source changed while it was copied',
  size_required: 'the server requires the size of the body',
  daemon_required: 'only the daemon can open it',
  // accounts
  wrong_credentials: 'wrong user name or password',
  code_required: 'the one-time code is missing or wrong',
  sign_in_throttled: 'too many failed attempts to sign in',
  account_missing: 'the account does not exist',
  account_disabled: 'the account is disabled',
  account_expired: 'this account has expired',
  credential_expired: 'this credential has expired',
  network_refused: 'this account cannot be used from this network',
  two_step_set_up_required: 'this account must set up two-step verification first',
  passkey_refused: 'the passkey was not accepted',
  provider_required: 'this account signs in at its provider only',
  provider_sign_in_due: 'this account must sign in at its provider first',
  provider_off: 'single sign-on is not enabled',
  provider_settings: 'the settings of the provider are not complete',
  provider_failed: 'the provider does not answer, or not as it should',
  provider_sign_in_expired: 'the sign-in has expired, or began in another browser',
  identity_unknown: 'no account is linked to this identity',
  identity_refused: 'this identity may not sign in here',
  directory_silent: 'the password cannot be checked, because the directory does not answer',
  guest_disabled: 'the guest account is disabled',
  password_changed: 'the password has been changed',
  token_revoked: 'the token is not valid, or was revoked',
  token_expired: 'the token has expired',
  token_not_active: 'the token is not valid yet',
  protocol_denied: 'this account may not use this protocol',
  method_refused: 'this method, key or signature is not accepted',
  key_refused: 'this key or its signature is not accepted',
  admins_only: 'only an admin may do this',
  built_in_role: 'an admin or a guest cannot be created',
  built_in_deleted: 'the admin and the guest cannot be deleted',
  role_changed: 'the role of an account cannot be changed',
  admin_disabled: 'the admin cannot be disabled',
  // signed URLs
  signature_missing: 'the URL is not signed',
  signature_malformed: 'the signature of the URL is malformed',
  signature_expired: 'the URL has expired',
  signature_wrong: 'the signature of the URL is wrong',
  proxy_refused: 'this file is not sent through the gateway',
  // the audit
  audit_full: 'what is done cannot be recorded now: the disk of the data folder is full',
  // settings, search, tasks
  setting_refused: 'the setting cannot have this value',
  costly_pattern: 'the patterns exceed a limit',
  setting_in_use: 'only deprecated settings can be deleted',
  search_off: 'search is switched off',
  index_running: 'the index is being built or updated',
  index_idle: 'the index is not being built or updated',
  task_missing: 'there is no such task',
  upload_gone: 'the received bytes are gone: upload the file again',
  tool_unknown: 'there is no such download tool',
  tool_failed: 'the download tool does not work',
} as const

export type ErrorDetail = keyof typeof details

export const errorDetails = Object.keys(details) as readonly ErrorDetail[]

/**
 * The names of operations, in errors and in the log. The call of a driver has the name of the operation on the tree
 * that makes it, so that one word finds both.
 */
export type OperationName =
  | 'stat'
  | 'list'
  | 'search'
  | 'read'
  | 'open'
  | 'close'
  | 'write'
  | 'check'
  | 'make folder'
  | 'remove'
  | 'rename'
  | 'move'
  | 'copy'
  | 'set attributes'
  | 'read symlink'
  | 'make symlink'
  | 'make hard link'
  | 'direct URL'
  | 'make thumbnail'
  | 'usage'
  | 'lock'
  | 'refresh lock'
  | 'unlock'
  | 'list locks'
  | 'read properties'
  | 'set properties'
  | BackendOperationName
  | AccessOperationName
  | HandleOperationName

/** Operations that no request names: `Storage` makes them on the way of others. */
type BackendOperationName =
  | 'resolve symlinks'
  | 'identify'
  | 'read revision'
  | 'drop upload'
  | 'add download'
  | 'find download'
  | 'remove download'
  | 'remove orphans'
  | 'start'

/** Operations that let a client into the tree. */
type AccessOperationName = 'sign in' | 'open signed URL'

/** Operations of SFTP that are none of the tree, or a part of one. */
type HandleOperationName =
  'use handle' | 'truncate' | 'publish partial upload' | 'home folder' | 'expand path' | 'names of users'

export interface GatewayErrorOptions {
  /** The path of the operation, as the caller wrote it. */
  readonly path?: string | undefined
  readonly op?: OperationName | undefined
  readonly detail?: ErrorDetail | undefined
  /** The subject of the detail if it is not `path`: the name of a file, a driver or a setting. */
  readonly subject?: string | undefined
  /** The cause, for users: without paths of the host and without secrets. Callers do not compare it. */
  readonly reason?: string | undefined
  /** Seconds after which a retry may succeed. */
  readonly retryAfter?: number | undefined
  readonly cause?: unknown
}

/** The operation of an error, its path, and the original error. */
export type ErrorOrigin = Pick<GatewayErrorOptions, 'op' | 'path' | 'cause'>

export class GatewayError extends Error {
  readonly code: ErrorCode
  readonly path: string | undefined
  readonly op: OperationName | undefined
  readonly detail: ErrorDetail | undefined
  readonly subject: string | undefined
  readonly reason: string
  readonly retryAfter: number | undefined

  constructor(code: ErrorCode, options: GatewayErrorOptions = {}) {
    const { detail, subject } = options
    const reason = options.reason ?? (detail === undefined ? sentences[code] : details[detail])
    // Most errors are ordinary responses, and collecting a stack costs more than everything else.
    const { stackTraceLimit } = Error
    if (code !== 'internal') Error.stackTraceLimit = 0
    super([options.op, options.path, reason].filter((part) => part !== undefined).join(': '))
    Error.stackTraceLimit = stackTraceLimit
    if (options.cause !== undefined) this.cause = options.cause
    this.name = 'GatewayError'
    this.code = code
    this.path = options.path
    this.op = options.op
    this.detail = detail
    this.subject = subject
    this.reason = reason
    this.retryAfter = options.retryAfter
  }

  /** This error with the operation and the path that the caller knows. Classes that the core distinguishes are kept. */
  at(op: OperationName | undefined, path: string): GatewayError {
    return new GatewayError(this.code, {
      op,
      path,
      detail: this.detail,
      subject: this.subject,
      reason: this.reason,
      retryAfter: this.retryAfter,
      cause: this.cause ?? this,
    })
  }
}

/** Whether `error` is a GatewayError, and where codes are given, one of those. */
export function isGatewayError(error: unknown, ...codes: readonly ErrorCode[]): error is GatewayError {
  return error instanceof GatewayError && (codes.length === 0 || codes.includes(error.code))
}

/** Whether `error` is a GatewayError with one of these details. */
export function hasDetail(
  error: unknown,
  ...wanted: readonly ErrorDetail[]
): error is GatewayError & { readonly detail: ErrorDetail } {
  return error instanceof GatewayError && error.detail !== undefined && wanted.includes(error.detail)
}

/** The error for a name that another entry of the folder has. */
export function nameTaken(name: string, cause?: unknown): GatewayError {
  return new GatewayError('exists', { detail: 'name_taken', subject: name, reason: `"${name}" exists already`, cause })
}

/** Whether no mount covers the path. */
export function isWithoutStorage(error: unknown): boolean {
  return hasDetail(error, 'no_storage', 'nothing_mounted')
}

/** Whether a later retry may succeed. 'aborted': the storage or the process was stopped meanwhile. */
export function isTransient(error: unknown): boolean {
  return isGatewayError(error, 'unavailable', 'timeout', 'busy', 'throttled', 'aborted')
}

/** Resolves to undefined if the work rejects with `not_found` or `others`, except where no storage is mounted. */
export async function undefinedIfMissing<Found>(
  work: Promise<Found>,
  ...others: readonly ErrorCode[]
): Promise<Found | undefined> {
  try {
    return await work
  } catch (error) {
    if (isGatewayError(error, 'not_found', ...others) && !isWithoutStorage(error)) return undefined
    throw error
  }
}

/**
 * Converts a thrown value: a GatewayError is returned unchanged, an abort becomes `aborted`, an expired time limit
 * `timeout`, and everything else `internal`, with the value as `cause`.
 */
export function toGatewayError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  if (
    error instanceof Error &&
    (error.name === 'AbortError' || (error as NodeJS.ErrnoException).code === 'ABORT_ERR')
  ) {
    return new GatewayError('aborted', { cause: error })
  }
  if (error instanceof Error && error.name === 'TimeoutError') return new GatewayError('timeout', { cause: error })
  return new GatewayError('internal', { cause: error })
}

/** The error of one member of a tree that was removed, copied or moved. */
export interface MemberFailure {
  readonly path: Path
  /** The source of a copy or move. */
  readonly from?: Path | undefined
  readonly error: GatewayError
}

/** An operation on a tree failed for some members, and was completed for all others. */
export class TreeError extends GatewayError {
  constructor(
    /** The error of each member, or of as many as `Failures` keeps. */
    readonly failures: readonly [MemberFailure, ...MemberFailure[]],
    context: ErrorOrigin = {},
    /** The number of members that failed. */
    readonly count = failures.length,
  ) {
    const [first] = failures
    super(first.error.code, {
      ...context,
      reason: count === 1 ? first.error.reason : `${first.error.reason} (and ${count - 1} more)`,
      detail: first.error.detail,
      subject: first.error.subject,
      retryAfter: first.error.retryAfter,
      cause: first.error,
    })
  }

  override at(op: OperationName | undefined, path: string): TreeError {
    return new TreeError(this.failures, { op, path }, this.count)
  }

  /** These failures with converted paths and errors. */
  converted(
    pathOf: (path: Path) => Path,
    errorOf: (error: GatewayError) => GatewayError = (error) => error,
  ): TreeError {
    const [first, ...others] = this.failures
    const convert = ({ path, from, error }: MemberFailure): MemberFailure => ({
      path: pathOf(path),
      from: from && pathOf(from),
      error: errorOf(error),
    })
    return new TreeError([convert(first), ...others.map(convert)], this, this.count)
  }
}
