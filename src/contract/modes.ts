/**
 * What becomes of permission bits that somebody asks for. Setuid, setgid and sticky bits are never set: the daemon may
 * run as root, and a program that a user uploads must not run as anybody else.
 */
import type { Entry } from './entry.js'
import { GatewayError } from '../base/errors.js'

const permissionBits = 0o777
const specialBits = 0o7000
/** The bits that the owner keeps: without them, the gateway could be locked out of its own storage. */
const ownerBits = { file: 0o600, folder: 0o700, symlink: 0o600 } as const

/** The mode of a file with new content, or of a copy: that of another file, without its special bits. */
export function contentMode(mode: number): number {
  return mode & permissionBits
}

/** The mode with these permissions of an existing entry: a folder keeps its special bits, a file has none. */
export function withPermissions({ kind, mode = 0 }: Pick<Entry, 'kind' | 'mode'>, permissions: number): number {
  return (kind === 'folder' ? mode & specialBits : 0) | (permissions & permissionBits)
}

/** Like `withPermissions`, where the permissions are asked for: the owner keeps rw of a file, and rwx of a folder. */
export function settableMode(existing: Pick<Entry, 'kind' | 'mode'>, asked: number): number {
  return withPermissions(existing, asked) | ownerBits[existing.kind]
}

/** The mode that a new file gets where this one is asked for. */
export function newFileMode(asked: number): number {
  return settableMode({ kind: 'file' }, asked)
}

/** Whether the mode has bits that a file must not keep when its content changes. */
export function hasSpecialBits(mode: number): boolean {
  return (mode & specialBits) !== 0
}

/** The error of a change of content that would leave special bits on the file. `cause`: why they cannot be removed. */
export function specialBitsRemain(cause: unknown): GatewayError {
  return new GatewayError('denied', { reason: 'the file has special mode bits that cannot be removed', cause })
}
