/**
 * The contract between the core and a backend, all of it in this file. `test/conformance/driver.ts` is
 * the same contract in executable form; `docs/drivers.md` tells how to write a driver.
 *
 * Paths arrive clean and absolute; `/` is the root of the driver. Every method rejects with a
 * GatewayError and nothing else, with the original error as `cause`. A method that is absent and one
 * that rejects with `unsupported` before it did anything mean the same: the core takes the slower way.
 */
import type { Agent } from 'node:http'
import type { Readable } from 'node:stream'
import type { Path } from './path.js'

export type EntryKind = 'file' | 'folder' | 'link'
export type HashName = 'md5' | 'sha1' | 'sha256'
/** Lower-case hexadecimal digests of the whole content. */
export type Hashes = Readonly<Partial<Record<HashName, string>>>

/** What a listing tells of one file. Plain data: never wrapped, never changed in place. */
export interface Entry {
  /**
   * As the backend reports it, and as it is to be asked for. The core checks it by `isListableName` (path.ts): what no path
   * can hold is left out of listings and logged. A driver does not check again. It reports a name that it could not find
   * again itself, such as bytes in another encoding, as `refusedName` (path.ts), and leaves out only `.` and `..`.
   */
  readonly name: string
  /** 'link' is a link that leads nowhere, or one asked for itself; else the kind of its target. */
  readonly kind: EntryKind
  /** It is a link shown as its target: no walk of a tree ever enters it. */
  readonly isLink?: boolean
  /** Bytes; 0 for a folder. */
  readonly size: number
  readonly modified: Date
  /** Differs whenever the content does. The ETag is made from it. */
  readonly revision?: string
  /** Permission bits, as in `chmod`. */
  readonly mode?: number
  /** Only those that the backend gives for free. */
  readonly hashes?: Hashes
  readonly created?: Date
  readonly thumb?: string
}

/** Which thing it is, by whatever name and mount it was found. */
export interface Identity {
  /** Things of one realm are the same if their names are. Of things in different realms nobody can tell. */
  readonly realm: string
  readonly name: string
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  /**
   * On whose behalf bytes are read or written; absent for the gateway itself. One user never takes up all that a backend can do. A driver
   * that stands on others passes it on.
   */
  readonly user?: number | undefined
}

export interface ListOptions extends CallOptions {
  /** What was told of a name before: where that is still true, the same object may be told again instead of a new one. */
  readonly known?: ((name: string) => Entry | undefined) | undefined
}

export interface WriteOptions extends CallOptions {
  readonly modified?: Date | undefined
  readonly mode?: number | undefined
  /** Rejects with `exists` if the name is taken; atomic where the backend can. */
  readonly createOnly?: boolean | undefined
  /**
   * Called once, when every byte has arrived and before the staged file takes its name (a backend
   * that does not stage: before the last byte goes out). A rejection leaves the old file.
   */
  readonly beforePublish?: (() => Promise<void>) | undefined
}

export interface OpenOptions extends WriteOptions {
  /** A handle that writes is read from too. */
  readonly readable?: boolean | undefined
}

/** Without a length: to the end. A length of 0 is zero bytes. */
export interface ByteRange {
  readonly offset: number
  readonly length?: number | undefined
}

/** Bytes that can be read. A stored file is one; so is an upload in flight. */
export interface Source {
  /** Absent: not known yet. */
  readonly size?: number | undefined
  readonly modified?: Date | undefined
  readonly hashes?: Hashes | undefined
  /** false: `read` may be called once, without a range. */
  readonly rereadable: boolean
  read(range?: ByteRange, options?: CallOptions): Promise<Readable>
}

/**
 * A stream that gives its chunks away: nobody but its reader looks at their memory once they were read, and whoever has used one up may
 * free it. A stream behind it that passes the same chunks on makes no such promise, unless it says so itself.
 */
export interface GivingReadable extends Readable {
  readonly givesChunks: true
}

export interface Driver {
  /** Of this mount, over those of its type. */
  readonly traits?: Partial<Traits>

  // What every driver has.
  /** `not_found` where nothing is there. `link`: of the link itself. */
  stat(path: Path, options?: CallOptions & { readonly link?: boolean | undefined }): Promise<Entry>
  /** Pages in any order. `not_found` and `not_dir` before the first page. */
  list(path: Path, options?: ListOptions): AsyncIterable<readonly Entry[]>
  /**
   * Settles when the bytes are sure to come: `not_found` and `is_dir` are rejections, never an `error`
   * event of the stream. A range that starts at or after the end gives an empty stream.
   */
  read(path: Path, range?: ByteRange, options?: CallOptions): Promise<Readable>

  // What a writable driver has, all three together.
  /**
   * Replaces the file, all or nothing: the old one or the new one, never half of either, also when it
   * is aborted. `is_dir` over a folder, `parent_missing` without one. A source that ends before its
   * announced size, or goes on after it, is `invalid`. Resolves when the data is stored.
   */
  write?(path: Path, source: Source, options?: WriteOptions): Promise<Entry>
  /** `exists` if anything is there, `parent_missing` without a parent. */
  mkdir?(path: Path, options?: CallOptions): Promise<void>
  /** A file, a link (never its target), or an empty folder; `not_empty` else. */
  remove?(path: Path, options?: CallOptions): Promise<void>

  // Quicker ways to do what the core can do with the above.
  /**
   * A file or a whole tree in one step. A file replaces a file; over a folder both are `is_dir`, a folder over a file is
   * `exists`, a folder into itself `invalid`. A link is moved, never its target.
   */
  move?(from: Path, to: Path, options?: CallOptions): Promise<void>
  /** One file. Replaces a file; over a folder `is_dir`. */
  copy?(from: Path, to: Path, options?: WriteOptions): Promise<void>
  /**
   * Small files of one folder at once, each as `write` would; `unsupported` where that is not possible from that driver. In the order
   * of the files: what stands there now, or undefined for one with which nothing was done: its name was taken, or it is not as it was told.
   */
  copyFiles?(bundle: FileBundle, options?: CallOptions): Promise<readonly (Entry | undefined)[]>
  removeTree?(path: Path, options?: CallOptions): Promise<void>

  // Only where the backend has them.
  /**
   * A handle for access at any position. 'update' changes the file in place and never creates it;
   * 'replace' is a new or truncated file written aside, at any position, until `commit`.
   */
  open?(path: Path, mode: OpenMode, options?: OpenOptions): Promise<OpenFile>
  /**
   * Begins an upload of which what has arrived outlives the process, or goes on with one. Rejects as `write` does before it
   * reads; with `unsupported` where this one could not be kept. What has it has `dropUpload`.
   */
  upload?(path: Path, plan: UploadPlan, options?: WriteOptions): Promise<Upload>
  /** Lets go of what this token stands for; one that stands for nothing here is no error. Nobody is at work with it. */
  dropUpload?(token: string, options?: CallOptions): Promise<void>
  /** Of what a link leads to. */
  setAttributes?(path: Path, to: Attributes, options?: CallOptions): Promise<void>
  /** Of a link itself, its target unchanged; `invalid` where the name is not that of a link. */
  setLinkTime?(path: Path, modified: Date, options?: CallOptions): Promise<void>
  readLink?(path: Path, options?: CallOptions): Promise<string>
  /**
   * The path that `path` is another way to: every link on the way to it followed; with `last`, itself too. What is not there, or
   * leads nowhere, stands for itself. `denied` where a link leads out. A backend that follows links has it.
   */
  realPath?(path: Path, options?: CallOptions & { readonly last?: boolean | undefined }): Promise<Path>
  /** What `realPath` with `last` tells, and what `stat` tells of that path, where both take no more than one of them does. */
  look?(path: Path, options?: CallOptions): Promise<Look>
  /**
   * The things that a change of what stands at `path` would change, links followed; `not_found` where nothing stands there. A
   * backend has it whose things may be reached by other ways than one path of one mount.
   */
  identities?(path: Path, options?: CallOptions): Promise<readonly Identity[]>
  symlink?(path: Path, target: string, options?: CallOptions): Promise<void>
  hardLink?(from: Path, to: Path, options?: CallOptions): Promise<void>
  /** Of a folder: differs when a name came or went. A kept listing holds only while it stands. */
  revision?(path: Path, options?: CallOptions): Promise<string>
  /** A direct address, and until when it is good. */
  link?(path: Path, options?: CallOptions): Promise<Link>
  /**
   * A small picture of a file of this kind; the trait `thumbnails` says of which kinds there are any. `unsupported` where this
   * file is none to make one of, and may be shown as it is; `invalid` where it is broken or too large for that.
   */
  thumbnail?(path: Path, kind: ThumbnailKind, options?: CallOptions): Promise<Thumbnail>
  usage?(options?: CallOptions): Promise<Usage>
  close?(): Promise<void>
}

/** A path without links, and what stands there; undefined for nothing. */
export interface Look {
  readonly path: Path
  readonly entry: Entry | undefined
}

export type OpenMode = 'read' | 'update' | 'replace'

export interface Attributes {
  readonly modified?: Date | undefined
  readonly mode?: number | undefined
}

/** Access at any position: what disks, memory, SMB and SFTP have, and object stores have not. */
export interface OpenFile {
  /** As it was when it was opened. */
  readonly entry: Entry
  /** More than so many bytes are slow to come: whoever passes them on asks for fewer at once. */
  readonly atOnce?: number
  /**
   * Fills `into` from `position`; resolves to the bytes read, fewer than asked only at the end. The caller
   * owns the buffer again once the promise settled.
   */
  read(into: Buffer, position: number): Promise<number>
  write?(from: readonly Buffer[], position: number): Promise<void>
  truncate?(size: number): Promise<void>
  /** On the medium, not only in a cache. */
  sync?(): Promise<void>
  /** 'replace', and a spooled 'update': takes its name now. Nothing was changed before. */
  commit?(attributes?: Attributes): Promise<Entry>
  /** Without that commit: nothing happened. */
  close(): Promise<void>
}

/** Files of one folder that are to be copied into another one under the names that they have. */
export interface FileBundle {
  /** The driver that they are read from, of the same type. */
  readonly source: Driver
  readonly from: Path
  readonly to: Path
  readonly files: readonly Entry[]
  /** Called once, when all bytes of these files have arrived: which of them may take their names now. A rejection is that of the call. */
  readonly mayTake: (names: readonly string[]) => Promise<ReadonlySet<string>>
}

export interface UploadPlan {
  /** Bytes of the whole. */
  readonly size: number
  /**
   * Token of an earlier upload of the same bytes to the same path. Of one that stands for nothing here that can be relied on, nothing
   * is left, and this upload begins at 0.
   */
  readonly resume?: string | undefined
  /**
   * Told a token that takes the place of the one before: it stands for more, or, being empty, for nothing, where what has arrived cannot
   * be relied on any more. Resolves when it is kept.
   */
  readonly replace?: ((token: string) => Promise<void>) | undefined
}

/** A file on its way to its place. Nobody sees any of it before `commit`, and the old file stands. */
export interface Upload {
  /** To be kept before any byte is sent: what `resume` of a later plan is. */
  readonly token: string
  /** Bytes from the start that the backend surely holds, whatever happened to those who sent them. */
  readonly confirmed: number
  /** The bytes from `confirmed` on, to the end; once. Rejects as `Driver.write` does: what has arrived stays. */
  write(from: Readable): Promise<void>
  /** It takes its name, as `Driver.write` gives it one. */
  commit(): Promise<Entry>
  /** To be called in the end, however it went. Without a commit, what has arrived is kept. Never rejects. */
  close(): Promise<void>
}

export interface Link {
  /** `http` or `https`; with a slash at its start, an address of this gateway. */
  readonly url: string
  /** What a request for it must carry: nobody can be sent there with a redirect alone. */
  readonly headers?: Readonly<Record<string, string>>
  /** Absent: not known. Such a link is asked for each time. */
  readonly until?: Date
}

/** What a file is taken for by its name. */
export type ThumbnailKind = 'image' | 'video'

/** A whole picture, some kilobytes of it. */
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
  /** How many files there can be, and how many more, where the backend has a limit. */
  readonly files?: { readonly total: number; readonly free: number }
}

/** Facts that no method can tell. Each has a default, see `defaultTraits`. */
export interface Traits {
  /** What `write` needs of its source; Storage spools to meet it. */
  readonly writeNeeds: 'stream' | 'size' | 'reread'
  /** false: Storage reads from the start and skips. */
  readonly ranges: boolean
  /**
   * false: names that differ only in case, or in the form of their characters, are one name. `stat` then tells the name
   * as the backend spells it, whatever the spelling that was asked for.
   */
  readonly caseSensitive: boolean
  /** false: a folder is there as long as something is in it; `mkdir` makes nothing, and no parent is missed. */
  readonly emptyFolders: boolean
  /** Milliseconds to which a modification time is kept; Infinity: not kept. */
  readonly timeStep: number
  /**
   * Calls that Storage may have in flight: of any method, a page of a listing and each call of an open handle being one. As many streams
   * of `read` may be open beside them. Calls that are made within one, as for the source of a write, are part of it.
   */
  readonly parallel: number
  /** Kinds of files of which `thumbnail` makes pictures. */
  readonly thumbnails: readonly ThumbnailKind[]
  /** Its bytes go over a network: limits of speed to and from backends hold for it. */
  readonly remote: boolean
  /** A change is on the medium when its call resolves; what the gateway records about the files then is too. */
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

/** One configurable value of a driver: the row of the admin form, the check, and the type at once. */
export interface Field {
  readonly type: (typeof fieldTypes)[number]
  readonly default?: string | number | boolean
  /** It has a value: where it is left out, or empty, the default is taken, and without one it must be given. */
  readonly required?: boolean
  /** Of a required field: the default is what a form offers, and not taken where the field is left out. */
  readonly onlyOffered?: boolean
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
/** The options a driver is opened with: every field present, defaults filled in. */
export type OptionsOf<F extends Fields> = { readonly [K in keyof F]: ValueOf<F[K]> }

/** What the HTTP API tells of a driver beside its fields. Wire only: the core never reads it. */
export interface DriverConfig {
  readonly local_sort?: boolean
  readonly only_proxy?: boolean
  readonly no_cache?: boolean
  readonly no_upload?: boolean
  readonly need_ms?: boolean
  readonly default_root?: string
  readonly alert?: string
  readonly only_indices?: boolean
  readonly prefer_proxy?: boolean
  /** Offers the common field of this name; not shown itself. */
  readonly proxy_range?: boolean
}

export interface DriverType<F extends Fields = Fields> {
  /** As the admin sees it: 'Local'. */
  readonly name: string
  readonly fields: F
  readonly config?: DriverConfig
  readonly traits?: Partial<Traits>
  /** Imports the implementation only now. Rejects where the backend cannot be used. */
  open(options: OptionsOf<F>, env: DriverEnv): Promise<Driver>
}

/** All that a driver may lean on. */
export interface DriverEnv {
  readonly log: DriverLog
  /** Ends with the mount. */
  readonly signal: AbortSignal
  /** This run of the program: what a driver stages bears its name, so that a later run can sweep what a dead one left. */
  readonly instance: Instance
  readonly own: OwnFolders
  /** Stores changed options, such as a refreshed token. */
  save(options: Readonly<Record<string, unknown>>): Promise<void>
  /** A small store of its own. */
  readonly state: DriverState
  /** Tokens of uploads that somebody may go on with, of all storages: whatever else dead runs have staged is swept. */
  uploads(): Promise<readonly string[]>
  /**
   * A lazy view of another path of the tree, for drivers that stand on others: it is resolved at each
   * call, and writes pass the locks, properties and events of the target path too.
   */
  tree(path: Path): Driver
  /** For connections to hosts that nobody but a server or a user has named: an admin's own address needs none of it. */
  readonly egress: Egress
}

/** The guarded way out of this machine: to the public internet, and to the networks that an admin allows. */
export interface Egress {
  /**
   * The agent for one request to `url`, which must not be used for another one. Rejects with `invalid` for what is neither http nor https,
   * or holds credentials. A connection to an address that is not allowed fails with `denied`, whatever its host is called:
   * the request emits that as its `error`, or throws it where it is made.
   */
  agentFor(url: URL): Agent
}

/** Folders of this machine that belong to the gateway; absolute, and free of links. */
export interface OwnFolders {
  /** Relative paths in options start here. */
  readonly data: string
  /** No storage shows these, nor anything that holds one of them: keys, the database, half an upload. */
  readonly closed: readonly string[]
}

/** One run of the program among others, also among those on other machines. */
export interface Instance {
  /** Unlike that of any other: letters, digits and `-`, for a file to be named by. */
  readonly name: string
  /** Whether the run of this name is over; undefined where nobody here can tell, as of another machine's. */
  isOver(name: string): boolean | undefined
  /** Names this run of the machine: what a killed process has written is lost when it ends. Undefined where nobody can tell. */
  readonly boot?: string | undefined
}

export interface DriverState {
  get(key: string): Promise<string | undefined>
  set(key: string, value: string | undefined): Promise<void>
}

export interface DriverLog {
  debug(details: object, message: string): void
  info(details: object, message: string): void
  warn(details: object, message: string): void
  error(details: object, message: string): void
}

/** A driver type of any fields, for tables of them. */
export interface AnyDriverType extends Omit<DriverType, 'open'> {
  open(options: never, env: DriverEnv): Promise<Driver>
}
