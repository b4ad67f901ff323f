/**
 * File attributes of SFTP: decodes requested ones (draft §5), and encodes those of an Entry and its long name (draft
 * §7).
 */
import type { Attributes } from '../../src/contract/capabilities.js'
import type { Entry } from '../../src/contract/entry.js'
import { FieldReader, PacketBuilder } from './packets.js'
import { attributeFlag } from './wire.js'

/**
 * Attributes that a client requests to set. Owner, access time and extended attributes are ignored: no backend stores
 * them (docs/decisions/0029-sftp-ignores.md).
 */
export interface RequestedAttributes {
  readonly size?: number
  /** Permission bits without the file type. The core decides which of them are stored (`src/contract/modes.ts`). */
  readonly mode?: number
  readonly modified?: Date
}

export function readAttributes(fields: FieldReader): RequestedAttributes {
  const flags = fields.uint32()
  const requested: { size?: number; mode?: number; modified?: Date } = {}
  if (flags & attributeFlag.size) requested.size = fields.uint64()
  if (flags & attributeFlag.owner) {
    fields.uint32()
    fields.uint32()
  }
  if (flags & attributeFlag.permissions) requested.mode = fields.uint32() & 0o7777
  if (flags & attributeFlag.times) {
    fields.uint32()
    requested.modified = new Date(fields.uint32() * 1000)
  }
  if ((flags & attributeFlag.extended) !== 0) {
    for (let count = fields.uint32(); count > 0; count--) {
      fields.string()
      fields.string()
    }
  }
  return requested
}

/** The part that the tree can be requested to keep; undefined where there is none. */
export function storableAttributes({ mode, modified }: RequestedAttributes): Attributes | undefined {
  return mode === undefined && modified === undefined ? undefined : { mode, modified }
}

const fileType = { file: 0o100000, folder: 0o040000, symlink: 0o120000 } as const
const defaultMode = { file: 0o644, folder: 0o755, symlink: 0o777 } as const

/** Type and permission bits, as in `st_mode`. */
export function modeOf(entry: Entry): number {
  return fileType[entry.kind] | ((entry.mode ?? defaultMode[entry.kind]) & 0o7777)
}

/** A symlink as itself, for LSTAT and READDIR. Other entries are returned unchanged. */
export function asSymlink(entry: Entry): Entry {
  return entry.isSymlink === true && entry.kind !== 'symlink'
    ? { ...entry, kind: 'symlink', mode: defaultMode.symlink }
    : entry
}

/** Seconds since the epoch, clamped to an unsigned 32-bit integer. */
function clampedSeconds(date: Date): number {
  return Math.min(Math.max(Math.floor(date.getTime() / 1000), 0), 0xffffffff)
}

/** Appends the attributes of `entry`. `owner` is sent as both user ID and group ID. */
export function writeAttributes(packet: PacketBuilder, entry: Entry, owner: number): PacketBuilder {
  const { size, owner: ids, permissions, times } = attributeFlag
  const seconds = clampedSeconds(entry.modified)
  return packet
    .uint32(size | ids | permissions | times)
    .uint64(entry.size)
    .uint32(owner)
    .uint32(owner)
    .uint32(modeOf(entry))
    .uint32(seconds)
    .uint32(seconds)
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'] as const
const typeLetter = { file: '-', folder: 'd', symlink: 'l' } as const
const halfYear = (365 / 2) * 24 * 3600 * 1000

/**
 * The long name of READDIR: the line that `ls -l` would print. Times are in the server's time zone. As in `ls`, a time
 * in the future or older than half a year shows the year.
 */
export function longName(entry: Entry, name: string, owner: string, now: Date): string {
  const hardLinks = entry.kind === 'folder' ? 2 : 1
  const user = owner.padEnd(8)
  const start = `${typeLetter[entry.kind]}${permissionLetters(modeOf(entry))} ${String(hardLinks).padStart(4)}`
  return `${start} ${user} ${user} ${String(entry.size).padStart(12)} ${formatTime(entry.modified, now)} ${name}`
}

/** `rwxr-xr-x`, with set-user-ID, set-group-ID and sticky bits as `ls` shows them. */
export function permissionLetters(mode: number): string {
  const triple = (bits: number, special: boolean, letter: string): string => {
    const execute = (bits & 1) !== 0
    const last = special ? (execute ? letter : letter.toUpperCase()) : execute ? 'x' : '-'
    return `${bits & 4 ? 'r' : '-'}${bits & 2 ? 'w' : '-'}${last}`
  }
  return (
    triple((mode >> 6) & 7, (mode & 0o4000) !== 0, 's') +
    triple((mode >> 3) & 7, (mode & 0o2000) !== 0, 's') +
    triple(mode & 7, (mode & 0o1000) !== 0, 't')
  )
}

function formatTime(date: Date, now: Date): string {
  const month = months[date.getMonth()] ?? ''
  const day = String(date.getDate()).padStart(2)
  const age = now.getTime() - date.getTime()
  const recent = age >= 0 && age < halfYear
  const time = `${String(date.getHours()).padStart(2, '0')}:${String(date.getMinutes()).padStart(2, '0')}`
  return `${month} ${day} ${recent ? time : String(date.getFullYear()).padStart(5)}`
}
