/** Authentication errors that are thrown in several places. */
import { GatewayError, type GatewayErrorOptions } from '../base/errors.js'
import type { AdmissionRefusal } from './admission.js'

/**
 * The password is correct, but the account has two-step verification and the one-time code is missing, wrong or already
 * used. `denied` if the protocol cannot prompt for a code.
 */
export function codeRequired(code: 'unauthenticated' | 'denied' = 'unauthenticated'): GatewayError {
  const reason =
    code === 'denied' ? 'this account has two-step verification: its password alone is not enough' : undefined
  return new GatewayError(code, { op: 'sign in', detail: 'code_required', reason })
}

/** The credential is correct, but the account cannot be used. */
export function notAdmitted(detail: AdmissionRefusal): GatewayError {
  return new GatewayError('denied', { op: 'sign in', detail })
}

/** Whoever has proved the identity may not sign in here. `reason`: for the user. */
export function identityRefused(reason: string): GatewayError {
  return new GatewayError('denied', { op: 'sign in', detail: 'identity_refused', reason })
}

/**
 * The error for the end of a sign-in at a provider that this browser did not begin, that has taken too long, or that
 * was completed or ended before.
 */
export function providerSignInExpired(): GatewayError {
  return new GatewayError('denied', { op: 'sign in', detail: 'provider_sign_in_expired' })
}

/** Too many attempts; `seconds` until the next one is accepted. */
export function tooManyAttempts(seconds: number): GatewayError {
  const retryAfter = Math.max(1, Math.ceil(seconds))
  return new GatewayError('throttled', { op: 'sign in', detail: 'sign_in_throttled', retryAfter })
}

/** The reason for which a token or another credential is not valid. */
export type Revocation = Pick<GatewayErrorOptions, 'detail' | 'reason'>

export function sessionRevoked(why: Revocation): GatewayError {
  return new GatewayError('unauthenticated', why)
}

/**
 * Clients drop their session on `unauthenticated`. A session whose user has to set up two-step verification gets
 * another error, because that is done with this session.
 */
export function refusedSession(detail: AdmissionRefusal): GatewayError {
  return detail === 'two_step_set_up_required' ? notAdmitted(detail) : sessionRevoked({ detail })
}

export const keyDeleted = { reason: 'the key has been deleted' }
export const appPasswordDeleted = { reason: 'the app password has been deleted' }
