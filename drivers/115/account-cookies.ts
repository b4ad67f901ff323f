/** The cookie of a 115 account, as admins paste it. */
import { GatewayError } from '../../src/base/errors.js'
import { Cookies } from '../lib/cloud/cookies.js'

/** The cookies that are credentials. The server does not need the last one of each account. */
export const credentialNames = ['UID', 'CID', 'SEID', 'KID']
const required = ['UID', 'CID', 'SEID']

/** The cookies of a text, the credentials with their names in upper case. Throws `invalid` if one is missing. */
export function accountCookies(text: string): Cookies {
  const anyCase = new RegExp(`(^|;\\s*)(${credentialNames.join('|')})=`, 'gi')
  const pasted = Cookies.parse(text).header()
  const cookies = Cookies.parse(pasted.replace(anyCase, (found) => found.toUpperCase()))
  const missing = required.filter((name) => (cookies.get(name) ?? '') === '')
  if (missing.length === 0) return cookies
  const reason = `the cookie lacks ${missing.join(', ')}: it must have UID, CID and SEID of a signed-in account`
  throw new GatewayError('invalid', { reason })
}

/** The id of the account, which is the first part of the UID. */
export function userOf(cookies: Cookies): string | undefined {
  return cookies.get('UID')?.split('_')[0]
}
