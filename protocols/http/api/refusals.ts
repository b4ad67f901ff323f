/** Error responses that several endpoints share, and the complete list for an endpoint. */
import type { Audience, EndpointDescription, Refusal } from './endpoint.js'
import type { ErrorName } from './errors.js'

/** The error for the guest if access is `user`. */
export const guestRefusal: Refusal = {
  code: 401,
  text: 'user invalid',
  error: 'unauthenticated',
  when: 'the guest calls',
}
export const adminRefusal: Refusal = { code: 403, text: 'You are not an admin', error: 'admins_only' }

export const recentSignInRefusal: Refusal = {
  code: 403,
  text: 'this needs a sign-in within the last ten minutes: sign in again',
  error: 'recent_sign_in_required',
  when: 'the user has signed in longer ago, and does not use the permanent token',
}

export const endpointMissing: Refusal = { code: 404, text: 'no such endpoint', error: 'endpoint_missing' }

const authenticationRefusals: readonly Refusal[] = [
  {
    code: 401,
    text: 'Guest user is disabled, login please',
    error: 'guest_disabled',
    when: 'there is no token, and the guest account is disabled',
  },
  {
    code: 401,
    text: 'token is invalidated',
    error: 'token_revoked',
    when: 'the token, or the session of the cookie, was ended or never issued',
  },
  { code: 401, text: 'token is expired', error: 'token_expired' },
  { code: 401, text: 'token not active yet', error: 'token_not_active' },
  {
    code: 401,
    text: 'Password has been changed, login please',
    error: 'password_changed',
    when: 'the token is older than the password',
  },
  { code: 401, text: 'Current user is disabled, replace please', error: 'account_disabled' },
  {
    code: 401,
    text: 'failed find user: record not found',
    error: 'account_missing',
    when: 'the user of the token was deleted or renamed',
  },
]

const invalidFields: Refusal = {
  code: 400,
  text: '…: …',
  error: 'invalid',
  when: 'a field is invalid; the message starts with its name',
}

const bodyRefusals: readonly Refusal[] = [
  { code: 400, text: 'EOF', error: 'invalid', when: 'the Content-Type is JSON and the body is empty' },
  {
    code: 400,
    text: 'the body …',
    error: 'invalid',
    when: 'the body is not a JSON object, malformed or compressed',
  },
  { code: 400, text: 'the body is larger than … bytes', error: 'too_large' },
  { code: 400, text: 'the form is malformed', error: 'invalid' },
]

const unexpectedRefusals: readonly Refusal[] = [
  {
    code: 500,
    text: 'internal error',
    error: 'internal',
    when: 'an unexpected error occurred; the log of the server has details',
  },
]

export const lockedPasswords: Refusal = {
  code: 429,
  text: 'too many wrong passwords for this folder, try again later',
  error: 'throttled',
  when: 'the request has a password, and the network has sent five different wrong ones within five minutes',
}

/** Errors of a storage. Their messages are the reasons. */
export const storageRefusals: readonly Refusal[] = [
  { code: 500, text: '…', error: 'unavailable', when: 'the storage does not answer, or answers with an error' },
  { code: 500, text: 'Loading storage, please wait', error: 'storage_starting' },
  { code: 500, text: 'storage status: …', error: 'storage_failed', when: 'the storage did not start' },
  { code: 500, text: '…', error: 'storage_refused', when: 'the backend refuses the request or its credentials' },
  { code: 500, text: '…', error: 'wrong_key', when: 'the content cannot be decrypted' },
  { code: 500, text: '…', error: 'source_changed', when: 'the file changed while it was read' },
  { code: 500, text: '…', error: 'aborted', when: 'the storage or the server was stopped' },
]

/** Errors of a text that is no path. */
export const malformedPath: readonly Refusal[] = [
  { code: 400, text: 'a path cannot hold a NUL character', error: 'invalid' },
  { code: 400, text: 'the path is too long', error: 'invalid' },
]

/** Errors of requests with a path of the tree. */
export const pathRefusals: readonly Refusal[] = [
  ...malformedPath,
  {
    code: 403,
    text: 'using relative path is not allowed',
    error: 'relative_path',
    when: 'a path or a name contains `..`, or a name has more than one segment',
  },
  {
    code: 403,
    text: 'password is incorrect or you have no permission',
    error: 'password_required',
    when: 'the password of the folder is missing or wrong, or a folder rule hides it',
  },
  lockedPasswords,
  { code: 500, text: '…object not found', error: 'not_found', when: 'no file or folder has this path' },
  { code: 500, text: 'failed get storage: …', error: 'no_storage', when: 'no storage is mounted at the path' },
  { code: 500, text: 'failed get storage: …', error: 'nothing_mounted', when: 'no storage is mounted at all' },
  {
    code: 500,
    text: '…not a folder',
    error: 'not_folder',
    when: 'a folder is required and the path is that of a file',
  },
  { code: 500, text: 'not a file', error: 'is_folder', when: 'a file is required and the path is that of a folder' },
  { code: 500, text: 'not support', error: 'unsupported', when: 'the storage does not support the operation' },
  ...storageRefusals,
  { code: 504, text: '…', error: 'timeout', when: 'the storage timed out' },
]

/** Errors of requests that change the tree, in addition to `pathRefusals`. */
export const changeRefusals: readonly Refusal[] = [
  {
    code: 400,
    text: 'a name …',
    error: 'invalid',
    when: 'a new name contains control characters or is not valid Unicode',
  },
  { code: 400, text: 'the name is too long', error: 'invalid' },
  {
    code: 403,
    text: 'permission denied',
    error: 'denied',
    when: 'the user lacks the permission, or a folder rule forbids it',
  },
  { code: 423, text: 'locked by …', error: 'locked', when: 'the path is covered by a WebDAV lock' },
  { code: 500, text: 'move root folder is not allowed', error: 'mount_moved', when: 'a mount point would be moved' },
  {
    code: 500,
    text: 'rename root folder is not allowed',
    error: 'mount_renamed',
    when: 'a mount point would be renamed',
  },
  {
    code: 500,
    text: 'delete root folder is not allowed',
    error: 'mount_removed',
    when: 'a mount point would be removed',
  },
  {
    code: 503,
    text: 'somebody else is changing it, try again',
    error: 'busy',
    when: 'the request timed out waiting for another change of the same path',
  },
  { code: 507, text: '…', error: 'no_space', when: 'the storage is full' },
]

/** Errors of requests that may add a task. */
export const taskRefusals: readonly Refusal[] = [
  {
    code: 429,
    text: 'too many tasks are waiting',
    error: 'throttled',
    when: 'the limit of pending tasks for a user is reached',
  },
]

export const nameExists: Refusal = {
  code: 403,
  text: 'file […] exists',
  error: 'name_taken',
  when: 'the name exists already',
}

/** A `dst_dir` that is not a folder. */
export const targetRefusals: readonly Refusal[] = [
  {
    code: 500,
    text: 'failed to get dst dir: failed to get obj: object not found',
    error: 'target_missing',
    when: '`dst_dir` does not exist',
  },
  { code: 500, text: 'failed to get dst dir: not a folder', error: 'target_not_folder', when: '`dst_dir` is a file' },
]

/** A refusal for each of the names, where the messages are reasons. */
export function withNames(names: readonly ErrorName[], refusal: Omit<Refusal, 'error'>): readonly Refusal[] {
  return names.map((error) => ({ ...refusal, error }))
}

/** All errors of an endpoint without duplicates, in order of their codes. */
export function refusalsOf(endpoint: EndpointDescription): readonly Refusal[] {
  const readsBody = endpoint.fields !== undefined && endpoint.method !== 'get'
  const all = [
    ...(endpoint.fields === undefined ? [] : [invalid(endpoint.faultyFields)]),
    ...(readsBody ? bodyRefusals : []),
    ...(endpoint.query === undefined ? [] : [invalid(endpoint.faultyQuery)]),
    ...accessRefusals(endpoint.access, endpoint.guestRefusal),
    ...(endpoint.recentSignIn === undefined ? [] : [recentSignInRefusal]),
    ...(endpoint.refusals ?? []),
    ...unexpectedRefusals,
  ]
  const byText = new Map(all.map((refusal) => [`${refusal.code} ${refusal.text} ${refusal.error}`, refusal]))
  return [...byText.values()].sort((one, other) => one.code - other.code)
}

function invalid(message: string | undefined): Refusal {
  return message === undefined ? invalidFields : { code: 400, text: message, error: 'invalid' }
}

function accessRefusals(access: Audience, refusalForGuest = guestRefusal): readonly Refusal[] {
  if (access === 'anybody') return []
  if (access === 'guest') return authenticationRefusals
  return [...authenticationRefusals, access === 'admin' ? adminRefusal : refusalForGuest]
}
