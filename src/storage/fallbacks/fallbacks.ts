/**
 * What Storage does if its driver lacks an ability. A method that is absent and a call that rejects with `unsupported`
 * are equivalent, except for `realPath`. Only `src/storage/` replaces what a driver lacks, by what is in this file, or
 * where that takes more, in the file that the tables name. There are two exceptions: `src/transfer/` replaces `move`,
 * and SFTP reports as done an fsync that the backend cannot make, and a new folder without its mode, which the log
 * tells (docs/decisions/0029-sftp-ignores.md). A protocol chooses how to report what a storage cannot do. Storage
 * itself rejects with `unsupported` only where these tables say so, and of what a handle by streams cannot do.
 *
 * | ability          | without it                                                                                |
 * | ---------------- | ----------------------------------------------------------------------------------------- |
 * | `traits`         | `defaultTraits`                                                                           |
 * | `write`          | the storage is read-only: every change rejects                                            |
 * | `mkdir`          | rejects                                                                                   |
 * | `remove`         | rejects                                                                                   |
 * | `move`           | `tryMove` resolves to false, and `src/transfer/` copies and removes                       |
 * | `copy`           | a file is read and written (`copyByStreams`); a folder or symlink rejects                 |
 * | `removeTree`     | item by item (`remove-tree.ts`)                                                           |
 * | `open`           | by streams, or as a copy in the spool (`open-to-read.ts`, `open-to-write.ts`)             |
 * | `setAttributes`  | in the database (`attribute-overlay.ts`); rejects for what the trait `keeps` says is kept |
 * | `setSymlinkTime` | rejects                                                                                   |
 * | `readSymlink`    | rejects                                                                                   |
 * | `symlink`        | rejects                                                                                   |
 * | `hardLink`       | rejects                                                                                   |
 * | `realPath`       | the path itself; but `unsupported` is passed on, because access rules apply to the path   |
 * | `look`           | `realPath` and `stat` (`lookBySteps`); also if the driver lacks `folderRevision`          |
 * | `identities`     | the path in this storage (`identityByPath`)                                               |
 * | `folderRevision` | listings are cached for a time (`listings.ts`)                                            |
 * | `directUrl`      | undefined: the gateway sends the file                                                     |
 * | `thumbnail`      | undefined: there is none                                                                  |
 * | `usage`          | rejects; `usageOrUndefined` resolves to undefined                                         |
 * | `upload`         | an interrupted upload starts again: `write` (`resumable-write.ts`)                        |
 * | `dropUpload`     | nothing: a driver without `upload` has none to discard                                    |
 * | `addDownload`    | rejects; `hasDownloads` tells                                                             |
 * | `findDownload`   | rejects                                                                                   |
 * | `removeDownload` | rejects                                                                                   |
 * | `copyFiles`      | rejects; `takesFilesOf` tells, and files are copied one by one                            |
 * | `removeOrphans`  | nothing: what ended runs have left is removed when the storage starts                     |
 * | `close`          | nothing: there is nothing to release                                                      |
 *
 * What it does if a handle lacks an ability. A handle that was opened to write has each of the first three methods.
 *
 * | of a handle         | without it                                                                             |
 * | ------------------- | -------------------------------------------------------------------------------------- |
 * | `write`             | rejects                                                                                |
 * | `truncate`          | rejects                                                                                |
 * | `sync`              | rejects                                                                                |
 * | `commit`            | absent: each change is made in place                                                   |
 * | `preferredReadSize` | absent: no size is preferred                                                           |
 *
 * Without the trait `ranges`, a range is cut out of the whole file; a stream that the backend cuts goes on (`read.ts`).
 * A source that has less than `writeNeeds` and `writeHashes` say is sent from the spool (`spool.ts`). Without the trait
 * `emptyFolders`, empty folders are in the database (`empty-folders.ts`).
 */
import type { CallOptions } from '../../contract/call-options.js'
import type { LookupResult, OpenFile, WritableFile } from '../../contract/capabilities.js'
import type { FileIdentity } from '../../contract/entry.js'
import { GatewayError, isGatewayError } from '../../base/errors.js'
import { foldCase, type Path } from '../../base/path.js'
import type { Storage, StorageCopyOptions } from '../storage.js'

/** Resolves as the call does, and to undefined if it was not made, or rejects with `unsupported`. */
export async function undefinedIfUnsupported<T>(call: Promise<T> | false): Promise<T | undefined> {
  try {
    return call === false ? undefined : await call
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) return undefined
    throw error
  }
}

/** Whether the driver has made the call. Rejects as it does, except with `unsupported`. */
export async function isSupported(call: Promise<unknown>): Promise<boolean> {
  try {
    await call
    return true
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) return false
    throw error
  }
}

/** Does the work of `look` in two calls: returns the path without symlinks, and the entry at it. */
export async function lookBySteps(storage: Storage, path: Path, options: CallOptions): Promise<LookupResult> {
  const real = await storage.realPath(path, { ...options, last: true })
  return { path: real, entry: await storage.statOrUndefined(real, options) }
}

/** The identity of what a backend reports under one path only. */
export function identityByPath({ row, traits }: Storage, path: Path): FileIdentity {
  return { namespace: `storage ${row.id}`, name: traits.caseSensitive ? path : foldCase(path) }
}

/**
 * Copies a file through the gateway. Rejects with `unsupported` for a folder or a symlink, and with `busy` if the copy
 * has another size than the source had.
 */
export async function copyByStreams(
  storage: Storage,
  from: Path,
  to: Path,
  { source, ...options }: StorageCopyOptions,
): Promise<void> {
  const entry = await storage.stat(from, { signal: options.signal, refresh: true })
  if (entry.kind !== 'file') throw new GatewayError('unsupported', { reason: 'only files can be copied' })
  const { modified = entry.modified, mode = entry.mode } = options
  const sent = source ?? storage.source(from, entry, options.holder)
  const written = await storage.write(to, sent, { ...options, modified, mode })
  if (written.size !== entry.size) throw new GatewayError('busy', { detail: 'source_changed' })
}

/** Returns a handle that was opened to write with each method of `WritableFile`. What it lacks rejects. */
export function withAllWrites(file: OpenFile): WritableFile {
  if (hasAllWrites(file)) return file
  const { entry, preferredReadSize } = file
  const rejecting = (reason: string) => async () => {
    throw new GatewayError('unsupported', { reason })
  }
  return {
    entry,
    ...(preferredReadSize !== undefined && { preferredReadSize }),
    read: (into, position) => file.read(into, position),
    write: file.write?.bind(file) ?? rejecting('this storage cannot write to an open file'),
    truncate: file.truncate?.bind(file) ?? rejecting('this storage cannot truncate an open file'),
    sync: file.sync?.bind(file) ?? rejecting('this storage cannot flush an open file'),
    ...(file.commit && { commit: file.commit.bind(file) }),
    close: () => file.close(),
  }
}

function hasAllWrites(file: OpenFile): file is WritableFile {
  return file.write !== undefined && file.truncate !== undefined && file.sync !== undefined
}
