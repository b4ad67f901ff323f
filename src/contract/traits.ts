/** Traits: what a driver declares about its backend beside its methods. */
import type { Attributes, ThumbnailKind, UrlClient } from './capabilities.js'
import type { HashName } from './entry.js'

/** Properties of a backend that no method reports. Defaults: `defaultTraits`. */
export interface Traits {
  /** The kind of source that `write` requires. Storage spools a source that does not suit. */
  readonly writeNeeds: 'stream' | 'size' | 'reread'
  /**
   * Hashes that `write` needs before the body. If the source lacks one, Storage spools it, and computes them while the
   * bytes arrive: the source can then be read more than once. Requires `writeNeeds: 'reread'`.
   */
  readonly writeHashes: readonly HashName[]
  /** false: Storage reads from the start of the file and skips. */
  readonly ranges: boolean
  /**
   * false: names that differ only in case or Unicode normalization form are the same name. `stat` then returns the
   * backend's spelling of the name, whatever the requested spelling.
   */
  readonly caseSensitive: boolean
  /**
   * false: a folder exists only while it contains something. `mkdir` creates nothing, and missing parents are not an
   * error.
   */
  readonly emptyFolders: boolean
  /** Resolution of stored modification times in milliseconds; Infinity: they are not stored. */
  readonly timeStep: number
  /**
   * Attributes that `write` stores, and that `setAttributes` stores or rejects. Others may be ignored: Storage stores
   * in the database what `stat` does not show afterwards. None without `setAttributes`, or if `timeStep` is Infinity.
   */
  readonly keeps: readonly (keyof Attributes)[]
  /**
   * Maximum concurrent calls that Storage makes, over all methods; each page of a listing and each call on an open
   * handle counts as one. The same number of `read` streams may be open in addition. Calls made within another call,
   * such as those for the source of a write, are part of that call.
   */
  readonly parallel: number
  /**
   * Milliseconds for which a listing may not show a change that has been made. Storage lays the changes of this time
   * that it has made itself over listings and entries.
   */
  readonly listingLag: number
  /**
   * Listings come in an order that the admin has chosen: clients get it, unless the storage has an order of its own.
   */
  readonly listsInOrder: boolean
  /** The facts of a client that a direct URL depends on: it is valid only for the client that it was requested for. */
  readonly urlsBoundTo: readonly (keyof UrlClient)[]
  /** Kinds of files for which `thumbnail` is implemented. */
  readonly thumbnails: readonly ThumbnailKind[]
  /** The backend is reached over a network, so the bandwidth limits of backends apply. */
  readonly remote: boolean
  /** The service counts calls against a quota, so the gateway makes none that no client has asked for. */
  readonly metered: boolean
  /**
   * A change is on stable storage when its call resolves. The gateway then also syncs its own records about the files.
   */
  readonly durable: boolean
}

export const defaultTraits: Traits = {
  writeNeeds: 'stream',
  writeHashes: [],
  ranges: true,
  caseSensitive: true,
  emptyFolders: true,
  timeStep: 1,
  keeps: ['modified', 'mode'],
  parallel: Number.POSITIVE_INFINITY,
  listingLag: 0,
  listsInOrder: false,
  urlsBoundTo: [],
  thumbnails: [],
  remote: false,
  metered: false,
  durable: false,
}
