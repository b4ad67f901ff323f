/** Makes the principals of accounts. */
import { GatewayError } from '../base/errors.js'
import { root, spelledAsIn, under, within, type Path } from '../base/path.js'
import type { UserRow } from '../database/tables/accounts.js'
import { networkOf } from '../net/addresses.js'
import type { Admission } from './admission.js'
import { refusedSession, sessionRevoked, type Revocation } from './errors.js'
import type { Groups } from './groups.js'
import { Principal, type PrincipalFacts, type ProtocolFacts, type ShareScope } from './principal.js'
import type { Credential, Lifetime, Sessions } from './sessions.js'
import type { Users } from './users.js'

/** The facts of a principal that depend on its credential. `signal` replaces the signal of the account's sessions. */
type CredentialFacts = Pick<
  PrincipalFacts,
  'protocol' | 'folder' | 'readOnly' | 'share' | 'holder' | 'address' | 'signedIn' | 'hasTwoStep'
> &
  Partial<Pick<PrincipalFacts, 'signal'>>

export class Principals {
  /** `assertCurrent`: throws `unavailable` while what this process mirrors may be outdated. */
  constructor(
    private readonly users: Pick<Users, 'byName' | 'byUniqueRole'>,
    private readonly groups: Pick<Groups, 'of'>,
    private readonly admission: Admission,
    private readonly sessions: Sessions,
    private readonly assertCurrent: () => void,
  ) {}

  /** The principal of an account by a credential that it has proved, and which is valid for `lifetime`. */
  of(
    user: UserRow,
    credential: Credential,
    { folder = root, ...by }: CredentialFacts,
    lifetime: Omit<Lifetime, 'accountEnds'> = {},
  ): Principal {
    this.assertCurrent()
    return new Principal({
      userId: user.id,
      username: user.username,
      role: user.role,
      permissions: user.permission,
      groups: this.groups,
      grantedOnly: user.grantedOnly,
      base: under(user.basePath, folder),
      folder,
      credential,
      ...by,
      signal: by.signal ?? this.sessions.signal(user.id, credential, { ...lifetime, accountEnds: user.expires }),
    })
  }

  /**
   * The guest's principal. Throws `unauthenticated`, as for a disabled guest, if the account cannot be used. `address`:
   * that of the client.
   */
  guest(protocol: ProtocolFacts, address: string): Principal {
    const guest = this.users.byUniqueRole('guest')
    if (guest === undefined || this.admission.refusal(guest, { address, purpose: 'use' }) !== undefined) {
      throw sessionRevoked({ detail: 'guest_disabled' })
    }
    return this.of(guest, 'guest', { protocol, holder: networkOf(address), address })
  }

  /** Whether this is the name of the guest, which is enabled and has not expired. */
  isGuestName(username: string): boolean {
    const user = this.users.byName(username)
    if (user === undefined || user !== this.users.byUniqueRole('guest')) return false
    return this.admission.refusal(user, { purpose: 'later' }) === undefined
  }

  /**
   * The principal for a task, which may outlive the credential that started it: the account with its current
   * permissions. Throws `unauthenticated` if the account is deleted or disabled, or has expired. Networks and two-step
   * verification were asked at the request that started the task.
   */
  forTask(userId: number): Principal {
    return this.of(this.admission.later(userId), 'task', { protocol: { name: 'task', appPasswords: false } })
  }

  /**
   * The principal for a URL that was signed for this user: its account with its current permissions, to read only.
   * Throws as `forTask`. `address`: that of the client.
   */
  forSignature(userId: number, protocol: ProtocolFacts, address: string): Principal {
    const by = { protocol, readOnly: true, holder: networkOf(address), address }
    return this.of(this.admission.later(userId), 'task', by)
  }

  /**
   * The principal of a user whose credential is right, to explain decisions: nothing is done by it. It is revoked, with
   * the reason, where the account would be refused. `address`: that of a client; undefined for any. Throws `not_found`.
   */
  forExplanation(username: string, protocol: ProtocolFacts, address?: string): Principal {
    const user = this.users.byName(username)
    if (user === undefined) throw new GatewayError('not_found', { detail: 'account_missing' })
    const account = address === undefined ? { ...user, allowFrom: [] } : user
    const refusal = this.admission.refusal(account, { address, purpose: 'use' })
    const signal = refusal === undefined ? new AbortController().signal : AbortSignal.abort(refusedSession(refusal))
    return this.of(user, 'task', { protocol, signal })
  }

  /**
   * The principal of a visitor of a share: its creator's account with its current permissions, narrowed to the share.
   * `folds`: the storage of `path`, a file or folder of the share, ignores the case of names. `end`: of the share.
   * `address`: that of the visitor; undefined for a question about the share itself. Throws as `forTask`, and
   * `denied` if the path is outside the base folder of the creator.
   */
  forShare(
    creatorId: number,
    share: ShareScope,
    { path, folds, end }: { readonly path: Path; readonly folds: boolean; readonly end?: Date | undefined },
    protocol: ProtocolFacts,
    address?: string,
  ): Principal {
    const creator = this.admission.later(creatorId)
    const base = folds ? spelledAsIn(creator.basePath, path) : creator.basePath
    const folder = base && within(base, path)
    if (folder === undefined) throw new GatewayError('denied', { detail: 'share_refused', subject: path })
    const network = address === undefined ? undefined : networkOf(address)
    const by = { protocol, folder, share, address, ...(network !== undefined && { holder: network }) }
    return this.of(creator, `share:${share.id}`, by, { credentialEnds: end })
  }

  /** Ends the requests of visitors of a share. */
  endShare(creatorId: number, id: string, why: Revocation): void {
    this.sessions.end(creatorId, why, (credential) => credential === `share:${id}`)
  }
}
