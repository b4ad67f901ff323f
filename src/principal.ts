/** Who asks, and through which door. Made by accounts/ and links.ts alone; judged in policy.ts alone. */
import type { Path } from './path.js'

export type Role = 'general' | 'guest' | 'admin'
export type DoorName = 'http' | 'webdav' | 'sftp'

/** Rights a user can hold; the values are the wire's permission bits. */
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
  /** The folder of the whole tree that this user sees as `/`. */
  readonly base: Path
  readonly door: DoorName
  /** An app password that only reads. */
  readonly readOnly?: boolean
  /** A signed link: this one path of the whole tree may be read, and folder rules were answered by the signature. */
  readonly onlyPath?: Path
  /** Aborts when the account, key, token or app password behind it loses its authority. */
  readonly signal: AbortSignal
}

export function holds(principal: Principal, permission: Permission): boolean {
  return (principal.permissions & permissionBits[permission]) !== 0
}
