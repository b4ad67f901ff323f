/** Authentication errors that protocols must distinguish from others with the same code. */
import { GatewayError } from '../contract/errors.js'

/** An unknown name or a wrong password; the two are not distinguished. */
export class WrongCredentials extends GatewayError {
  constructor() {
    super('unauthenticated', { op: 'sign in', reason: 'Invalid username or password' })
  }
}

/**
 * The password is correct, but the account has two-step verification and the one-time code is missing, wrong or already
 * used. `denied` if the protocol cannot prompt for a code.
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

/** The password is correct, but the account is disabled. */
export class AccountDisabled extends GatewayError {
  constructor() {
    super('denied', { op: 'sign in', reason: disabledReason })
  }
}
export const disabledReason = 'Current user is disabled, replace please'

/** Too many attempts; `seconds` until the next one is accepted. */
export function tooManyAttempts(seconds: number): GatewayError {
  return new GatewayError('throttled', {
    op: 'sign in',
    reason:
      'Too many unsuccessful sign-in attempts have been made using an incorrect username or password, Try again later.',
    retryAfter: Math.max(1, Math.ceil(seconds)),
  })
}

/** The token or other credential is not valid. Clients compare the reason. */
export function sessionRevoked(reason: string): GatewayError {
  return new GatewayError('unauthenticated', { reason })
}
