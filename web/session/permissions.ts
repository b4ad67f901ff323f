/** The permissions of users, as bits of the field `permission` of the API. */
import type { Me } from './me.ts'

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
} as const

export function may({ permission }: Me, what: keyof typeof permissionBits): boolean {
  return (permission & permissionBits[what]) !== 0
}
