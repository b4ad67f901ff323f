/** Error responses that several endpoints share, and the complete list for an endpoint. */
import type { Audience, EndpointDescription, Refusal } from './endpoint.js'

/** The error for the guest if access is `user`. */
export const guestRefusal: Refusal = { code: 401, text: 'user invalid', when: 'the guest calls' }
export const adminRefusal: Refusal = { code: 403, text: 'You are not an admin' }

export const endpointMissing: Refusal = { code: 404, text: 'no such endpoint' }

const authenticationRefusals: readonly Refusal[] = [
  {
    code: 401,
    text: 'Guest user is disabled, login please',
    when: 'there is no token, and the guest account is disabled',
  },
  {
    code: 401,
    text: 'token is invalidated',
    when: 'the token, or the session of the cookie, was ended or never issued',
  },
  { code: 401, text: 'token is expired' },
  { code: 401, text: 'token not active yet' },
  { code: 401, text: 'Password has been changed, login please', when: 'the token is older than the password' },
  { code: 401, text: 'Current user is disabled, replace please' },
  { code: 401, text: 'failed find user: record not found', when: 'the user of the token was deleted or renamed' },
]

const invalidFields: Refusal = { code: 400, text: '…: …', when: 'a field is invalid; the message starts with its name' }

const bodyRefusals: readonly Refusal[] = [
  { code: 400, text: 'EOF', when: 'the Content-Type is JSON and the body is empty' },
  { code: 400, text: 'the body …', when: 'the body is not a JSON object, malformed, too large or compressed' },
  { code: 400, text: 'the form is malformed' },
]

const unexpectedRefusals: readonly Refusal[] = [
  { code: 500, text: 'internal error', when: 'an unexpected error occurred; the log of the server has details' },
]

export const lockedPasswords: Refusal = {
  code: 429,
  text: 'too many wrong passwords for this folder, try again later',
  when: 'the request has a password, and the network has sent five different wrong ones within five minutes',
}

/** Errors of requests with a path of the tree. */
export const pathRefusals: readonly Refusal[] = [
  { code: 400, text: 'a path cannot hold a NUL character' },
  { code: 400, text: 'the path is too long' },
  {
    code: 403,
    text: 'using relative path is not allowed',
    when: 'a path or a name contains `..`, or a name has more than one segment',
  },
  {
    code: 403,
    text: 'password is incorrect or you have no permission',
    when: 'the password of the folder is missing or wrong, or a folder rule hides it',
  },
  lockedPasswords,
  { code: 500, text: '…object not found', when: 'no file or folder has this path' },
  { code: 500, text: 'failed get storage: …', when: 'no storage is mounted at the path' },
  { code: 500, text: '…not a folder', when: 'a folder is required and the path is that of a file' },
  { code: 500, text: 'not a file', when: 'a file is required and the path is that of a folder' },
  { code: 500, text: 'not support', when: 'the storage does not support the operation' },
  { code: 500, text: '…', when: 'the storage failed; the message is the reason' },
  { code: 504, text: '…', when: 'the storage timed out' },
]

/** Errors of requests that change the tree, in addition to `pathRefusals`. */
export const changeRefusals: readonly Refusal[] = [
  { code: 400, text: 'a name …', when: 'a new name contains control characters or is not valid Unicode' },
  { code: 400, text: 'the name is too long' },
  { code: 403, text: 'permission denied', when: 'the user lacks the permission, or a folder rule forbids it' },
  { code: 423, text: 'locked by …', when: 'the path is covered by a WebDAV lock' },
  { code: 500, text: '… root folder is not allowed', when: 'the request would change a mount point' },
  {
    code: 503,
    text: 'somebody else is changing it, try again',
    when: 'the request timed out waiting for another change of the same path',
  },
  { code: 507, text: '…', when: 'the storage is full' },
]

/** Errors of requests that may add a task. */
export const taskRefusals: readonly Refusal[] = [
  { code: 429, text: 'too many tasks are waiting', when: 'the limit of pending tasks for a user is reached' },
]

export const nameExists: Refusal = { code: 403, text: 'file […] exists', when: 'the name exists already' }

/** All errors of an endpoint without duplicates, in order of their codes. */
export function refusalsOf(endpoint: EndpointDescription): readonly Refusal[] {
  const readsBody = endpoint.fields !== undefined && endpoint.method !== 'get'
  const all = [
    ...(endpoint.fields === undefined ? [] : [invalid(endpoint.faultyFields)]),
    ...(readsBody ? bodyRefusals : []),
    ...(endpoint.query === undefined ? [] : [invalid(endpoint.faultyQuery)]),
    ...accessRefusals(endpoint.access, endpoint.guestRefusal),
    ...(endpoint.refusals ?? []),
    ...unexpectedRefusals,
  ]
  const byText = new Map(all.map((refusal) => [`${refusal.code} ${refusal.text}`, refusal]))
  return [...byText.values()].sort((one, other) => one.code - other.code)
}

function invalid(message: string | undefined): Refusal {
  return message === undefined ? invalidFields : { code: 400, text: message }
}

function accessRefusals(access: Audience, refusalForGuest = guestRefusal): readonly Refusal[] {
  if (access === 'anybody') return []
  if (access === 'guest') return authenticationRefusals
  return [...authenticationRefusals, access === 'admin' ? adminRefusal : refusalForGuest]
}
