/**
 * The tree as one principal sees it: all that a door ever calls. Every operation first resolves the path
 * under the principal's base and asks `judge()`; every change then asks locks and conditions, before
 * the body is read and again once it has arrived. Paths that go in and come out are the principal's own.
 */
import type { Readable } from 'node:stream'
import type { Ask, Change, Changed, Conditions } from './change.js'
import type { Attributes, ByteRange, Entry, Link, OpenFile, OpenMode, Source, Usage } from './driver.js'
import type { Lock, LockRequest } from './locks.js'
import type { Path } from './path.js'
import type { Principal } from './principal.js'
import type { PropertyChange, Property } from './properties.js'

export interface ListAsk extends Ask {
  /** Ask the backend again. Needs the right to write here. */
  readonly refresh?: boolean | undefined
  /** The part that is shown: these entries are as fresh as the backend tells, the rest may be a cached one. */
  readonly offset?: number | undefined
  readonly limit?: number | undefined
  readonly foldersOnly?: boolean | undefined
}

export interface Listing {
  /** Sorted by the storage's rules, mount points merged in, hidden ones left out; the asked part alone. */
  readonly entries: readonly Entry[]
  /** Of all parts. */
  readonly total: number
  readonly folder: FolderView
}

/** What a client is told of a folder or file beside its entries. */
export interface FolderView {
  readonly readme: string
  readonly header: string
  /** The principal may change something here. */
  readonly write: boolean
  /** A folder rule lets everybody write here. */
  readonly writeByRule: boolean
  /** The driver's name, or `unknown` for a folder between mounts. */
  readonly provider: string
  /** Links to files in here need a signature: a storage option or a folder rule says so (not counting the `sign_all` setting). */
  readonly signed: boolean
}

export interface CopyAsk extends Change {
  /** false: `exists` if the target is there. */
  readonly overwrite: boolean
  /** false: a folder without its members (WebDAV's Depth 0). */
  readonly deep?: boolean | undefined
  /** Existing target folders are entered, existing files in them are left alone. */
  readonly merge?: boolean | undefined
}

export interface VirtualFs {
  readonly principal: Principal

  /** The entry itself. `link`: of a link, not of its target. */
  stat(path: Path, ask?: Ask & { readonly link?: boolean | undefined }): Promise<Entry>
  /** Entry together with what fs/get tells of it. */
  view(path: Path, ask?: Ask): Promise<{ readonly entry: Entry; readonly folder: FolderView }>
  list(path: Path, ask?: ListAsk): Promise<Listing>
  /** The same entries in pages and in any order, flat in memory however large the folder is. */
  pages(path: Path, ask?: Ask): AsyncIterable<readonly Entry[]>
  read(path: Path, range?: ByteRange, ask?: Ask): Promise<Readable>
  /**
   * A handle. 'read' of an existing file; 'update' of an existing file, its bytes kept; 'replace': new or
   * truncated, published by `commit`. It ends with the principal's authority.
   */
  open(path: Path, mode: OpenMode, change?: Change): Promise<OpenFile>
  /** A direct address of the backend, where the storage offers one and its options allow redirects. */
  link(path: Path, ask?: Ask): Promise<Link | undefined>

  /** Replaces or creates a file. Resolves when it is stored. `parents`: missing folders are made. */
  write(path: Path, source: Source, change?: Change & { readonly parents?: boolean | undefined }): Promise<Changed>
  /** `parents`: missing ones are made too, and a folder that is there already is no error. */
  mkdir(path: Path, change?: Change & { readonly parents?: boolean | undefined }): Promise<void>
  /** Gives a name of the same folder, or of another one. Judged as rename, move or both. Rejects with `exists` unless `overwrite`. */
  move(from: Path, to: Path, ask: CopyAsk): Promise<Changed>
  copy(from: Path, to: Path, ask: CopyAsk): Promise<Changed>
  /** 'tree' (the default): whatever is there; 'file': anything but a folder; 'folder': an empty folder. */
  remove(path: Path, change?: Change & { readonly what?: 'tree' | 'file' | 'folder' | undefined }): Promise<void>
  setAttributes(path: Path, to: Attributes, change?: Change): Promise<void>
  readLink(path: Path, ask?: Ask): Promise<string>
  symlink(path: Path, target: string, change?: Change): Promise<void>
  hardLink(from: Path, to: Path, change?: Change): Promise<void>
  usage(path: Path, ask?: Ask): Promise<Usage>

  /** Rejects with `precondition_failed` unless the conditions hold for what stands at `path`. For doors that only read. */
  check(path: Path, conditions: Conditions, ask?: Ask): Promise<void>

  /** Locks `path`; where nothing is there, an empty file is made first (RFC 4918 §9.10.4). */
  lock(path: Path, request: LockRequest, change?: Change): Promise<{ readonly lock: Lock; readonly created: boolean }>
  refreshLock(path: Path, token: string, seconds: number, change?: Change): Promise<Lock>
  unlock(path: Path, token: string, ask?: Ask): Promise<void>
  /** Those that cover the path, in the principal's own paths. */
  locks(path: Path, ask?: Ask): Promise<readonly Lock[]>

  /** Dead properties kept for this path. */
  properties(path: Path, ask?: Ask): Promise<readonly Property[]>
  /** All or nothing. */
  setProperties(path: Path, changes: readonly PropertyChange[], change?: Change): Promise<void>
}
