/**
 * The names of operations on the tree and on a backend, in errors and in the log. The call of a driver has the name of
 * the operation that makes it, so that one word finds both.
 */
import type { Driver } from '../contract/driver.js'

export type OperationName =
  | 'stat'
  | 'list'
  | 'search'
  | 'read'
  | 'open'
  | 'close'
  | 'write'
  | 'check'
  | 'make folder'
  | 'remove'
  | 'rename'
  | 'move'
  | 'copy'
  | 'set attributes'
  | 'read symlink'
  | 'make symlink'
  | 'make hard link'
  | 'direct URL'
  | 'make thumbnail'
  | 'usage'
  | 'lock'
  | 'refresh lock'
  | 'unlock'
  | 'list locks'
  | 'read properties'
  | 'set properties'
  | BackendOperationName

/** Operations that no request names: `Storage` makes them on the way of others. */
type BackendOperationName =
  | 'resolve symlinks'
  | 'identify'
  | 'read revision'
  | 'drop upload'
  | 'add download'
  | 'find download'
  | 'remove download'
  | 'remove orphans'

export const driverOperations: Readonly<Record<Exclude<keyof Driver, 'traits'>, OperationName>> = {
  stat: 'stat',
  pages: 'list',
  read: 'read',
  write: 'write',
  mkdir: 'make folder',
  remove: 'remove',
  move: 'move',
  copy: 'copy',
  removeTree: 'remove',
  open: 'open',
  setAttributes: 'set attributes',
  revision: 'read revision',
  directUrl: 'direct URL',
  thumbnail: 'make thumbnail',
  usage: 'usage',
  close: 'close',
  setSymlinkTime: 'set attributes',
  readSymlink: 'read symlink',
  realPath: 'resolve symlinks',
  symlink: 'make symlink',
  hardLink: 'make hard link',
  identities: 'identify',
  upload: 'write',
  dropUpload: 'drop upload',
  addDownload: 'add download',
  findDownload: 'find download',
  removeDownload: 'remove download',
  look: 'resolve symlinks',
  copyFiles: 'copy',
  removeOrphans: 'remove orphans',
}
