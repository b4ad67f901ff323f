/** Helpers for entries. */
import type { Entry } from './driver.js'

/** Identifies the content: the revision, otherwise the time and the size. The entity tag is derived from it. */
export function contentVersion({ revision, modified, size }: Entry): string {
  return revision ?? `${modified.getTime().toString(16)}-${size.toString(16)}`
}

/** Milliseconds. Servers may report times by the minute, and their clocks may differ. */
const minReliableAge = 120_000

/**
 * Whether every change of the content changes `contentVersion`. False without a revision if the time is unknown, or so
 * recent that later content could have the same time.
 */
export function hasReliableVersion({ revision, modified }: Entry): boolean {
  const time = modified.getTime()
  return revision !== undefined || (time !== 0 && Date.now() - time > minReliableAge)
}

export function isLink(entry: Entry): boolean {
  return entry.kind === 'link' || entry.isLink === true
}

/** False for a symlink to a folder. */
export function isRealFolder(entry: Entry): boolean {
  return entry.kind === 'folder' && entry.isLink !== true
}
