/** A file's status as an Entry. */
import { constants, type BigIntStats } from 'node:fs'
import type { Entry } from '../../src/driver.js'

/** What is told of a name, a link itself. Times in nanoseconds. */
export interface Status {
  readonly revision: string
  readonly mode: number
  readonly size: number
  readonly modified: number
  readonly created: number
}

export function statusOf(stats: BigIntStats): Status {
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
  return type === constants.S_IFDIR ? 'folder' : type === constants.S_IFLNK ? 'link' : 'file'
}

/** The entry as it was told before, where nothing changed since; else a new one. Never for what a link leads to. */
export function sameOrNew(name: string, status: Status, known: Entry | undefined): Entry {
  // The revision holds the time of the last change of anything that an entry tells.
  return known?.isLink !== true && known?.revision === status.revision ? known : entryFrom(name, status)
}

/** `isLink`: these are the facts of the file that a link leads to. */
export function entryOf(name: string, stats: BigIntStats, isLink = false): Entry {
  const entry = entryFrom(name, statusOf(stats))
  return isLink ? { ...entry, isLink: true } : entry
}

export function entryFrom(name: string, { revision, mode, size, modified, created }: Status): Entry {
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

/** Changes with every change of the content, also with one that leaves size and time as they were: the last part sees to that. */
export function revisionOf(stats: BigIntStats): string {
  return `${stats.ino.toString(36)}.${stats.size.toString(36)}.${stats.mtimeNs.toString(36)}.${stats.ctimeNs.toString(36)}`
}

function dateOf(nanoseconds: number): Date {
  return new Date(Math.round(nanoseconds / 1e6))
}

/**
 * A time, or its nanoseconds, as the system calls take it, in seconds: Node cuts it to whole microseconds, so half of one is added. A
 * negative number means now to Node, so a time before 1970 is a date.
 */
export function systemTime(time: Date | bigint): number | Date {
  const nanoseconds = typeof time === 'bigint' ? Number(time) : time.getTime() * 1e6
  return nanoseconds < 0 ? dateOf(nanoseconds) : nanoseconds / 1e9 + 5e-7
}
