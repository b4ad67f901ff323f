/** Refusals that several endpoints share, and the whole of those that one can give. */
import type { Access, Description, Refusal } from './endpoint.js'

/** What the guest is told where only users may call. */
export const guestRefusal: Refusal = { code: 401, text: 'user invalid', when: 'the guest calls' }
export const adminRefusal: Refusal = { code: 403, text: 'You are not an admin' }

const noAuthority: readonly Refusal[] = [
  { code: 401, text: 'Guest user is disabled, login please', when: 'there is no token, and the guest may not come in' },
  { code: 401, text: 'token is invalidated', when: 'the token was signed out, or never given out' },
  { code: 401, text: 'token is expired' },
  { code: 401, text: 'token not active yet' },
  { code: 401, text: 'Password has been changed, login please', when: 'the token is older than the password' },
  { code: 401, text: 'Current user is disabled, replace please' },
  { code: 401, text: 'failed find user: record not found', when: 'the user of the token was deleted or renamed' },
]

const faultyFields: Refusal = { code: 400, text: '…: …', when: 'a field does not fit; its name comes first' }

const faultyBody: readonly Refusal[] = [
  { code: 400, text: 'EOF', when: 'JSON is announced and the body is empty' },
  { code: 400, text: 'the body …', when: 'the body is no JSON object, malformed, too large, or compressed' },
  { code: 400, text: 'the form is malformed' },
]

const unforeseen: readonly Refusal[] = [
  { code: 500, text: 'internal error', when: 'nobody foresaw it; the log of the server says more' },
]

/** Of requests that follow a path of the tree. */
export const pathRefusals: readonly Refusal[] = [
  { code: 400, text: 'a path cannot hold a NUL character' },
  { code: 400, text: 'the path is too long' },
  {
    code: 403,
    text: 'using relative path is not allowed',
    when: 'a path or a name holds `..`, or a name more than one segment',
  },
  {
    code: 403,
    text: 'password is incorrect or you have no permission',
    when: 'the folder has a password that was not sent, or a rule hides it',
  },
  { code: 500, text: '…object not found', when: 'there is nothing of this name' },
  { code: 500, text: 'failed get storage: …', when: 'nothing is mounted there' },
  { code: 500, text: '…not a folder', when: 'a folder is needed and there is a file' },
  { code: 500, text: 'not a file', when: 'a file is needed and there is a folder' },
  { code: 500, text: 'not support', when: 'the storage cannot do it' },
  { code: 500, text: '…', when: 'the storage fails; the text is its reason' },
  { code: 504, text: '…', when: 'the storage does not answer in time' },
]

/** Of requests that change the tree, beside those about the path. */
export const changeRefusals: readonly Refusal[] = [
  { code: 400, text: 'a name …', when: 'a new name holds control characters or is no Unicode' },
  { code: 400, text: 'the name is too long' },
  { code: 403, text: 'permission denied', when: 'the user lacks the permission, or a folder rule forbids it' },
  { code: 403, text: '… root folder is not allowed', when: 'it would change a mount point' },
  { code: 423, text: 'locked by …', when: 'a WebDAV lock covers it' },
  { code: 500, text: '… root folder is not allowed', when: 'it would change a mount point' },
  {
    code: 503,
    text: 'somebody else is changing it, try again',
    when: 'another change of the same name takes too long',
  },
  { code: 507, text: '…', when: 'the storage is full' },
]

/** Of requests that may add a task. */
export const taskRefusals: readonly Refusal[] = [
  { code: 429, text: 'too many tasks are waiting', when: 'this user has asked for more than the server keeps' },
]

/** What faulty headers of an upload are told. */
export const nameExists: Refusal = { code: 403, text: 'file […] exists', when: 'the name is taken' }

/** Everything that the endpoint may refuse with, each once, by code. */
export function refusalsOf(endpoint: Description): readonly Refusal[] {
  const isRead = endpoint.fields !== undefined && endpoint.method !== 'get'
  const all = [
    ...(endpoint.fields === undefined ? [] : [faulty(endpoint.faultyFields)]),
    ...(isRead ? faultyBody : []),
    ...(endpoint.query === undefined ? [] : [faulty(endpoint.faultyQuery)]),
    ...accessRefusals(endpoint.access, endpoint.guestRefusal),
    ...(endpoint.refusals ?? []),
    ...unforeseen,
  ]
  const byText = new Map(all.map((refusal) => [`${refusal.code} ${refusal.text}`, refusal]))
  return [...byText.values()].sort((one, other) => one.code - other.code)
}

function faulty(wording: string | undefined): Refusal {
  return wording === undefined ? faultyFields : { code: 400, text: wording }
}

function accessRefusals(access: Access, told = guestRefusal): readonly Refusal[] {
  if (access === 'anybody') return []
  if (access === 'guest') return noAuthority
  return [...noAuthority, access === 'admin' ? adminRefusal : told]
}

/** Whether the message is one of this refusal: `…` stands for anything. */
export function isToldBy(message: string, { text }: Refusal): boolean {
  const [first = '', ...rest] = text.split('…')
  if (rest.length === 0) return message === text
  if (!message.startsWith(first)) return false
  let at = first.length
  for (const [index, part] of rest.entries()) {
    const found = index === rest.length - 1 ? message.length - part.length : message.indexOf(part, at)
    if (found < at || !message.startsWith(part, found)) return false
    at = found + part.length
  }
  return true
}
