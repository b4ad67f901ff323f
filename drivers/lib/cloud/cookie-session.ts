/** The session of a cookie that an admin has copied from a browser. Answers of the server may replace parts of it. */
import type { DriverState } from '../../../src/contract/driver-env.js'
import { GatewayError } from '../../../src/base/errors.js'
import type { ApiCredentials } from '../json-api/api-client.js'
import { Cookies } from './cookies.js'
import { Renewal } from '../json-api/renewal.js'

interface CookieSessionOptions {
  readonly state: DriverState
  /** The cookie as the admin has typed it. */
  readonly typed: string
  /** Names of the cookies that answers may replace. Others in answers are ignored. */
  readonly replaceable: readonly string[]
  /** Whether the cookies after an answer may take the place of those before. Absent: always. */
  readonly accepts?: (before: Cookies, after: Cookies) => boolean
  /** Reason of the error when the server does not accept the cookie any more. */
  readonly refusal: string
}

/**
 * The credentials for an `ApiClient`. A cookie that the server has replaced is stored before it is used, and counts
 * until the admin types another one. Rejects with `invalid` if the typed text has no cookie.
 */
export async function openCookieSession(options: CookieSessionOptions): Promise<Required<ApiCredentials<string>>> {
  const { state, typed, replaceable, accepts = () => true, refusal } = options
  const initial = Cookies.parse(typed).header()
  if (initial === '') throw new GatewayError('invalid', { reason: 'the cookie has no part like name=value' })
  const renewal = await Renewal.open<string>({
    state,
    key: 'cookie',
    typed: initial,
    first: initial,
    // Only the admin can get another one.
    request: () => Promise.reject(new GatewayError('denied', { detail: 'storage_refused', reason: refusal })),
  })
  const replaced = (current: string, setCookie: readonly string[]) => {
    const before = Cookies.parse(current)
    const after = before.after(setCookie, replaceable)
    return after && accepts(before, after) ? after.header() : undefined
  }
  return {
    renewal,
    headers: (cookie) => ({ cookie }),
    // One that cannot be stored is not used: the server still accepts the old one, and sends the new one again.
    received: ({ 'set-cookie': setCookie }) =>
      setCookie === undefined
        ? Promise.resolve()
        : renewal.takeOver((current = initial) => replaced(current, setCookie)).catch(() => undefined),
  }
}
