/**
 * The contract between the core and a backend. `test/conformance/driver.ts` is the same contract in executable form;
 * `docs/drivers.md` explains how to write a driver.
 *
 * - Paths are clean and absolute; `/` is the root of the driver.
 * - Every method rejects only with a GatewayError, with the original error as its `cause`. Its message may be shown to
 *   users: it has no secrets and no addresses of the host. A backend that refuses the credentials of the storage is
 *   `denied`; `unauthenticated` concerns the client of the gateway.
 * - A method rejects with `unsupported` only before it has changed anything; an absent method is equivalent to that. The
 *   core then uses a slower fallback.
 * - If the signal aborts, the call rejects with `aborted` and closes what it has opened.
 * - Names are reported as the backend has them: see `Entry.name`. With the trait `caseSensitive: false`, every method
 *   accepts any spelling of a name.
 * - `stat`, `list` and `write` report equal entries of one file. If the backend reports a time in two resolutions, the
 *   driver uses the coarser one.
 * - Of files, a driver caches only what it verifies at each use (docs/decisions/0028-caches.md).
 */
import type { Readable } from 'node:stream'
import type {
  Attributes,
  DirectUrl,
  FileBundle,
  LookupResult,
  OpenFile,
  OpenMode,
  OpenOptions,
  Thumbnail,
  ThumbnailKind,
  Upload,
  UploadPlan,
  Usage,
} from './capabilities.js'
import type { Entry, Hashes, Identity } from './entry.js'
import type { Path } from './path.js'
import type { Traits } from './traits.js'

export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  /**
   * User on whose behalf bytes are read or written; absent for the gateway itself. Limits ensure that one user cannot
   * occupy all of a backend's capacity. A driver built on other storages passes it through.
   */
  readonly user?: number | undefined
}

export interface ListOptions extends CallOptions {
  /**
   * Returns the entry of an earlier listing by name. If that entry is still accurate, the driver may report the same
   * object again instead of a new one.
   */
  readonly known?: ((name: string) => Entry | undefined) | undefined
}

export interface WriteOptions extends CallOptions {
  readonly modified?: Date | undefined
  readonly mode?: number | undefined
  /** Rejects with `exists` if the name is taken; atomic if the backend supports it. */
  readonly createOnly?: boolean | undefined
  /**
   * Called once, after every byte has arrived and before the staged file is published under its name (in a backend
   * without staging: before the last byte is sent, or, of an empty file, before the request). If it rejects, the old
   * file is unchanged.
   */
  readonly beforePublish?: (() => Promise<void>) | undefined
}

/** Without a length, the range extends to the end. A length of 0 is zero bytes. */
export interface ByteRange {
  readonly offset: number
  readonly length?: number | undefined
}

/** Readable bytes: a stored file, or an upload that is being received. */
export interface Source {
  /** Bytes; absent if not yet known. */
  readonly size?: number | undefined
  readonly modified?: Date | undefined
  readonly hashes?: Hashes | undefined
  /** false: `read` may be called only once, and without a range. */
  readonly rereadable: boolean
  read(range?: ByteRange, options?: CallOptions): Promise<Readable>
}

/**
 * One backend. The core checks what follows from the paths of a call alone (`storage/path-rules.ts`): no driver is
 * asked to read, write, create, move or remove its root, or to move an entry onto or into itself.
 */
export interface Driver {
  /** Traits of this mount, overriding those of its type. */
  readonly traits?: Partial<Traits>

  // Implemented by every driver.
  /**
   * The entry, with its name in the backend's spelling. Rejects with `not_found` if nothing exists at the path. `link`:
   * the entry of the symlink itself.
   */
  stat(path: Path, options?: CallOptions & { readonly link?: boolean | undefined }): Promise<Entry>
  /**
   * Yields pages of at most 1,000 entries, in any order. Rejects with `not_found` and `not_dir` before the first page.
   */
  list(path: Path, options?: ListOptions): AsyncIterable<readonly Entry[]>
  /**
   * Resolves when the content is available: `not_found` and `is_dir` are rejections, never an `error` event of the
   * stream. A range that starts at or after the end returns an empty stream.
   */
  read(path: Path, range?: ByteRange, options?: CallOptions): Promise<Readable>

  // Implemented together by every writable driver.
  /**
   * Replaces the file atomically: even after an abort or an error of the source, either the complete old or the complete
   * new file exists. Rejects with `is_dir` if the path is a folder, with `parent_missing` if the parent does not exist,
   * and with `invalid` if the source ends before its announced size or exceeds it. Resolves when the data is stored.
   */
  write?(path: Path, source: Source, options?: WriteOptions): Promise<Entry>
  /** Rejects with `exists` if anything exists at the path, with `parent_missing` if the parent does not exist. */
  mkdir?(path: Path, options?: CallOptions): Promise<void>
  /** Removes a file, a symlink (never its target) or an empty folder; otherwise rejects with `not_empty`. */
  remove?(path: Path, options?: CallOptions): Promise<void>

  // Faster alternatives to fallbacks of the core.
  /**
   * Renames a file or a whole tree in one step. A file replaces a file. Rejects with `is_dir` if the target is a
   * folder, and with `exists` for a folder over a file. A symlink is moved, never its target. A move to another spelling
   * of the same name renames the entry and removes nothing.
   */
  move?(from: Path, to: Path, options?: CallOptions): Promise<void>
  /** Copies one file. Replaces a file; rejects with `is_dir` if the target is a folder. */
  copy?(from: Path, to: Path, options?: WriteOptions): Promise<void>
  /**
   * Copies small files of one folder together, each as `write` would; rejects with `unsupported` if that is not
   * possible from this source driver. Resolves, in the order of the files, to the entry that now exists, or undefined
   * for a file that was not copied because its name was taken or it differs from the reported entry.
   * Only the Local driver has it, for speed.
   */
  copyFiles?(bundle: FileBundle, options?: CallOptions): Promise<readonly (Entry | undefined)[]>
  /**
   * Removes a file, a symlink (never its target), or a folder with everything in it. If it rejects, a part of the
   * folder may be removed.
   */
  removeTree?(path: Path, options?: CallOptions): Promise<void>

  // Implemented only if the backend supports them natively.
  /**
   * Opens a handle for random access. 'update' changes the file in place and never creates it. 'replace' writes a new
   * or truncated file, at any position, to a staged file until `commit`.
   */
  open?(path: Path, mode: OpenMode, options?: OpenOptions): Promise<OpenFile>
  /**
   * Starts or resumes an upload whose received bytes survive the process. Rejects as `write` does before it reads the
   * source, and with `unsupported` if this upload could not be resumable. A driver with this method has `dropUpload`
   * too.
   */
  upload?(path: Path, plan: UploadPlan, options?: WriteOptions): Promise<Upload>
  /**
   * Discards the upload that this token identifies; an unknown token is not an error. The upload must not be in use.
   */
  dropUpload?(token: string, options?: CallOptions): Promise<void>
  /** Sets every given attribute, or rejects with `unsupported` before any change. Follows symlinks. */
  setAttributes?(path: Path, to: Attributes, options?: CallOptions): Promise<void>
  /**
   * Sets the time of a symlink itself and leaves its target unchanged; rejects with `invalid` if the path is not a
   * symlink.
   */
  setLinkTime?(path: Path, modified: Date, options?: CallOptions): Promise<void>
  /**
   * The text of a symlink. An absolute text is a path of the driver. Rejects with `invalid` if the path is not a
   * symlink, and with `denied` if it leads outside the driver.
   */
  readLink?(path: Path, options?: CallOptions): Promise<string>
  /**
   * Resolves every symlink in the parents of `path`; with `last`, also in its last segment. A name that does not exist
   * and a dangling symlink are returned unresolved. Rejects with `denied` if a symlink leads outside the driver.
   * Required of a backend that follows symlinks.
   */
  realPath?(path: Path, options?: CallOptions & { readonly last?: boolean | undefined }): Promise<Path>
  /**
   * Combines `realPath` with `last` and `stat` of the result, if the backend can do both at the cost of one of them.
   * Only the Local driver has it, for speed.
   */
  look?(path: Path, options?: CallOptions): Promise<LookupResult>
  /**
   * The identities of all files and folders that a change of the entry at `path` would modify, after following
   * symlinks. Rejects with `not_found` if nothing exists there. Implemented by backends whose files may be reachable by
   * more than one path of one mount.
   */
  identities?(path: Path, options?: CallOptions): Promise<readonly Identity[]>
  /**
   * Creates a symlink with the text `target`, which need not exist. Rejects with `exists` if the name is taken, and with
   * `denied` if the target is outside the driver.
   */
  symlink?(path: Path, target: string, options?: CallOptions): Promise<void>
  /** Gives the file at `from` a second name. Rejects with `is_dir` for a folder, and with `exists` if `to` is taken. */
  hardLink?(from: Path, to: Path, options?: CallOptions): Promise<void>
  /**
   * Revision of a folder: differs when a name was added or removed. A cached listing is valid only while it is
   * unchanged.
   */
  revision?(path: Path, options?: CallOptions): Promise<string>
  /** The backend's own URL of the file, and its expiry. */
  directUrl?(path: Path, options?: CallOptions): Promise<DirectUrl>
  /**
   * A small picture of a file of this kind, one of the trait `thumbnails`. Rejects with `unsupported` if no thumbnail
   * can be made of this file and the file may be shown instead, and with `invalid` if the file is corrupt or too large.
   */
  thumbnail?(path: Path, kind: ThumbnailKind, options?: CallOptions): Promise<Thumbnail>
  /** How much space the backend has, and how much of it is used. */
  usage?(options?: CallOptions): Promise<Usage>
  /** Releases connections, timers and files. The last call of a driver. Resolves when nothing of it is running. */
  close?(): Promise<void>
}
