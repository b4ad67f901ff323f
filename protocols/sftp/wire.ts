/** Constants of SFTP version 3: draft-ietf-secsh-filexfer-02, and OpenSSH's PROTOCOL file for the extensions. */

export const packetType = {
  init: 1,
  version: 2,
  open: 3,
  close: 4,
  read: 5,
  write: 6,
  lstat: 7,
  fstat: 8,
  setstat: 9,
  fsetstat: 10,
  opendir: 11,
  readdir: 12,
  remove: 13,
  mkdir: 14,
  rmdir: 15,
  realpath: 16,
  stat: 17,
  rename: 18,
  readlink: 19,
  symlink: 20,
  status: 101,
  handle: 102,
  data: 103,
  name: 104,
  attrs: 105,
  extended: 200,
  extendedReply: 201,
} as const

/** draft §7. Without NO_CONNECTION and CONNECTION_LOST, which only clients use. */
export const statusCode = {
  ok: 0,
  eof: 1,
  noSuchFile: 2,
  permissionDenied: 3,
  failure: 4,
  badMessage: 5,
  unsupported: 8,
} as const
export type StatusCode = (typeof statusCode)[keyof typeof statusCode]

/** The flags of OPEN (draft §6.3). */
export const openFlag = {
  read: 0x01,
  write: 0x02,
  append: 0x04,
  create: 0x08,
  truncate: 0x10,
  exclusive: 0x20,
} as const

/** The flags of attributes (draft §5). */
export const attributeFlag = {
  size: 0x01,
  owner: 0x02,
  permissions: 0x04,
  times: 0x08,
  extended: 0x80000000,
} as const

export const protocolVersion = 3

/** Names and revisions of the supported extensions, as announced in VERSION. */
export const extensions: readonly (readonly [name: string, revision: string])[] = [
  ['posix-rename@openssh.com', '1'],
  ['statvfs@openssh.com', '2'],
  ['fstatvfs@openssh.com', '2'],
  ['hardlink@openssh.com', '1'],
  ['fsync@openssh.com', '1'],
  ['lsetstat@openssh.com', '1'],
  ['limits@openssh.com', '1'],
  ['expand-path@openssh.com', '1'],
  ['copy-data', '1'],
  ['home-directory', '1'],
  ['users-groups-by-id@openssh.com', '1'],
]

/**
 * Limits in bytes. `limits@openssh.com` reports those of packets and data. OpenSSH's server has the same values for
 * these (its sftp-server.c).
 */
export const limits = {
  /** Maximum length of a packet without its length field. */
  packet: 256 * 1024,
  /** Maximum data length of one READ or WRITE. */
  data: 255 * 1024,
  /** A reply with names is complete once it reaches this length. */
  names: 32 * 1024,
} as const
