/** Files, folders and symlinks as backends report them. */

export type EntryKind = 'file' | 'folder' | 'symlink'
/** The digests that the gateway computes and verifies itself. */
export const hashNames = ['md5', 'sha1', 'sha256'] as const
export type HashName = (typeof hashNames)[number]
/**
 * Lower-case hexadecimal digests of the whole content, by the lower-case name of the algorithm: a `HashName`, or any
 * other that a backend has, such as `quickxor`. Digests of unknown algorithms are only compared with each other.
 */
export type Hashes = Readonly<Partial<Record<HashName, string>> & Record<string, string>>

/** One file, folder or symlink as the backend reports it. Plain data, never modified after its creation. */
export interface Entry {
  /**
   * The name as the backend reports it, by which the file can be requested again. The core checks it with
   * `isListableName` (path.ts), and leaves names that no path can represent out of listings and logs them. A driver
   * does not repeat that check. It leaves out `.` and `..` only, and reports a name that it could not map back, such as
   * bytes in another encoding, as its `refusedName` (path.ts).
   */
  readonly name: string
  /**
   * 'symlink' is a dangling symlink, or a symlink that was requested itself; otherwise the kind of the symlink's
   * target.
   */
  readonly kind: EntryKind
  /** The entry is a symlink shown as its target. Tree walks do not enter it. */
  readonly isSymlink?: boolean
  /** The size in bytes; 0 for a folder. */
  readonly size: number
  /** The time of the last change of the content. `new Date(0)` if the backend reports none. */
  readonly modified: Date
  /** Differs whenever the content differs. The ETag is derived from it. */
  readonly revision?: string
  /** Permission bits, as in `chmod`. */
  readonly mode?: number
  /** The hashes that the backend reports without extra cost. */
  readonly hashes?: Hashes
  readonly created?: Date
  /**
   * The content codings that were applied to the stored bytes, such as `gzip`: a list for `Content-Encoding`
   * (RFC 9110 §8.4). `size` and all reads are of the bytes as stored. Listings need not have it.
   */
  readonly contentEncoding?: string
  /** The backend's own URL of a thumbnail. */
  readonly thumbnailUrl?: string
}

/** Identifies a file or folder independently of the path and the mount through which it is reached. */
export interface FileIdentity {
  /**
   * Within one namespace, equal names identify the same file and different names different files. Identities of
   * different namespaces cannot be compared.
   */
  readonly namespace: string
  readonly name: string
}

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

export function isSymlink(entry: Entry): boolean {
  return entry.kind === 'symlink' || entry.isSymlink === true
}

/** False for a symlink to a folder. */
export function isRealFolder(entry: Entry): boolean {
  return entry.kind === 'folder' && entry.isSymlink !== true
}

/** Maximum number of entries of a page of `Driver.pages`. */
export const pageSize = 1000

export function* inPages(entries: readonly Entry[]): Generator<readonly Entry[]> {
  for (let at = 0; at < entries.length; at += pageSize) yield entries.slice(at, at + pageSize)
}
