/** The part of `VirtualFs` that this protocol uses. */
import type { VirtualFs } from '../../src/tree/virtual-fs.js'

export type SftpFileSystem = Pick<
  VirtualFs,
  | 'stat'
  | 'pages'
  | 'assertContentGranted'
  | 'open'
  | 'reserve'
  | 'mkdir'
  | 'move'
  | 'remove'
  | 'setAttributes'
  | 'setOwnAttributes'
  | 'readSymlink'
  | 'symlink'
  | 'hardLink'
  | 'usage'
  | 'isSameFile'
>
