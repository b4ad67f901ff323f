/**
 * What Storage does if its driver lacks an ability. A method that is absent and a call that rejects with `unsupported`
 * are equivalent, except for `realPath`. Only this folder replaces what a driver lacks, with two
 * exceptions: `src/transfer/` replaces `move`, and SFTP reports an fsync as done where the backend cannot flush
 * (docs/decisions/0029-sftp-ignores.md). A protocol chooses how to report what a storage cannot do. Storage itself
 * rejects with `unsupported` only where these tables say so, and of what a handle by streams cannot do.
 *
 * | ability          | without it                                                                                |
 * | ---------------- | ----------------------------------------------------------------------------------------- |
 * | `traits`         | `defaultTraits`                                                                           |
 * | `write`          | the storage is read-only: every change rejects                                            |
 * | `mkdir`          | rejects                                                                                   |
 * | `remove`         | rejects                                                                                   |
 * | `move`           | `tryMove` resolves to false, and `src/transfer/` copies and removes                       |
 * | `copy`           | a file is read and written; a folder or symlink rejects                                   |
 * | `removeTree`     | item by item (`removeItems`)                                                              |
 * | `open`           | by streams, or as a copy in the spool (`stream-handles.ts`)                               |
 * | `setAttributes`  | in the database (`attribute-overlay.ts`); rejects for what the trait `keeps` says is kept |
 * | `setSymlinkTime` | rejects                                                                                   |
 * | `readSymlink`    | rejects                                                                                   |
 * | `symlink`        | rejects                                                                                   |
 * | `hardLink`       | rejects                                                                                   |
 * | `realPath`       | the path itself; but `unsupported` is passed on, because access rules apply to the path   |
 * | `look`           | `realPath` and `stat`; also if the driver lacks `revision`                                |
 * | `identities`     | the path in this storage                                                                  |
 * | `revision`       | listings are cached for a time (`listings.ts`)                                            |
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
 * Without the trait `ranges`, a range is cut out of the whole file (`streamRange`). A source that has less than
 * `writeNeeds` and `writeHashes` say is sent from the spool (`sendAsNeeded`).
 */
import { Readable } from 'node:stream'
import type { OpenFile, WritableFile } from '../../contract/capabilities.js'
import { GatewayError, isGatewayError, toGatewayError, TreeError, type MemberFailure } from '../../base/errors.js'
import type { ByteRange, CallOptions, Source } from '../../contract/call-options.js'
import { isRealFolder, type Entry } from '../../contract/entry.js'
import type { Traits } from '../../contract/traits.js'
import { childOf, type Path } from '../../base/path.js'
import type { Spool } from './spool.js'
import type { Storage } from '../storage.js'

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

/** Returns a range of a stream that starts at byte 0. Bytes after the range are not read. */
export function streamRange(whole: Readable, range: ByteRange): Readable {
  const cut = Readable.from(bytesOf(whole, range), { objectMode: false })
  // The whole stream may fail before the range is read.
  whole.once('error', (error) => cut.destroy(error))
  return cut.once('close', () => whole.destroy())
}

async function* bytesOf(whole: Readable, range: ByteRange): AsyncGenerator<Buffer> {
  let skip = range.offset
  let left = range.length ?? Number.POSITIVE_INFINITY
  // If the iterator destroyed the stream on an early return, it would emit an error first. The caller destroys
  // the stream instead.
  for await (const chunk of whole.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    const from = Math.min(skip, chunk.length)
    skip -= from
    const bytes = chunk.subarray(from, Math.min(chunk.length, from + left))
    left -= bytes.length
    if (bytes.length > 0) yield bytes
    if (left === 0) return
  }
}

/** Sends a source by `send`, through the spool if the backend needs more than the source has. */
export async function sendAsNeeded(
  source: Source,
  { writeNeeds, writeHashes }: Pick<Traits, 'writeNeeds' | 'writeHashes'>,
  spool: Spool,
  signal: AbortSignal | undefined,
  send: (source: Source) => Promise<Entry>,
): Promise<Entry> {
  const sendSpooled = async () => {
    const lacking = writeHashes.filter((name) => source.hashes?.[name] === undefined)
    const spooled = await spool.receive(source, signal, false, lacking)
    try {
      return await send(spooled)
    } finally {
      await spooled.dispose()
    }
  }
  const isTooLittle =
    (writeNeeds === 'size' && source.size === undefined) ||
    (writeNeeds === 'reread' && !source.rereadable) ||
    writeHashes.some((name) => source.hashes?.[name] === undefined)
  if (isTooLittle) return sendSpooled()
  if (source.size !== undefined) return send(source)
  const body = { isRead: false }
  const read: Source['read'] = (range, options) => {
    body.isRead = true
    return source.read(range, options)
  }
  const { modified, hashes, rereadable } = source
  try {
    return await send({ modified, hashes, rereadable, read })
  } catch (error) {
    // Some backends report only now that they need the size.
    if (body.isRead || !isGatewayError(error, 'unsupported')) throw error
    return sendSpooled()
  }
}

/** Removes a folder item by item: see `Storage.removeTree`. */
export async function removeItems(
  storage: Storage,
  path: Path,
  removed: Path[],
  { signal }: CallOptions,
): Promise<void> {
  const failures: MemberFailure[] = []
  await removeFolder(storage, path, signal, failures, removed)
  const [first, ...others] = failures
  if (first) throw new TreeError([first, ...others])
}

async function removeFolder(
  storage: Storage,
  path: Path,
  signal: AbortSignal | undefined,
  failures: MemberFailure[],
  removed: Path[],
): Promise<void> {
  const [failuresBefore, removedBefore] = [failures.length, removed.length]
  const attempt = async (at: Path, work: () => Promise<void>) => {
    try {
      await work()
    } catch (error) {
      if (signal?.aborted === true) throw error
      // Removed concurrently by another request or program.
      if (!isGatewayError(error, 'not_found')) {
        failures.push({ path: storage.treePath(at), error: toGatewayError(error) })
      }
    }
  }
  await attempt(path, async () => {
    const members: Entry[] = []
    for await (const page of storage.pages(path, { signal })) members.push(...page)
    for (const member of members) {
      const at = childOf(path, member.name)
      if (isRealFolder(member)) {
        await removeFolder(storage, at, signal, failures, removed)
      } else {
        await attempt(at, async () => {
          await storage.remove(at, { signal })
          removed.push(at)
        })
      }
    }
    if (failures.length > failuresBefore) return
    await storage.remove(path, { signal })
    removed.splice(removedBefore, removed.length, path)
  })
}
