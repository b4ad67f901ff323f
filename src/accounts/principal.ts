/**
 * The authenticated user of a request, and its protocol. Made only by accounts/ and signed-urls.ts; checked only in
 * policy.ts.
 */
import type { Path } from '../contract/path.js'
import type { ProtocolName } from './protocols.js'

export type Role = 'general' | 'guest' | 'admin'

/** Permissions of a user; the values are the permission bits of the API. */
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
export const allPermissions = 0xffff

export interface Principal {
  readonly userId: number
  readonly username: string
  readonly role: Role
  /** Sum of `permissionBits`. */
  readonly permissions: number
  /** The folder of the whole tree that the user sees as `/`. */
  readonly base: Path
  readonly protocol: ProtocolName
  /** Authenticated by a read-only app password. */
  readonly readOnly?: boolean
  /**
   * Authenticated by a signed URL: only this path of the whole tree may be read; the signature satisfies folder rules.
   */
  readonly onlyPath?: Path
  /** Aborts when the account, key, token or app password is revoked. */
  readonly signal: AbortSignal
}

export function hasPermission(principal: Principal, permission: Permission): boolean {
  return (principal.permissions & permissionBits[permission]) !== 0
}
