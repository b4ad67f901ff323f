/** Converts between the server's file attributes and entries. */
import type { Stats } from 'ssh2'
import type { Entry } from '../../src/contract/entry.js'

/** Attributes that set the modification time, in seconds. The protocol sets both times or none. */
export function timesOf(modified: Date | undefined): { atime: number; mtime: number } | undefined {
  if (modified === undefined) return undefined
  const seconds = Math.min(Math.max(Math.floor(modified.getTime() / 1000), 0), 0xffff_ffff)
  return { atime: seconds, mtime: seconds }
}

export function entryOf(name: string, stats: Stats): Entry {
  const kind = stats.isDirectory() ? 'folder' : stats.isSymbolicLink() ? 'symlink' : 'file'
  return {
    name,
    kind,
    size: kind === 'folder' ? 0 : stats.size,
    modified: new Date(stats.mtime * 1000),
    mode: stats.mode & 0o7777,
  }
}
