import type { VirtualFs } from '../../src/virtual-fs.js'

/** What this door asks of the tree. */
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
  | 'readLink'
  | 'symlink'
  | 'hardLink'
  | 'usage'
>
