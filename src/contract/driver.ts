/**
 * The contract between the core and a backend, in one interface. `test/driver-conformance/driver.ts` is the same
 * contract in executable form; `docs/drivers.md` explains how to write a driver.
 *
 * - Paths are clean and absolute; `/` is the root of the driver. No driver is asked to read, write, create, move or
 *   remove its root, or to move an entry onto or into itself: the core refuses what follows from the paths alone.
 * - Every method rejects only with a GatewayError, with the original error as its `cause`. Its message may be shown to
 *   users: it has no secrets and no addresses of the host. A backend that refuses the credentials of the storage is
 *   `denied`, with a cause or the detail `storage_refused`; `unauthenticated` concerns the client of the gateway.
 * - A method rejects with `unsupported` only before it has changed anything; an absent method is equivalent to that,
 *   except for `realPath`. The core then uses a slower fallback (`storage/fallbacks/fallbacks.ts`).
 * - A call about something that must exist rejects with `not_found` if it does not. A call that creates an entry
 *   rejects with `parent_missing` if the parent folder does not exist.
 * - If the signal aborts, the call rejects with `aborted` and closes what it has opened.
 * - Names are reported as the backend has them: see `Entry.name`. With the trait `caseSensitive: false`, every method
 *   accepts any spelling of a name.
 * - `stat`, `pages` and `write` report equal entries of one file. If the backend reports a time in two resolutions, the
 *   driver uses the coarser one.
 * - Of files, a driver caches only what it verifies at each use. Ids of paths are cached for minutes where the backend
 *   knows entries by ids (docs/decisions/0028-caches.md).
 */
import type { Readable } from 'node:stream'
import type * as call from './call-options.js'
import type * as types from './capabilities.js'
import type { Entry } from './entry.js'
import type { Path } from '../base/path.js'
import type { Traits } from './traits.js'

export interface Driver extends Partial<types.ResumableUploads>, Partial<types.Links>, Partial<types.RemoteDownloads> {
  /** Traits of this mount, overriding those of its type. */
  readonly traits?: Partial<Traits>

  // Implemented by every driver.
  /** The entry as the backend reports it now, with its name in the backend's spelling. */
  stat(path: Path, options?: call.StatOptions): Promise<Entry>
  /**
   * Yields pages of at most `pageSize` entries (`entry.ts`), in any order. Rejects with `not_found` and `not_folder`
   * before the first page.
   */
  pages(path: Path, options?: call.ListOptions): AsyncIterable<readonly Entry[]>
  /**
   * Resolves when the content is available: `not_found` and `is_folder` are rejections, never an `error` event of the
   * stream. A range that starts at or after the end returns an empty stream.
   */
  read(path: Path, range?: call.ByteRange, options?: call.ReadOptions): Promise<Readable>

  // Implemented together by every writable driver.
  /**
   * Replaces the file atomically: even after an abort or an error of the source, either the complete old or the
   * complete new file exists. Rejects with `is_folder` if the path is a folder, and with `invalid` if the source ends
   * before its announced size or exceeds it. Resolves when the data is stored. The mode is that of the options,
   * otherwise that of the old file; `contentMode` of it is set. The same applies to `copy` and `open`.
   */
  write?(path: Path, source: call.Source, options?: call.WriteOptions): Promise<Entry>
  /** Creates a folder. Rejects with `exists` if anything exists at the path. */
  mkdir?(path: Path, options?: call.CallOptions): Promise<void>
  /** Removes a file, a symlink (never its target) or an empty folder; otherwise rejects with `not_empty`. */
  remove?(path: Path, options?: call.CallOptions): Promise<void>

  // Faster alternatives to fallbacks of the core.
  /**
   * Renames a file or a whole tree in one step. A file replaces a file. Rejects with `is_folder` if the target is a
   * folder, and with `exists` for a folder over a file. A symlink is moved, never its target. A move to another
   * spelling of the same name renames the entry and removes nothing.
   */
  move?(from: Path, to: Path, options?: call.CallOptions): Promise<void>
  /**
   * Copies one file with its time and mode, unless the options have others. Replaces a file. Rejects with `is_folder`
   * if the source or the target is a folder.
   */
  copy?(from: Path, to: Path, options?: call.WriteOptions): Promise<void>
  /**
   * Copies small files of one folder together, each as `write` would. Rejects with `unsupported` if that is not
   * possible from this source driver. Resolves, in the order of the files, to the entry that now exists, or undefined
   * for a file that was not copied because its name was taken or it differs from the reported entry.
   */
  copyFiles?(bundle: types.FileBundle, options?: call.CallOptions): Promise<readonly (Entry | undefined)[]>
  /** `remove`, also of a folder with everything in it. If it rejects, a part of the folder may be removed. */
  removeTree?(path: Path, options?: call.CallOptions): Promise<void>
  /** `realPath` with `last`, and `stat` of the result, at the cost of one of them. */
  look?(path: Path, options?: call.CallOptions): Promise<types.LookupResult>

  // Implemented only if the backend supports them natively.
  /**
   * Opens a handle for random access. 'update' changes the file in place and never creates it. 'replace' writes a new
   * or truncated file, at any position, to a staged file until `commit`, which calls `beforePublish` and rejects as
   * `write` does. A handle of 'update' or 'replace' must have `write`. Rejects with `is_folder` for a folder.
   */
  open?(path: Path, mode: types.OpenMode, options?: types.OpenOptions): Promise<types.OpenFile>
  /**
   * Sets every given attribute that the trait `keeps` names, or rejects with `unsupported` before any change. Follows
   * symlinks. The mode becomes that of `settableMode`.
   */
  setAttributes?(path: Path, to: types.Attributes, options?: call.CallOptions): Promise<void>
  /** Differs when a name was added to a folder or removed from it: whether a cached listing is valid. */
  folderRevision?(path: Path, options?: call.CallOptions): Promise<string>
  /** The backend's own URL of the file, and its expiry. If it is bound to a client, the trait `urlsBoundTo` says so. */
  directUrl?(path: Path, options?: types.DirectUrlOptions): Promise<types.DirectUrl>
  /**
   * A small picture of a file of this kind, one of the trait `thumbnails`. Rejects with `unsupported` if no thumbnail
   * can be made of this file and the file may be shown instead, and with `invalid` if the file is corrupt or too large.
   */
  thumbnail?(path: Path, kind: types.ThumbnailKind, options?: types.ThumbnailOptions): Promise<types.Thumbnail>
  /** How much space the backend has, and how much of it is used. */
  usage?(options?: call.CallOptions): Promise<types.Usage>

  // The life of a driver.
  /**
   * Removes what other runs that have ended (`Instance.isOver`) have staged, except resumable uploads. Called when such
   * a run has ended while this driver is open. Errors are logged by the driver.
   */
  removeOrphans?(): Promise<void>
  /** Releases connections, timers and files. The last call of a driver. Resolves when nothing of it is running. */
  close?(): Promise<void>
}
