/**
 * Whether an account can be used at all: decided here, whatever the credential and the protocol (docs/decisions/0044).
 * It is asked at each request or sign-in, and only after the credential was found to be right, so that the answer
 * reveals nothing to others. What may be done by which protocol, and with a path, is decided later (principal.ts and
 * src/tree/policy/).
 */
import type { BlockList } from 'node:net'
import { GatewayError } from '../base/errors.js'
import type { UserRow } from '../database/tables/accounts.js'
import { isWithinNetworks, networksOf } from '../net/addresses.js'
import { notAdmitted, refusedSession, sessionRevoked } from './errors.js'
import type { Groups } from './groups.js'
import type { Identities } from './identities.js'
import type { Membership } from './principal.js'
import type { UserChanges, Users } from './users.js'

/** The reasons for which an account cannot be used. Each is a detail of errors. */
export type AdmissionRefusal =
  | 'account_disabled'
  | 'account_expired'
  | 'network_refused'
  | 'two_step_set_up_required'
  | 'provider_required'
  | 'provider_sign_in_due'

export interface AdmissionRequest {
  /** The time in milliseconds since 1970. */
  readonly now: number
  /** The client's, without port. Undefined: unknown, and in no network. */
  readonly address?: string | undefined
  /**
   * `use`: for anything. `set-up`: for what a user needs to set up two-step verification. `later`: for what an earlier
   * request has begun or permitted, such as a task: no client is there whose address could be asked.
   */
  readonly purpose: 'use' | 'set-up' | 'later'
  /**
   * What proves who it is. `own`: a password or a passkey. `device`: an app password or an SSH key, by which a program
   * signs in that cannot ask a provider. `provider`: an identity, which its provider or directory has just confirmed
   * and `Identities` has recorded. Undefined: a session.
   */
  readonly credential?: 'own' | 'device' | 'provider' | undefined
}

/** The request in which a token or a cookie of a session is sent. */
export interface SessionRequest {
  /** The client's address without port. Undefined: unknown, so that an account with allowed networks is refused. */
  readonly address?: string | undefined
  /** The request is one that a user needs to set up two-step verification. */
  readonly setsUpTwoStep?: boolean | undefined
  /** Whether the proof of the user at the sign-in counts as two-step verification. Default: false. */
  readonly hasTwoStep?: boolean | undefined
}

/** Asks whether accounts can be used now. */
export class Admission {
  /** `now`: milliseconds since 1970. */
  constructor(
    private readonly users: Pick<Users, 'get' | 'list'>,
    private readonly groups: Pick<Groups, 'of'>,
    private readonly identities: Pick<Identities, 'isDue' | 'of'>,
    private readonly now: () => number,
  ) {}

  /** Returns the reason for which the account cannot be used for this request now; undefined if it can. */
  refusal(user: UserRow, request: Omit<AdmissionRequest, 'now'>): AdmissionRefusal | undefined {
    const refusal = admissionRefusal(user, this.groups.of(user.id), { ...request, now: this.now() })
    return refusal ?? (request.credential && this.#providerRefusal(user, request.credential))
  }

  /**
   * Returns the reason for which a credential is not enough. The built-in admin is never bound to a provider: it must
   * get in while no provider answers.
   */
  #providerRefusal(
    { id, role }: UserRow,
    credential: NonNullable<AdmissionRequest['credential']>,
  ): AdmissionRefusal | undefined {
    if (role === 'admin') return undefined
    const requiresProvider = credential !== 'provider' && this.groups.of(id).requiresProvider
    if (requiresProvider && (credential === 'own' || this.identities.of(id).length === 0)) return 'provider_required'
    const isDue = this.identities.isDue(id, requiresProvider ? 'all' : 'provisioned')
    return isDue ? 'provider_sign_in_due' : undefined
  }

  /** Returns the reason for which the account cannot be used for a request of its session. */
  sessionRefusal(user: UserRow, { address, setsUpTwoStep, hasTwoStep }: SessionRequest): AdmissionRefusal | undefined {
    return this.refusal(user, { address, purpose: setsUpTwoStep || hasTwoStep ? 'set-up' : 'use' })
  }

  /** Throws `denied` if the account, whose credential is correct, cannot be used. */
  assertMayEnter(user: UserRow, request: Omit<AdmissionRequest, 'now'>): void {
    const refusal = this.refusal(user, request)
    if (refusal !== undefined) throw notAdmitted(refusal)
  }

  /**
   * The account of a sign-in at which it had this `passwordTime`, and name. Throws `unauthenticated`, or `denied` with
   * the detail `two_step_set_up_required`, if it has changed or cannot be used for this request.
   */
  ofSession(request: SessionRequest, id: number, passwordTime: number, username?: string): UserRow {
    const user = this.users.get(id)
    if (user === undefined || (username !== undefined && user.username !== username)) {
      throw sessionRevoked({ detail: 'account_missing' })
    }
    const refusal = this.sessionRefusal(user, request)
    // Disabling an account changes the time too.
    if (refusal !== 'account_disabled' && user.passwordTime !== passwordTime) {
      throw sessionRevoked({ detail: 'password_changed' })
    }
    if (refusal !== undefined) throw refusedSession(refusal)
    return user
  }

  /**
   * The account, for what an earlier request has begun or permitted. Throws `unauthenticated` if it is deleted or
   * disabled, or has expired.
   */
  later(userId: number): UserRow {
    const user = this.users.get(userId)
    if (user === undefined) throw sessionRevoked({ detail: 'account_missing' })
    const refusal = this.refusal(user, { purpose: 'later' })
    if (refusal !== undefined) throw refusedSession(refusal)
    return user
  }

  /** Throws if the account has changed since the row was read: rows are immutable, so it is another object then. */
  assertUnchanged(user: UserRow): void {
    if (this.users.get(user.id) === user) return
    throw sessionRevoked({ reason: 'the account has just changed, sign in again' })
  }

  /**
   * Throws `invalid` if a user who makes this change of its own account, from this address, could not undo it: it would
   * lock itself out.
   */
  assertStaysIn(userId: number, changes: Pick<UserChanges, 'allowFrom' | 'expires'>, address: string): void {
    const user = this.users.get(userId)
    if (user === undefined) return
    const allowFrom = checkNetworks(changes.allowFrom ?? user.allowFrom)
    const expires = changes.expires === undefined ? user.expires : (changes.expires ?? undefined)
    const refusal = this.refusal({ ...user, allowFrom, expires }, { address, purpose: 'set-up' })
    const why = {
      network_refused: 'this would lock you out: the address of this request is not in these networks',
      account_expired: 'this would lock you out: the end is in the past',
    }
    if (refusal === 'network_refused' || refusal === 'account_expired') {
      throw new GatewayError('invalid', { reason: why[refusal] })
    }
  }

  /** Whether the user is an admin, and no admin, by role or group, can be used from everywhere and without an end. */
  isLastAdminBound(changed: UserRow): boolean {
    const isAdmin = ({ id, role }: UserRow) => role === 'admin' || this.groups.of(id).isAdmin
    const isUnbound = ({ disabled, expires, allowFrom }: UserRow) =>
      !disabled && expires === undefined && allowFrom.length === 0
    return isAdmin(changed) && !this.users.list().some((user) => isAdmin(user) && isUnbound(user))
  }
}

/** The first reason for which the account cannot be used; undefined if it can. */
export function admissionRefusal(
  account: Pick<UserRow, 'disabled' | 'expires' | 'allowFrom' | 'otpSecret' | 'role'>,
  membership: Pick<Membership, 'requiresTwoStep'>,
  { now, address, purpose }: AdmissionRequest,
): AdmissionRefusal | undefined {
  if (account.disabled) return 'account_disabled'
  if (account.expires !== undefined && account.expires.getTime() <= now) return 'account_expired'
  if (purpose === 'later') return undefined
  if (!isAllowedFrom(account.allowFrom, address)) return 'network_refused'
  return purpose === 'use' && lacksTwoStep(account, membership) ? 'two_step_set_up_required' : undefined
}

/** Whether the user must set up two-step verification first. The guest cannot. */
export function lacksTwoStep(
  { otpSecret, role }: Pick<UserRow, 'otpSecret' | 'role'>,
  { requiresTwoStep }: Pick<Membership, 'requiresTwoStep'>,
): boolean {
  return requiresTwoStep && otpSecret === '' && role !== 'guest'
}

/** The networks of each list. A list does not change: a changed account has another one. */
const compiled = new WeakMap<readonly string[], BlockList>()

function isAllowedFrom(networks: readonly string[], address: string | undefined): boolean {
  if (networks.length === 0) return true
  if (address === undefined) return false
  let list = compiled.get(networks)
  if (list === undefined) {
    list = networksOf(networks)
    compiled.set(networks, list)
  }
  return isWithinNetworks(list, address)
}

/** Each is stored with its account, which every process has in memory. */
const maxNetworks = 100

/**
 * The networks as they are stored, each once. Throws `invalid` with the first that is neither an address nor a network
 * in CIDR notation, and for too many.
 */
export function checkNetworks(networks: readonly string[]): readonly string[] {
  if (networks.length > maxNetworks) {
    throw new GatewayError('invalid', { reason: `an account can be allowed from at most ${maxNetworks} networks` })
  }
  const trimmed = [...new Set(networks.map((network) => network.trim().toLowerCase()))]
  networksOf(trimmed)
  return trimmed
}
