/**
 * The authenticated user of a request, and its protocol. Made only here, by `Principals` and by `SignedUrls`. What it
 * may do with a path is decided only in `src/tree/policy/`.
 */
import { GatewayError } from '../base/errors.js'
import type { Holder } from '../base/fair-share.js'
import type { Actor } from '../database/audit-rows.js'
import type { Role } from '../database/tables/accounts.js'
import { networkOf } from '../net/addresses.js'
import { isWithin, root, segmentsOf, spelledAsIn, truncateTo, type Path } from '../base/path.js'
import type { ShareMode } from '../base/rights.js'
import type { Groups } from './groups.js'

/**
 * Permissions of a user; the values are the permission bits of the API. Bits 12 and 13 have no effect: they are those
 * of functions that Tidegate does not have.
 */
export const permissionBits = {
  seeHidden: 1 << 0,
  skipPasswords: 1 << 1,
  offlineDownload: 1 << 2,
  write: 1 << 3,
  rename: 1 << 4,
  move: 1 << 5,
  copy: 1 << 6,
  remove: 1 << 7,
  webdavRead: 1 << 8,
  webdavManage: 1 << 9,
  sftpRead: 1 << 10,
  sftpManage: 1 << 11,
  readArchives: 1 << 12,
  decompress: 1 << 13,
  share: 1 << 14,
  customShareId: 1 << 15,
} as const
export type Permission = keyof typeof permissionBits
/** The name of a permission in texts and on the command line, such as `webdav-read`. */
export function permissionName(permission: Permission): string {
  return permission.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}

export const allPermissions = Object.values(permissionBits).reduce((sum, bit) => sum | bit, 0)

/** Throws `invalid` unless it is a sum of `permissionBits`. */
export function checkPermission(permission: number): number {
  if (!Number.isInteger(permission) || permission < 0 || permission > allPermissions) {
    throw new GatewayError('invalid', { reason: `a permission is a number from 0 to ${allPermissions}` })
  }
  return permission
}

/** The permissions and duties that the groups of a user give it. */
export interface Membership {
  /** The ids of the groups. */
  readonly groups: readonly number[]
  /** Sum of the `permissionBits` of all of them. */
  readonly permissions: number
  /** Whether one of the groups makes its members admins. */
  readonly isAdmin: boolean
  /** Whether one of the groups requires two-step verification. */
  readonly requiresTwoStep: boolean
  /** Whether one of the groups requires that its members sign in at a provider or directory. */
  readonly requiresProvider: boolean
}

export const noMembership: Membership = {
  groups: [],
  permissions: 0,
  isAdmin: false,
  requiresTwoStep: false,
  requiresProvider: false,
}

/** The facts of a protocol by which its users are authenticated and authorized. */
export interface ProtocolFacts {
  /** Unique; stored with app passwords, and a label of metrics. */
  readonly name: string
  /**
   * The permissions that users need to read and to change anything by the protocol. Undefined: every user may use it.
   */
  readonly permissions?: { readonly read: Permission; readonly manage: Permission }
  /** Whether users can sign in by it with an app password. */
  readonly appPasswords: boolean
  /** Clients send their credentials with each request, so that most are no new sign-in. */
  readonly repeatsCredentials?: boolean
}

/** The share that a principal is limited to. */
export interface ShareScope {
  readonly id: string
  /** The name of the share in the audit. */
  readonly pseudonym: string
  readonly mode: ShareMode
}

/**
 * The permissions that visitors of a share have if its creator has them. What each mode permits is decided in
 * `src/tree/policy/`.
 */
const sharedPermissions: Readonly<Record<ShareMode, number>> = {
  read: permissionBits.share,
  upload: permissionBits.share | permissionBits.write,
  both: permissionBits.share | permissionBits.write | permissionBits.copy,
}

export interface PrincipalFacts {
  readonly userId: number
  readonly username: string
  /** The user's own, as its permissions. */
  readonly role: Role
  /** Sum of `permissionBits`. */
  readonly permissions: number
  /**
   * The groups, which are asked for those of the user at each use, so that a change of members ends no session. Absent:
   * it has none.
   */
  readonly groups?: Pick<Groups, 'of'> | undefined
  /** Whether the user sees only what a grant allows. */
  readonly grantedOnly?: boolean | undefined
  /** The folder of the whole tree that the user sees as `/`. */
  readonly base: Path
  /** The end of `base` that the user has chosen: the credential opens only this folder below that of the account. */
  readonly folder?: Path | undefined
  readonly protocol: ProtocolFacts
  /** Authenticated by a read-only app password. */
  readonly readOnly?: boolean | undefined
  /**
   * Authenticated by a signed URL: only this path of the whole tree may be read; the signature satisfies folder rules.
   */
  readonly onlyPath?: Path | undefined
  /**
   * A visitor of a share, with the account of its creator: `folder` is one of the files and folders of the share. Its
   * rights are those of the creator, narrowed to the share, and its role is general.
   */
  readonly share?: ShareScope | undefined
  /**
   * The holder of everything that the principal takes of a limited total: for a client that has not signed in, its
   * network. Default: the user.
   */
  readonly holder?: Holder
  /** The address of the client, without port. Undefined for tasks. */
  readonly address?: string | undefined
  /** The id of the credential that has authenticated the principal. Never a secret. */
  readonly credential?: string | undefined
  /**
   * When the user last proved who it is by all that a sign-in requires, in milliseconds since 1970; `Infinity` for the
   * permanent token. Called for each decision, because a console session can be confirmed again. Absent for every
   * credential that is not a session.
   */
  readonly signedIn?: (() => number | undefined) | undefined
  /** Whether what proved the user at the sign-in of its session counts as two-step verification. */
  readonly hasTwoStep?: boolean | undefined
  /** Aborts when the account, key, token, console session or app password is revoked or ends. */
  readonly signal: AbortSignal
}

/** A copy with other properties is not a `Principal`, because the class has private members. */
export class Principal implements Omit<PrincipalFacts, 'permissions' | 'groups'> {
  readonly userId: number
  readonly username: string
  private readonly ownRole: Role
  private readonly permissions: number
  private readonly groups: Pick<Groups, 'of'> | undefined
  readonly grantedOnly: boolean
  readonly base: Path
  readonly folder: Path
  readonly protocol: ProtocolFacts
  readonly readOnly: boolean
  readonly onlyPath: Path | undefined
  readonly share: ShareScope | undefined
  /** The holder of everything that the principal takes of a limited total. */
  readonly holder: NonNullable<Holder>
  readonly address: string | undefined
  readonly credential: string | undefined
  readonly signedIn: PrincipalFacts['signedIn']
  readonly hasTwoStep: boolean
  readonly signal: AbortSignal

  constructor(facts: PrincipalFacts) {
    this.userId = facts.userId
    this.username = facts.username
    this.ownRole = facts.role
    this.permissions = facts.permissions
    this.groups = facts.groups
    this.grantedOnly = facts.grantedOnly ?? false
    this.base = facts.base
    this.folder = facts.folder ?? root
    this.protocol = facts.protocol
    this.readOnly = facts.readOnly ?? false
    this.onlyPath = facts.onlyPath
    this.share = facts.share
    this.holder = facts.holder ?? facts.userId
    this.address = facts.address
    this.credential = facts.credential
    this.signedIn = facts.signedIn
    this.hasTwoStep = facts.hasTwoStep ?? false
    this.signal = facts.signal
  }

  /** The role that decides what the principal may do: `accountRole`, but 'general' for a visitor of a share. */
  get role(): Role {
    return this.share === undefined ? this.accountRole : 'general'
  }

  /**
   * The role of the user, or 'admin' if one of its groups makes it an admin. No group makes the guest an admin. For a
   * visitor of a share: the role of the share's creator.
   */
  get accountRole(): Role {
    return this.membership.isAdmin && this.ownRole !== 'guest' ? 'admin' : this.ownRole
  }

  /** The groups of the user and the rights that they give it, at the time of the call. */
  get membership(): Membership {
    return this.groups?.of(this.userId) ?? noMembership
  }

  /** Whether the user or one of its groups has the permission. */
  hasPermission(permission: Permission): boolean {
    const permissions = this.permissions | this.membership.permissions
    return (permissions & this.#permitted & permissionBits[permission]) !== 0
  }

  /** The permissions that it can have at all. */
  get #permitted(): number {
    return this.share === undefined ? allPermissions : sharedPermissions[this.share.mode]
  }

  /** Whether the user may share what it sees, where no grant says otherwise. */
  get mayShare(): boolean {
    return this.hasPermission('share')
  }

  /** Whether it administers the shares of all users, whose ids it knows. */
  get administersShares(): boolean {
    return this.role === 'admin'
  }

  /** Whether the user may choose the ids of its shares. */
  get mayNameShares(): boolean {
    return this.hasPermission('customShareId')
  }

  /** Whether it may see the addresses of others, what they read, and which share a visitor has opened. */
  get seesActivity(): boolean {
    return this.role === 'admin'
  }

  /** Whether the user may use the protocol of the request at all. */
  get mayUseProtocol(): boolean {
    const { permissions } = this.protocol
    // The creator of a share decides which protocols open it.
    return this.share !== undefined || permissions === undefined || this.hasPermission(permissions.read)
  }

  /** The base folder of the account, which an admin has chosen: at or above `base`. */
  get accountBase(): Path {
    if (this.folder === root) return this.base
    return truncateTo(this.base, segmentsOf(this.base).length - segmentsOf(this.folder).length)
  }

  /** This principal with the address of its client. */
  from(address: string): Principal {
    return this.#with({ address })
  }

  /** The network of the client, by which wrong folder passwords are counted. */
  get network(): string | undefined {
    return this.address === undefined ? undefined : networkOf(this.address)
  }

  /** The actor in the audit. A visitor of a share has the pseudonym of the share, because the id opens it. */
  get actor(): Actor {
    const { share, userId, username, protocol, address, credential } = this
    return {
      userId: share === undefined && userId > 0 ? userId : undefined,
      name: share === undefined ? username || 'guest' : `share:${share.pseudonym}`,
      protocol: protocol.name,
      address,
      credential: share === undefined ? credential : undefined,
    }
  }

  /**
   * This admin with the whole tree as its base. Throws `denied` for any other role, and for a credential that opens one
   * folder only.
   */
  withWholeTree(): Principal {
    if (this.role !== 'admin' || this.folder !== root) throw new GatewayError('denied', { detail: 'admins_only' })
    return this.#with({ base: root })
  }

  /**
   * This principal with the write permission, which the permission for offline downloads includes. Throws `denied`
   * without that permission.
   */
  withDownloadPermissions(): Principal {
    if (!this.hasPermission('offlineDownload')) throw new GatewayError('denied')
    return this.#with({ permissions: this.permissions | permissionBits.write })
  }

  /**
   * This principal with its paths in the spelling of a backend. `spelled`: another spelling of `path`, a path of the
   * whole tree at or below the base.
   */
  respelled(path: Path, spelled: Path): Principal {
    if (path === spelled) return this
    return this.#with({ base: this.baseIn(spelled), onlyPath: this.onlyPath === path ? spelled : this.onlyPath })
  }

  /** The base in the spelling of `at`, a path of the whole tree, if that is the base or below it in some spelling. */
  baseIn(at: Path): Path {
    if (isWithin(this.base, at)) return this.base
    return spelledAsIn(this.base, at) ?? this.base
  }

  /** One is made for each request: a literal without spreads, which V8 makes without a call of the runtime. */
  #with(changes: Pick<Partial<PrincipalFacts>, 'permissions' | 'base' | 'onlyPath' | 'address'>): Principal {
    return new Principal({
      userId: this.userId,
      username: this.username,
      role: this.ownRole,
      permissions: changes.permissions ?? this.permissions,
      groups: this.groups,
      grantedOnly: this.grantedOnly,
      base: changes.base ?? this.base,
      folder: this.folder,
      protocol: this.protocol,
      readOnly: this.readOnly,
      onlyPath: changes.onlyPath ?? this.onlyPath,
      share: this.share,
      holder: this.holder,
      address: changes.address ?? this.address,
      credential: this.credential,
      signedIn: this.signedIn,
      hasTwoStep: this.hasTwoStep,
      signal: this.signal,
    })
  }
}
