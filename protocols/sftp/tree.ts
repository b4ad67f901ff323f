/** The part of `VirtualFs` that SFTP uses. */
import type { VirtualFs } from '../../src/tree/virtual-fs.js'

/** The operations of the tree that this protocol uses. */
export type Tree = Pick<
  VirtualFs,
  | 'stat'
  | 'pages'
  | 'open'
  | 'write'
  | 'mkdir'
  | 'move'
  | 'remove'
  | 'setAttributes'
  | 'setOwnAttributes'
  | 'readSymlink'
  | 'symlink'
  | 'hardLink'
  | 'usage'
>
