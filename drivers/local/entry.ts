/** A file's status as an Entry. */
import type { BigIntStats } from 'node:fs'
import type { Entry } from '../../src/driver.js'

/** The entry as it was told before, where nothing changed since; else a new one. Never for what a link leads to. */
export function sameOrNew(name: string, stats: BigIntStats, known: Entry | undefined): Entry {
  // The revision holds the time of the last change of anything that an entry tells.
  return known?.isLink !== true && known?.revision === revisionOf(stats) ? known : entryOf(name, stats)
}

/** `isLink`: these are the facts of the file that a link leads to. */
export function entryOf(name: string, stats: BigIntStats, isLink = false): Entry {
  const kind = stats.isDirectory() ? 'folder' : stats.isSymbolicLink() ? 'link' : 'file'
  const entry: Entry = {
    name,
    kind,
    size: kind === 'folder' ? 0 : Number(stats.size),
    modified: dateOf(stats.mtimeNs),
    revision: revisionOf(stats),
    mode: Number(stats.mode) & 0o7777,
    created: dateOf(stats.birthtimeNs),
  }
  return isLink ? { ...entry, isLink: true } : entry
}

/** Changes with every change of the content, also with one that leaves size and time as they were: the last part sees to that. */
export function revisionOf(stats: BigIntStats): string {
  return `${stats.ino.toString(36)}.${stats.size.toString(36)}.${stats.mtimeNs.toString(36)}.${stats.ctimeNs.toString(36)}`
}

function dateOf(nanoseconds: bigint): Date {
  return new Date(Math.round(Number(nanoseconds) / 1e6))
}

/** A time as the system calls take it, in seconds: Node cuts it to whole microseconds, so half of one is added. */
export function secondsOf(time: Date): number {
  return time.getTime() / 1000 + 5e-7
}
