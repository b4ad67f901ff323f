/**
 * Whether an account can be used at all: decided here, whatever the credential and the protocol (docs/decisions/0044).
 * It is asked at each request or sign-in, and only after the credential was found to be right, so that the answer tells
 * nothing to others. What may be done by which protocol, and with a path, is decided later (principal.ts and
 * src/tree/policy/).
 */
import type { BlockList } from 'node:net'
import { GatewayError } from '../base/errors.js'
import type { UserRow } from '../database/rows.js'
import { isWithinNetworks, networksOf } from '../net/addresses.js'
import type { Membership } from './principal.js'

/** Why an account cannot be used: each is a detail of errors. */
export type AdmissionRefusal = 'account_disabled' | 'account_expired' | 'network_refused' | 'two_step_set_up_required'

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
