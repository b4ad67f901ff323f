/**
 * What the optional methods of `Driver` take and return, and those of its methods that few drivers have: resumable
 * uploads, links, and downloads by the backend.
 */
import type { Readable } from 'node:stream'
import type { CallOptions, Source, WriteOptions } from './call-options.js'
import type { Driver } from './driver.js'
import type { Entry, FileIdentity } from './entry.js'
import type { GatewayError } from '../base/errors.js'
import type { Path } from '../base/path.js'

export interface OpenOptions extends WriteOptions {
  /** The handle must support reads in addition to writes. */
  readonly readable?: boolean | undefined
}

/**
 * A stream that transfers ownership of its chunks: only its reader accesses their memory after they were read, so the
 * consumer may free them after use. A stream that passes these chunks on does not promise this unless it has this type
 * too.
 */
export interface DetachableReadable extends Readable {
  readonly givesChunks: true
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

/**
 * Random access to an open file. Supported by disks, memory, SMB and SFTP, but not by object stores. A handle has
 * `write` if, and only if, it was opened to write ('update' or 'replace').
 */
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
  /** Flushes the written data to stable storage, or rejects with `unsupported`, which changes nothing. */
  sync?(): Promise<void>
  /**
   * Publishes the file under its name. Before that, nothing visible has changed. Absent if each change is made in
   * place.
   */
  commit?(attributes?: Attributes): Promise<Entry>
  /** Discards what was written to a handle that has `commit`, unless it was called. */
  close(): Promise<void>
}

/** A handle that a storage has opened to write. A method that the driver's handle lacks rejects with `unsupported`. */
export type WritableFile = OpenFile & Required<Pick<OpenFile, 'write' | 'truncate' | 'sync'>>

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
  readonly beforePublish: (names: readonly string[]) => Promise<ReadonlySet<string>>
}

export interface UploadPlan {
  /** Bytes of the whole file. */
  readonly size: number
  /**
   * The whole file, for a backend that needs its hashes or ranges of it. Absent if it cannot be read more than once.
   */
  readonly source?: Source | undefined
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

/** Who will request a direct URL. Both are absent if the gateway does not know. */
export interface UrlClient {
  /** The `User-Agent` header that the client sends. */
  readonly userAgent?: string | undefined
  /** IP address of the client. */
  readonly address?: string | undefined
}

/** The options of `directUrl`. Of the client, a driver receives what its trait `urlsBoundTo` names. */
export interface DirectUrlOptions extends CallOptions, UrlClient {}

export interface DirectUrl {
  /** An `http` or `https` URL, or, with a leading slash, a path of this gateway. */
  readonly url: string
  /**
   * Headers that a request for it must carry, besides those of the client that the options describe. A URL with headers
   * cannot be the target of a redirect.
   */
  readonly headers?: Readonly<Record<string, string>>
  /** Expiry; absent if not known. A URL without expiry is requested anew each time. */
  readonly until?: Date
}

/** Kind of a file, derived from its name. */
export type ThumbnailKind = 'image' | 'video'

/** Pixels of the squares into which thumbnails fit: for lists, and for screens. */
export const thumbnailSizes = [256, 1024] as const
export type ThumbnailSize = (typeof thumbnailSizes)[number]

export interface ThumbnailOptions extends CallOptions {
  /** By default the first one. The picture of a smaller file is smaller, and a backend may have one size only. */
  readonly size?: ThumbnailSize | undefined
}

/** A complete image of a few kilobytes. */
export interface Thumbnail {
  /** Media type. */
  readonly type: string
  readonly bytes: Buffer
}

/** The space of a backend, in bytes. */
export interface Usage {
  readonly total: number
  readonly used: number
  readonly free: number
  /** Maximum and remaining number of files, if the backend has a limit. */
  readonly files?: { readonly total: number; readonly free: number }
}

/** A download that a backend makes by itself, as the backend reports it now. */
export interface RemoteDownload {
  /** Identifies the download at the backend, also after a restart of either side. */
  readonly id: string
  /** 'done': everything is stored in the folder, though a listing may lag. */
  readonly state: 'waiting' | 'running' | 'done' | 'failed'
  /** Bytes of the whole download; 0 if not known yet. */
  readonly totalBytes: number
  /** Bytes that are stored; never more than `totalBytes`. */
  readonly doneBytes: number
  /** The name of the file or folder in the target folder; absent if not known yet. */
  readonly name?: string
  /** Why a failed download failed. */
  readonly error?: GatewayError
}

/** Selects a download of a folder: by its id; without an id, by the address that it was added with. */
export interface RemoteDownloadQuery {
  readonly id?: string | undefined
  readonly address: string
}

export interface RemoveDownloadOptions extends CallOptions {
  /** Removes what the download has stored too. */
  readonly withFiles?: boolean | undefined
}

/** Uploads whose bytes the backend keeps until they are complete: both methods or neither. */
export interface ResumableUploads {
  /**
   * Starts or resumes an upload whose received bytes survive the process. Rejects as `write` does before it reads the
   * source, and with `unsupported` if this upload could not be resumable.
   */
  upload(path: Path, plan: UploadPlan, options?: WriteOptions): Promise<Upload>
  /** Discards the upload of this token, which must not be in use. An unknown token is not an error. */
  dropUpload(token: string, options?: CallOptions): Promise<void>
}

/** Symlinks, and several names of one file. A driver may have any of these methods. */
export interface Links {
  /**
   * Resolves every symlink in the parents of `path`; with `last`, also in its last segment. A dangling symlink resolves
   * to the path that does not exist; names below that are appended. A symlink of a loop is returned unresolved. Rejects
   * with `denied` if a symlink leads outside the driver. Required of a backend that follows symlinks.
   */
  realPath(path: Path, options?: CallOptions & { readonly last?: boolean | undefined }): Promise<Path>
  /**
   * The text of a symlink. An absolute text is a path of the driver. Rejects with `invalid` if the path is not a
   * symlink, and with `denied` if it leads outside the driver.
   */
  readSymlink(path: Path, options?: CallOptions): Promise<string>
  /**
   * Creates a symlink with the text `target`, which need not exist. Rejects with `exists` if the name is taken, and
   * with `denied` if the target is outside the driver.
   */
  symlink(path: Path, target: string, options?: CallOptions): Promise<void>
  /** Sets the time of a symlink and not of its target. Rejects with `invalid` if the path is not a symlink. */
  setSymlinkTime(path: Path, modified: Date, options?: CallOptions): Promise<void>
  /** Gives a file a second name. Rejects with `is_folder` for a folder, and with `exists` if `to` is taken. */
  hardLink(from: Path, to: Path, options?: CallOptions): Promise<void>
  /**
   * The identities of all files and folders that a change of the entry at `path` would modify, after following
   * symlinks. For backends whose files may be reachable by more than one path of one mount.
   */
  identities(path: Path, options?: CallOptions): Promise<readonly FileIdentity[]>
}

/** Downloads from the internet by the backend itself: all or none, and the type has `facts.downloadTool`. */
export interface RemoteDownloads {
  /**
   * Makes the backend download `address` into a folder. Resolves to the id of the download. Rejects with `exists` if
   * the backend already lists a download of this address, with `invalid` if it cannot download this address, and with
   * `no_space` if no space or quota is left.
   */
  addDownload(folder: Path, address: string, options?: CallOptions): Promise<string>
  /** Searches all that the backend lists. Resolves to undefined if it lists no such download into this folder. */
  findDownload(folder: Path, query: RemoteDownloadQuery, options?: CallOptions): Promise<RemoteDownload | undefined>
  /** Stops a download and removes it from the backend's list. An unknown id is not an error. */
  removeDownload(folder: Path, id: string, options?: RemoveDownloadOptions): Promise<void>
}
