/** The locks of networks and accounts after too many failed sign-ins, on all nodes: admins list and end them. */
import { GatewayError } from '../base/errors.js'
import { networkOf } from '../net/addresses.js'
import type { Identities } from './identities.js'
import type { LockedOut, LockedParty } from './limiter.js'
import type { UserRow, Users } from './users.js'

/** A network, an account or a pair of both whose attempts to sign in are refused. */
export interface LockedSignIn extends Pick<LockedParty, 'kind' | 'failures'> {
  /** The network, as `networkOf` writes it. Undefined: attempts from every network are refused. */
  readonly network: string | undefined
  /** Undefined if all names are refused, and for a name that no account has: it can be a mistyped password. */
  readonly username: string | undefined
  /** When an attempt is accepted again, unless another one fails before. */
  readonly until: Date
}

export class LockedSignIns {
  constructor(
    private readonly lockedOut: LockedOut,
    private readonly users: Pick<Users, 'byName' | 'get'>,
    private readonly identities: Pick<Identities, 'list' | 'of'>,
    private readonly now: () => number,
  ) {}

  async list(): Promise<readonly LockedSignIn[]> {
    const locked = await this.lockedOut.list()
    return locked.map(({ kind, network, account = '', failures, left }) => {
      const username = this.#userOf(kind, account)?.username
      return { kind, network, username, failures, until: new Date(this.now() + left) }
    })
  }

  #userOf(kind: LockedParty['kind'], account: string): UserRow | undefined {
    if (kind === 'codes') return this.users.get(Number(account))
    const identity = kind === 'directory' && this.identities.list('ldap').find(({ subject }) => subject === account)
    return identity ? this.users.get(identity.userId) : this.users.byName(account)
  }

  /** Forgets the failed sign-ins of an address, or of a network as `list` names it. */
  async unlockNetwork(network: string): Promise<void> {
    await this.lockedOut.unlockNetwork(networkOf(network))
  }

  /** Forgets the failed sign-ins and wrong codes of a user. Rejects with `not_found`. */
  async unlockUser(username: string): Promise<void> {
    const user = this.users.byName(username)
    if (user === undefined) throw new GatewayError('not_found', { detail: 'account_missing' })
    const subjects = this.identities.of(user.id).map(({ subject }) => subject)
    await this.lockedOut.unlockAccount({ ...user, subjects })
  }
}
