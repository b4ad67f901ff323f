/** Converts the status of a file to an Entry. */
import { constants, type BigIntStats } from 'node:fs'
import type { Entry } from '../../src/contract/entry.js'

/** The status of a name, without following a symlink. Times in nanoseconds. */
export interface FileStatus {
  readonly revision: string
  readonly mode: number
  readonly size: number
  readonly modified: number
  readonly created: number
}

export function statusOf(stats: BigIntStats): FileStatus {
  return {
    revision: revisionOf(stats),
    mode: Number(stats.mode),
    size: Number(stats.size),
    modified: Number(stats.mtimeNs),
    created: Number(stats.birthtimeNs),
  }
}

export function kindOf(mode: number): Entry['kind'] {
  const type = mode & constants.S_IFMT
  return type === constants.S_IFDIR ? 'folder' : type === constants.S_IFLNK ? 'symlink' : 'file'
}

/** Returns `known` if nothing has changed since, otherwise a new entry. Not for the target of a symlink. */
export function reuseOrCreateEntry(name: string, status: FileStatus, known: Entry | undefined): Entry {
  // The revision contains the change time of the inode, which covers every field of an entry.
  return known?.isSymlink !== true && known?.revision === status.revision ? known : entryFrom(name, status)
}

/** `isSymlink`: `stats` is the status of the target of a symlink. */
export function entryOf(name: string, stats: BigIntStats, isSymlink = false): Entry {
  const entry = entryFrom(name, statusOf(stats))
  return isSymlink ? { ...entry, isSymlink: true } : entry
}

export function entryFrom(name: string, { revision, mode, size, modified, created }: FileStatus): Entry {
  const kind = kindOf(mode)
  return {
    name,
    kind,
    size: kind === 'folder' ? 0 : size,
    modified: dateOf(modified),
    revision,
    mode: mode & 0o7777,
    created: dateOf(created),
  }
}

/**
 * Changes with every change of the content. The change time also covers changes that preserve size and modification
 * time.
 */
export function revisionOf(stats: BigIntStats): string {
  return `${stats.ino.toString(36)}.${stats.size.toString(36)}.${stats.mtimeNs.toString(36)}.${stats.ctimeNs.toString(36)}`
}

/** Like `revisionOf`, and differs from that of any other file of this machine. */
export function globalRevisionOf(stats: BigIntStats): string {
  return `${stats.dev.toString(36)}.${revisionOf(stats)}`
}

function dateOf(nanoseconds: number): Date {
  return new Date(Math.round(nanoseconds / 1e6))
}

/**
 * Converts a time, or nanoseconds since 1970, to the seconds that system calls of Node take. Node truncates to
 * microseconds (libuv: src/unix/fs.c), so half of one is added. Node treats negative numbers as the current time
 * (nodejs/node#64597), so a time before 1970 is returned as a Date.
 */
export function systemTime(time: Date | bigint): number | Date {
  const nanoseconds = typeof time === 'bigint' ? Number(time) : time.getTime() * 1e6
  return nanoseconds < 0 ? dateOf(nanoseconds) : nanoseconds / 1e9 + 5e-7
}
