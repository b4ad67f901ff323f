/**
 * The contract between the core and a backend. `test/conformance/driver.ts` is the same contract in executable form;
 * `docs/drivers.md` explains how to write a driver.
 *
 * Paths are clean and absolute; `/` is the root of the driver. Every method rejects only with a GatewayError, with the
 * original error as its `cause`. An absent method is equivalent to one that rejects with `unsupported` before any side
 * effect: the core then uses a slower fallback.
 */
import type { Agent } from 'node:http'
import type { Readable } from 'node:stream'
import type { DriverLog } from './log.js'
import type { Path } from './path.js'

export type EntryKind = 'file' | 'folder' | 'link'
export type HashName = 'md5' | 'sha1' | 'sha256'
/** Lower-case hexadecimal digests of the whole content. */
export type Hashes = Readonly<Partial<Record<HashName, string>>>

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
   * 'link' is a dangling symlink, or a symlink that was requested itself; otherwise the kind of the symlink's target.
   */
  readonly kind: EntryKind
  /** The entry is a symlink shown as its target. Tree walks do not enter it. */
  readonly isLink?: boolean
  /** Bytes; 0 for a folder. */
  readonly size: number
  readonly modified: Date
  /** Differs whenever the content differs. The ETag is derived from it. */
  readonly revision?: string
  /** Permission bits, as in `chmod`. */
  readonly mode?: number
  /** Only hashes that the backend reports without extra cost. */
  readonly hashes?: Hashes
  readonly created?: Date
  readonly thumb?: string
}

/** Identifies a file or folder independently of the path and the mount through which it is reached. */
export interface Identity {
  /**
   * Within one namespace, equal names identify the same file and different names different files. Identities of
   * different namespaces cannot be compared.
   */
  readonly namespace: string
  readonly name: string
}

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
   * without staging: before the last byte is sent). If it rejects, the old file is unchanged.
   */
  readonly beforePublish?: (() => Promise<void>) | undefined
}

export interface OpenOptions extends WriteOptions {
  /** The handle must support reads in addition to writes. */
  readonly readable?: boolean | undefined
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
 * A stream that transfers ownership of its chunks: only its reader accesses their memory after they were read, so the
 * consumer may free them after use. A stream that passes these chunks on does not promise this unless it has this type
 * too.
 */
export interface DetachableReadable extends Readable {
  readonly givesChunks: true
}

export interface Driver {
  /** Traits of this mount, overriding those of its type. */
  readonly traits?: Partial<Traits>

  // Implemented by every driver.
  /** Rejects with `not_found` if nothing exists at the path. `link`: the entry of the symlink itself. */
  stat(path: Path, options?: CallOptions & { readonly link?: boolean | undefined }): Promise<Entry>
  /** Yields pages of entries in any order. Rejects with `not_found` and `not_dir` before the first page. */
  list(path: Path, options?: ListOptions): AsyncIterable<readonly Entry[]>
  /**
   * Resolves when the content is available: `not_found` and `is_dir` are rejections, never an `error` event of the
   * stream. A range that starts at or after the end returns an empty stream.
   */
  read(path: Path, range?: ByteRange, options?: CallOptions): Promise<Readable>

  // Implemented together by every writable driver.
  /**
   * Replaces the file atomically: even after an abort, either the complete old or the complete new file exists. Rejects
   * with `is_dir` if the path is a folder, with `parent_missing` if the parent does not exist, and with `invalid` if
   * the source ends before its announced size or exceeds it. Resolves when the data is stored.
   */
  write?(path: Path, source: Source, options?: WriteOptions): Promise<Entry>
  /** Rejects with `exists` if anything exists at the path, with `parent_missing` if the parent does not exist. */
  mkdir?(path: Path, options?: CallOptions): Promise<void>
  /** Removes a file, a symlink (never its target) or an empty folder; otherwise rejects with `not_empty`. */
  remove?(path: Path, options?: CallOptions): Promise<void>

  // Faster alternatives to fallbacks of the core.
  /**
   * Renames a file or a whole tree in one step. A file replaces a file. Rejects with `is_dir` if the target is a
   * folder, with `exists` for a folder over a file, and with `invalid` for a folder into itself. A symlink is moved,
   * never its target.
   */
  move?(from: Path, to: Path, options?: CallOptions): Promise<void>
  /** Copies one file. Replaces a file; rejects with `is_dir` if the target is a folder. */
  copy?(from: Path, to: Path, options?: WriteOptions): Promise<void>
  /**
   * Copies small files of one folder together, each as `write` would; rejects with `unsupported` if that is not
   * possible from this source driver. Resolves, in the order of the files, to the entry that now exists, or undefined
   * for a file that was not copied because its name was taken or it differs from the reported entry.
   */
  copyFiles?(bundle: FileBundle, options?: CallOptions): Promise<readonly (Entry | undefined)[]>
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
  /** Follows symlinks. */
  setAttributes?(path: Path, to: Attributes, options?: CallOptions): Promise<void>
  /**
   * Sets the time of a symlink itself and leaves its target unchanged; rejects with `invalid` if the path is not a
   * symlink.
   */
  setLinkTime?(path: Path, modified: Date, options?: CallOptions): Promise<void>
  readLink?(path: Path, options?: CallOptions): Promise<string>
  /**
   * Resolves every symlink in the parents of `path`; with `last`, also in its last segment. A name that does not exist
   * and a dangling symlink are returned unresolved. Rejects with `denied` if a symlink leads outside the driver.
   * Required of a backend that follows symlinks.
   */
  realPath?(path: Path, options?: CallOptions & { readonly last?: boolean | undefined }): Promise<Path>
  /**
   * Combines `realPath` with `last` and `stat` of the result, if the backend can do both at the cost of one of them.
   */
  look?(path: Path, options?: CallOptions): Promise<LookupResult>
  /**
   * The identities of all files and folders that a change of the entry at `path` would modify, after following
   * symlinks. Rejects with `not_found` if nothing exists there. Implemented by backends whose files may be reachable by
   * more than one path of one mount.
   */
  identities?(path: Path, options?: CallOptions): Promise<readonly Identity[]>
  symlink?(path: Path, target: string, options?: CallOptions): Promise<void>
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
  usage?(options?: CallOptions): Promise<Usage>
  close?(): Promise<void>
}

/** A path without symlinks, and the entry at it; undefined if nothing exists there. */
export interface LookupResult {
  readonly path: Path
  readonly entry: Entry | undefined
}

export type OpenMode = 'read' | 'update' | 'replace'

export interface Attributes {
  readonly modified?: Date | undefined
  readonly mode?: number | undefined
}

/** Random access to an open file. Supported by disks, memory, SMB and SFTP, but not by object stores. */
export interface OpenFile {
  /** The entry at the time the file was opened. */
  readonly entry: Entry
  /**
   * Maximum bytes that a single read returns quickly; a caller that streams the content should not request more per
   * read.
   */
  readonly preferredReadSize?: number
  /**
   * Fills `into` from `position`. Resolves to the number of bytes read, which is less than the buffer's length only at
   * the end of the file. The caller must not touch the buffer until the promise has settled.
   */
  read(into: Buffer, position: number): Promise<number>
  write?(from: readonly Buffer[], position: number): Promise<void>
  truncate?(size: number): Promise<void>
  /** Flushes the written data to stable storage. */
  sync?(): Promise<void>
  /**
   * For 'replace' and a spooled 'update': publishes the file under its name. Before that, nothing visible has changed.
   */
  commit?(attributes?: Attributes): Promise<Entry>
  /** Without a preceding `commit` of such a file, discards what was written. */
  close(): Promise<void>
}

/** Files of one folder to be copied into another folder under the same names. */
export interface FileBundle {
  /** Driver that the files are read from, of the same type. */
  readonly source: Driver
  readonly from: Path
  readonly to: Path
  readonly files: readonly Entry[]
  /**
   * Called once, after all bytes of these files have arrived. Resolves to the names that may be published now. If it
   * rejects, the call rejects with the same error.
   */
  readonly mayTake: (names: readonly string[]) => Promise<ReadonlySet<string>>
}

export interface UploadPlan {
  /** Bytes of the whole file. */
  readonly size: number
  /**
   * Token of an earlier upload of the same bytes to the same path. If it does not identify a usable upload, the driver
   * discards what remains of that upload and starts at 0.
   */
  readonly resumeToken?: string | undefined
  /**
   * Called with a token that replaces the previous one because more bytes are stored, or with an empty token if the
   * bytes that have arrived are no longer reliable. Resolves when the token is stored.
   */
  readonly replaceToken?: ((token: string) => Promise<void>) | undefined
}

/** An upload in progress. Nothing of it is visible and the old file is unchanged until `commit`. */
export interface Upload {
  /** Must be stored before any byte is sent. A later plan passes it as `resumeToken`. */
  readonly token: string
  /** Number of bytes, from the start, that the backend has certainly stored, even if the sender failed. */
  readonly committedOffset: number
  /**
   * Writes the bytes from `committedOffset` to the end. May be called once. Rejects as `Driver.write` does, and
   * preserves the bytes that have arrived.
   */
  write(from: Readable): Promise<void>
  /** Publishes the file under its name, as `Driver.write` does. */
  commit(): Promise<Entry>
  /**
   * Must be called in every case, after success or failure. Without a `commit`, the bytes that have arrived are
   * preserved. Never rejects.
   */
  close(): Promise<void>
}

export interface DirectUrl {
  /** An `http` or `https` URL, or, with a leading slash, a path of this gateway. */
  readonly url: string
  /** Headers that a request for it must carry. A URL with headers cannot be the target of a redirect. */
  readonly headers?: Readonly<Record<string, string>>
  /** Expiry; absent if not known. A URL without expiry is requested anew each time. */
  readonly until?: Date
}

/** Kind of a file, derived from its name. */
export type ThumbnailKind = 'image' | 'video'

/** A complete image of a few kilobytes. */
export interface Thumbnail {
  /** Media type. */
  readonly type: string
  readonly bytes: Buffer
}

/** In bytes. */
export interface Usage {
  readonly total: number
  readonly used: number
  readonly free: number
  /** Maximum and remaining number of files, if the backend has a limit. */
  readonly files?: { readonly total: number; readonly free: number }
}

/** Properties of a backend that no method reports. Defaults: `defaultTraits`. */
export interface Traits {
  /** What `write` requires of its source; Storage spools the source if it lacks this. */
  readonly writeNeeds: 'stream' | 'size' | 'reread'
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
   * Maximum concurrent calls that Storage makes, over all methods; each page of a listing and each call on an open
   * handle counts as one. The same number of `read` streams may be open in addition. Calls made within another call,
   * such as those for the source of a write, are part of that call.
   */
  readonly parallel: number
  /** Kinds of files for which `thumbnail` is implemented. */
  readonly thumbnails: readonly ThumbnailKind[]
  /** The backend is reached over a network, so the bandwidth limits of backends apply. */
  readonly remote: boolean
  /**
   * A change is on stable storage when its call resolves. The gateway then also syncs its own records about the files.
   */
  readonly durable: boolean
}

export const defaultTraits: Traits = {
  writeNeeds: 'stream',
  ranges: true,
  caseSensitive: true,
  emptyFolders: true,
  timeStep: 1,
  parallel: Number.POSITIVE_INFINITY,
  thumbnails: [],
  remote: false,
  durable: false,
}

export const fieldTypes = ['string', 'text', 'number', 'float', 'bool', 'select'] as const

/** One option of a driver. Defines the field of the admin form, its validation and its type. */
export interface Field {
  readonly type: (typeof fieldTypes)[number]
  readonly default?: string | number | boolean
  /** The option must have a value. If it is omitted or empty, the default applies; without a default it is an error. */
  readonly required?: boolean
  /** Of a required field: the default is only a suggestion in the form, and does not apply if the field is omitted. */
  readonly suggested?: boolean
  /** Allowed values of a `select`. */
  readonly options?: readonly string[]
  readonly help?: string
  /** Never shown in a log. */
  readonly secret?: boolean
}
export type Fields = Readonly<Record<string, Field>>

type ValueOf<F extends Field> = F['type'] extends 'number' | 'float'
  ? number
  : F['type'] extends 'bool'
    ? boolean
    : string
/** The options that a driver is opened with: every field is present, with defaults filled in. */
export type OptionsOf<F extends Fields> = { readonly [K in keyof F]: ValueOf<F[K]> }

/** Facts about a driver from which a protocol derives which options a storage has, and their defaults. */
export interface DriverFacts {
  /** 'preferred': clients should download from the backend's own URLs; 'possible': only if the admin asks for it. */
  readonly directUrls?: 'preferred' | 'possible'
  /** Listings need no cache: the backend lists fast, or another storage has cached them. */
  readonly uncached?: boolean
  /** The files are those of other storages. */
  readonly composite?: boolean
  /** The driver expects messages from the admin. */
  readonly interactive?: boolean
  /** Shown to the admin as a warning. */
  readonly warning?: string
}

export interface DriverType<F extends Fields = Fields> {
  /** Name shown to the admin, such as 'Local'. */
  readonly name: string
  readonly fields: F
  readonly facts?: DriverFacts
  readonly traits?: Partial<Traits>
  /** Imports the implementation on demand. Rejects if the backend cannot be used. */
  open(options: OptionsOf<F>, env: DriverEnv): Promise<Driver>
}

/** The environment of a driver: everything it may use outside its own modules. */
export interface DriverEnv {
  readonly log: DriverLog
  /** Aborts when the storage is unmounted. */
  readonly signal: AbortSignal
  /** The running process. Names of staged files contain its name, so that a later run can remove orphaned ones. */
  readonly instance: Instance
  readonly own: GatewayFolders
  /** Stores changed options, such as a refreshed token. */
  save(options: Readonly<Record<string, unknown>>): Promise<void>
  /** Persistent key-value store of this storage. */
  readonly state: DriverState
  /** Tokens of all uploads that may be resumed, of all storages. Drivers remove other staged files of earlier runs. */
  resumableUploads(): Promise<readonly string[]>
  /**
   * A lazily resolved view of another path of the tree, for drivers built on other storages. It is resolved at each
   * call, and its writes are subject to the locks, properties and events of the target path.
   */
  tree(path: Path): Driver
  /**
   * For connections to hosts that only a server or a user has named. An address that an admin configured is connected
   * to without it.
   */
  readonly egress: Egress
}

/** Guarded outgoing connections: to the public internet, and to the networks that an admin allows. */
export interface Egress {
  /**
   * Returns the agent for one request to `url`; it must not be used for another request. Throws `invalid` if the URL is
   * neither http nor https, or contains credentials. A connection to an address that is not allowed fails with
   * `denied`, whatever its host name: as the `error` event of the request, or thrown when the request is created.
   */
  agentFor(url: URL): Agent
}

/** Folders of this machine that belong to the gateway, as absolute paths without symlinks. */
export interface GatewayFolders {
  /** Relative paths in options are relative to this folder. */
  readonly data: string
  /**
   * No storage exposes these folders or a folder that contains one of them: they hold keys, the database and partial
   * uploads.
   */
  readonly protectedPaths: readonly string[]
}

/** One run of the program, distinct from all others, including those on other machines. */
export interface Instance {
  /** Unique; letters, digits and `-`, so that it can be part of a file name. */
  readonly name: string
  /** Whether the run of this name has ended; undefined if that is unknown, as for a run on another machine. */
  isOver(name: string): boolean | undefined
  /**
   * Identifies the current boot of the machine: unsynced data of a killed process is lost when it changes. Undefined if
   * unknown.
   */
  readonly boot?: string | undefined
}

export interface DriverState {
  get(key: string): Promise<string | undefined>
  set(key: string, value: string | undefined): Promise<void>
}

/** A driver type with any fields, for tables of driver types. */
export interface AnyDriverType extends Omit<DriverType, 'open'> {
  open(options: never, env: DriverEnv): Promise<Driver>
}
