/** Error responses that several endpoints share, and the complete list for an endpoint. */
import { GatewayError, type ErrorCode, type GatewayErrorOptions } from '../../../src/base/errors.js'
import type { EndpointDescription, Refusal } from './endpoint.js'
import { toErrorResponse, type ErrorName } from './errors.js'

/**
 * The response to an error of the core: the code, text and name that `errors.ts` has for it. In the text, `…` stands
 * for what the error is about. A text that is the reason of the error is that of `facts`, by default the reason of the
 * code or detail.
 */
export function coreRefusal(
  code: ErrorCode,
  facts: Pick<GatewayErrorOptions, 'detail' | 'reason'> = {},
  when?: string,
): Refusal {
  const response = toErrorResponse(new GatewayError(code, { subject: '…', path: '…', ...facts }))
  return { code: response.code, text: response.message, error: response.error, ...(when !== undefined && { when }) }
}

/** The error for the guest if access is `user`. */
export const guestRefusal: Refusal = {
  code: 401,
  text: 'user invalid',
  error: 'unauthenticated',
  when: 'the guest calls',
}
/** What a user or a group cannot have together. */
export const guestAdmin: Refusal = {
  code: 400,
  text: 'the guest cannot be in a group whose members are admins',
  error: 'invalid',
}

export const adminRefusal: Refusal = { code: 403, text: 'You are not an admin', error: 'admins_only' }

export const recentSignInRefusal: Refusal = {
  code: 403,
  text: 'this needs a sign-in within the last ten minutes: sign in again',
  error: 'recent_sign_in_required',
  when: 'the user has signed in longer ago, and does not use the permanent token',
}

/** Clients treat 401 as an expired session, and this one has not expired. */
export const accountChanged: Refusal = {
  code: 400,
  text: 'the account has just changed, sign in again',
  error: 'unauthenticated',
}

export const endpointMissing: Refusal = { code: 404, text: 'no such endpoint', error: 'endpoint_missing' }

const authenticationRefusals: readonly Refusal[] = [
  coreRefusal('unauthenticated', { detail: 'guest_disabled' }, 'there is no token, and the guest account is disabled'),
  coreRefusal(
    'unauthenticated',
    { detail: 'token_revoked' },
    'the token, or the session of the cookie, was ended or never issued',
  ),
  coreRefusal('unauthenticated', { detail: 'token_expired' }),
  coreRefusal('unauthenticated', { detail: 'token_not_active' }),
  coreRefusal('unauthenticated', { detail: 'password_changed' }, 'the token is older than the password'),
  coreRefusal('unauthenticated', { detail: 'account_disabled' }),
  coreRefusal('unauthenticated', { detail: 'account_expired' }),
  coreRefusal('unauthenticated', { detail: 'network_refused' }),
  coreRefusal('unauthenticated', { detail: 'account_missing' }, 'the user of the token was deleted or renamed'),
]

const twoStepRefusal = coreRefusal(
  'denied',
  { detail: 'two_step_set_up_required' },
  'a group requires two-step verification of the user, who has not set it up',
)

const invalidFields: Refusal = {
  code: 400,
  text: '…: …',
  error: 'invalid',
  when: 'a field is invalid; the message starts with its name',
}

export const emptyBody: Refusal = {
  code: 400,
  text: 'EOF',
  error: 'invalid',
  when: 'the Content-Type is JSON and the body is empty',
}

/** `limit`: in bytes. */
export function bodyTooLarge(limit: number | '…'): Refusal {
  return { code: 400, text: `the body is larger than ${limit} bytes`, error: 'too_large' }
}

export const malformedForm: Refusal = { code: 400, text: 'the form is malformed', error: 'invalid' }

const bodyRefusals: readonly Refusal[] = [
  emptyBody,
  {
    code: 400,
    text: 'the body …',
    error: 'invalid',
    when: 'the body is not a JSON object, malformed or compressed',
  },
  bodyTooLarge('…'),
  malformedForm,
]

const unexpectedRefusals: readonly Refusal[] = [
  coreRefusal('internal', {}, 'an unexpected error occurred; the log of the server has details'),
]

export const lockedPasswords: Refusal = {
  code: 429,
  text: 'too many wrong passwords for this folder, try again later',
  error: 'throttled',
  when: 'the request has a password, and the network has sent five different wrong ones within five minutes',
}

/** For an error whose message is a reason that differs. */
const anyReason = { reason: '…' }

/** Errors of a storage. Their messages are the reasons. */
export const storageRefusals: readonly Refusal[] = [
  coreRefusal('unavailable', anyReason, 'the storage does not answer, or answers with an error'),
  coreRefusal('unavailable', { detail: 'storage_starting' }),
  coreRefusal('unavailable', { detail: 'storage_failed', ...anyReason }, 'the storage did not start'),
  {
    ...coreRefusal(
      'denied',
      { detail: 'storage_refused', ...anyReason },
      'the backend refuses the request or its credentials',
    ),
    code: 500,
  },
  coreRefusal('unavailable', { detail: 'wrong_key', ...anyReason }, 'the content cannot be decrypted'),
  coreRefusal('unavailable', { detail: 'source_changed', ...anyReason }, 'the file changed while it was read'),
  coreRefusal('aborted', anyReason, 'the storage or the server was stopped'),
]

/** Errors of a text that is no path. */
export const malformedPath: readonly Refusal[] = [
  { code: 400, text: 'a path cannot hold a NUL character', error: 'invalid' },
  { code: 400, text: 'the path is too long', error: 'invalid' },
]

/** A path that leaves the folder of the user. */
export const relativePath = coreRefusal('invalid', { detail: 'relative_path' })

/** The response on which clients prompt for a folder password. */
export const accessDenied = coreRefusal(
  'password_required',
  {},
  'the password of the folder is missing or wrong, or a folder rule hides it',
)

/** Errors of requests with a path of the tree. */
export const pathRefusals: readonly Refusal[] = [
  ...malformedPath,
  { ...relativePath, when: 'a path or a name contains `..`, or a name has more than one segment' },
  accessDenied,
  lockedPasswords,
  coreRefusal('not_found', {}, 'no file or folder has this path'),
  coreRefusal('not_found', { detail: 'no_storage' }, 'no storage is mounted at the path'),
  coreRefusal('not_found', { detail: 'nothing_mounted' }, 'no storage is mounted at all'),
  coreRefusal('not_folder', {}, 'a folder is required and the path is that of a file'),
  coreRefusal('is_folder', {}, 'a file is required and the path is that of a folder'),
  coreRefusal('unsupported', {}, 'the storage does not support the operation'),
  ...storageRefusals,
  coreRefusal('timeout', anyReason, 'the storage timed out'),
]

/** Errors of visitors of a share. */
export const visitorRefusals: readonly Refusal[] = [
  coreRefusal('invalid', { detail: 'share_id_missing' }, 'the path is `/@s`'),
  coreRefusal('not_found', { detail: 'share_missing' }, 'there is no such share, or not for the address of the client'),
  coreRefusal(
    'not_found',
    { detail: 'share_ended' },
    'the share is disabled, used up or past its end, or its creator may not share it any more, or it is missing',
  ),
  coreRefusal('password_required', { detail: 'share_code_wrong' }, 'the code of the share is missing or wrong'),
  {
    code: 429,
    text: 'too many wrong codes for this share, try again later',
    error: 'throttled',
    when: 'the network has sent eight different wrong codes within five minutes',
  },
]

/** Errors of visitors of a share who change something, in addition to `visitorRefusals`. */
export const visitorChangeRefusals: readonly Refusal[] = [
  coreRefusal(
    'denied',
    { detail: 'share_not_writable' },
    'visitors of the share, or its creator, may not do this here',
  ),
  {
    code: 400,
    text: 'this name or this content cannot be stored here',
    error: 'invalid',
    when: 'the storage refuses it: visitors are not told what kind of storage that is, and why',
  },
]

/** Errors of uploads of visitors, in addition to `visitorRefusals`. */
export const visitorUploadRefusals: readonly Refusal[] = [
  ...visitorChangeRefusals,
  coreRefusal('no_space', { detail: 'share_full' }, 'the share may not get as many bytes or files by uploads'),
  {
    code: 400,
    text: 'files are uploaded to this share by a name, without folders',
    error: 'invalid',
    when: 'the share is one to upload to only',
  },
  coreRefusal('busy', {}, 'somebody else has just made a file of the name that the upload was to get'),
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
  coreRefusal('denied', {}, 'the user lacks the permission, or a folder rule or a grant forbids it'),
  coreRefusal(
    'denied',
    { reason: 'permission denied below this folder' },
    'a folder rule or a grant forbids it for something in the folder',
  ),
  coreRefusal(
    'denied',
    { reason: 'a folder rule hides things here that would be seen there' },
    'a folder would be moved away from the rule that hides something in it',
  ),
  coreRefusal('parent_missing', {}, 'a grant does not let the user see the folder'),
  coreRefusal('denied', { detail: 'reserved_name' }, 'a new name at the top is `@s`, `@login` or `@manage`'),
  { code: 423, text: 'locked by …', error: 'locked', when: 'the path is covered by a WebDAV lock' },
  coreRefusal('denied', { detail: 'mount_moved' }, 'a mount point would be moved'),
  coreRefusal('denied', { detail: 'mount_renamed' }, 'a mount point would be renamed'),
  coreRefusal('denied', { detail: 'mount_removed' }, 'a mount point would be removed'),
  {
    code: 503,
    text: 'somebody else is changing it, try again',
    error: 'busy',
    when: 'the request timed out waiting for another change of the same path',
  },
  coreRefusal('no_space', anyReason, 'the storage is full'),
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

export const nameExists = coreRefusal('exists', { detail: 'name_taken' }, 'the name exists already')

/** A `dst_dir` that is not a folder. */
export const targetRefusals: readonly Refusal[] = [
  coreRefusal('not_found', { detail: 'target_missing' }, '`dst_dir` does not exist'),
  coreRefusal('not_folder', { detail: 'target_not_folder' }, '`dst_dir` is a file'),
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
    ...accessRefusals(endpoint),
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

function accessRefusals(endpoint: EndpointDescription): readonly Refusal[] {
  const { access, setsUpTwoStep, guestRefusal: refusalForGuest = guestRefusal } = endpoint
  if (access === 'anybody') return []
  const all = [...authenticationRefusals, ...(setsUpTwoStep === true ? [] : [twoStepRefusal])]
  return access === 'guest' ? all : [...all, access === 'admin' ? adminRefusal : refusalForGuest]
}
