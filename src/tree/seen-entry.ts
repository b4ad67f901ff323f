/** Entries as a principal sees them: without what is derived from content that it must not read. */
import type { Entry } from '../contract/entry.js'

/** An entry as the principal sees it. */
export interface SeenEntry extends Entry {
  /** The grants do not let the principal read its content, or that of its target. */
  readonly unreadable?: true
}

/**
 * The entry as a principal sees it that must not read its content. Backends make revisions of digests of the
 * content: the entity tag is then made of the time and the size.
 */
export function unreadable(entry: Entry): SeenEntry {
  const { revision: _revision, ...facts } = withoutContent(entry)
  return { ...facts, unreadable: true }
}

/** The entry without what backends make of its content. */
export function withoutContent({ hashes: _hashes, thumbnailUrl: _thumbnailUrl, ...facts }: Entry): Entry {
  return facts
}
