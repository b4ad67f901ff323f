/** Refusals of the accounts that a door must tell apart from others of the same code. */
import { GatewayError } from '../errors.js'

/** An unknown name, or a wrong password: nobody learns which. */
export class WrongCredentials extends GatewayError {
  constructor() {
    super('unauthenticated', { op: 'sign in', reason: 'Invalid username or password' })
  }
}

/**
 * The password was right, and the account has two-step verification: the one-time code is missing, wrong or used. `denied`
 * where a password alone was presented at a door that cannot ask for a code.
 */
export class CodeRequired extends GatewayError {
  constructor(code: 'unauthenticated' | 'denied' = 'unauthenticated') {
    const reason =
      code === 'denied'
        ? 'this account has two-step verification: its password alone is not enough'
        : 'Invalid 2FA code'
    super(code, { op: 'sign in', reason })
  }
}

/** The password was right, and the account is disabled. */
export class AccountDisabled extends GatewayError {
  constructor() {
    super('denied', { op: 'sign in', reason: disabledReason })
  }
}
export const disabledReason = 'Current user is disabled, replace please'

/** Too many tries from one address; `seconds` until another one is looked at. */
export function tooManyTries(seconds: number): GatewayError {
  return new GatewayError('throttled', {
    op: 'sign in',
    reason:
      'Too many unsuccessful sign-in attempts have been made using an incorrect username or password, Try again later.',
    retryAfter: Math.max(1, Math.ceil(seconds)),
  })
}

/** A token, or whatever else was presented, gives no authority: the wire's words. */
export function noAuthority(reason: string): GatewayError {
  return new GatewayError('unauthenticated', { reason })
}
