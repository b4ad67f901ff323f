/** Shares, and what their visitors did. */
import type { Path } from '../../base/path.js'
import type { ShareMode } from '../../base/rights.js'
import type { StorageRow } from './storages.js'

/** Files and folders that visitors reach by an id, without an account. */
export interface ShareRow {
  readonly id: string
  readonly creatorId: number
  readonly mode: ShareMode
  /** The code that visitors have to send, as its creator reads it. Empty: none. */
  readonly code: string
  /** When the share ends. Undefined: never. */
  readonly expires: Date | undefined
  /** Maximum number of visits; 0 or less: any number. */
  readonly maxVisits: number
  readonly disabled: boolean
  /** A note for the creator, which visitors do not see. */
  readonly remark: string
  readonly readme: string
  readonly header: string
  readonly orderBy: StorageRow['orderBy']
  readonly orderDirection: StorageRow['orderDirection']
  readonly extractFolder: StorageRow['extractFolder']
  /** Addresses and networks of visitors; empty: any. */
  readonly allowFrom: readonly string[]
  /** Whether visitors can also open it as a drive (WebDAV). */
  readonly webdav: boolean
  /** Bytes that all uploads together may have; 0: no limit. */
  readonly uploadMaxBytes: number
  readonly uploadMaxFiles: number
  readonly created: Date
}

/** A file or folder of a share. */
export interface ShareRoot {
  readonly id: number
  readonly shareId: string
  /** The place of the root in the order of the share's roots. */
  readonly position: number
  /** A path of the whole tree. */
  readonly path: Path
  /** Whether what was shared was removed: what gets the path later is not shared. */
  readonly removed: boolean
}

/** The amount of use of a share. */
export interface ShareUse {
  readonly visits: number
  readonly uploadedBytes: number
  readonly uploadedFiles: number
}

/** The facts by which a request is recognized as one of a visit that has begun. */
export interface Visitor {
  /** The digest of the cookie that the request sends; undefined if it sends none. */
  readonly cookie: string | undefined
  /** The digest of the cookie that the visitor gets if a visit begins and the request sends none. */
  readonly issued: string
  /** The digest of the visitor's network and program. */
  readonly client: string
}

/** The shares, which are deleted with their creator. */
export interface ShareRows {
  all(): Promise<ShareRow[]>
  /**
   * Adds a share with roots at these paths in one transaction. `exists` for a taken id, `not_found` for an unknown
   * creator.
   */
  insert(row: ShareRow, roots: readonly Path[], visits: number): Promise<void>
  /**
   * Changes a share in one transaction. `roots`: the paths of all roots; one that has a root of the share already
   * keeps it. Absent fields are unchanged. `not_found`, and `exists` for a new id that is taken.
   */
  update(
    id: string,
    changes: Partial<ShareRow>,
    roots: readonly Path[] | undefined,
    visits: number | undefined,
  ): Promise<void>
  /** Deletes a share with its roots and visits. False if it does not exist. */
  delete(id: string): Promise<boolean>
  /** Returns the use of each of these shares, by id. */
  use(ids: readonly string[]): Promise<ReadonlyMap<string, ShareUse>>
}

/** The visits to shares. Times are by the clock of the database. */
export interface ShareVisitRows {
  /** Whether the visitor is in a visit that began within the last `time` milliseconds. */
  isIn(shareId: string, visitor: Visitor, time: number): Promise<boolean>
  /**
   * Resolves to 'in' if `isIn`. Otherwise begins a visit and counts it; undefined if the share may have no more. One
   * transaction does all this, so that concurrent calls never exceed the limit. While 10,000 visits of a share are
   * stored (100,000 where the share has a limit), more visits are counted but not stored: each request is then a
   * visit.
   */
  enter(shareId: string, visitor: Visitor, time: number): Promise<'begun' | 'in' | undefined>
  /** Deletes the visits that began more than `time` milliseconds ago. */
  sweep(time: number): Promise<void>
}

/**
 * What running uploads of visitors have reserved of the limits of their shares. A reservation counts as long as the
 * node that has made it is alive. What was stored is counted in the use of the share.
 */
export interface ShareUploadRows {
  /** Resolves to the id of the reservation; undefined if the limits do not allow it. `not_found`: no such share. */
  reserve(shareId: string, bytes: number, files: number): Promise<number | undefined>
  /**
   * Reserves more bytes: as many of `wished` as the limits allow, if those are at least `needed`. Resolves to their
   * number; undefined if they are fewer. `not_found` if the share was deleted, or this node was taken for dead.
   */
  extend(id: number, needed: number, wished: number): Promise<number | undefined>
  /** Whether a running upload has claimed this path of the whole tree, folded. */
  isClaimed(path: string): Promise<boolean>
  /** Claims a path for an upload, instead of the one before. False if another one has claimed it. */
  claim(id: number, path: string): Promise<boolean>
  /** Counts what was stored, and ends the reservation. */
  finish(id: number, bytes: number, files: number): Promise<void>
  /** Ends the reservation of an upload that has failed. */
  release(id: number): Promise<void>
}
