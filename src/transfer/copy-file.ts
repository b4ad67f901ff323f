/**
 * Copies files and symlinks: locks the name, sets what is there aside, writes and verifies one file, or many small
 * files of a folder in one call, if the target's driver supports it (docs/decisions/0016). A copy that is not as its
 * source is removed. Also verifies a copy that an earlier run has made. Without `overwrite`, an entry that another
 * writer creates in the meantime is not replaced.
 */
import { contentVersion, hasReliableVersion, isRealFolder, isSymlink, type Entry } from '../contract/entry.js'
import { GatewayError, toGatewayError } from '../base/errors.js'
import { childOf, type Path } from '../base/path.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { ResumableUpload } from '../storage/fallbacks/resumable-write.js'
import type { Storage } from '../storage/storage.js'
import { countedSource } from '../storage/transfer-meter.js'
import type { HeldPathLocks } from '../locks/path-locks.js'
import { targetOf, type CopiedState, type CopyJob, type PublishOptions, type RemovedPart } from './copy-job.js'
import { isSameContent } from './same-file.js'

/** Minimum size in bytes of a file whose progress is reported while it is read. */
const minCountedSize = 1024 * 1024

/**
 * Copies a symlink as a symlink if both sides are on the same storage. Otherwise copies the file that it leads to, and
 * resolves to the written file.
 */
export async function copySymlink(
  job: CopyJob,
  from: Path,
  to: Path,
  old: Entry | undefined,
): Promise<Entry | undefined> {
  const { storage } = job.transfer.from
  if (storage === job.transfer.to.storage) {
    const target = await storage.readSymlink(from, { signal: job.transfer.signal })
    await job.assertSymlinkAllowed(storage.treePath(to), target)
    await withBackup(job, to, old, () => withPublishCheck(job, to, (signal) => storage.symlink(to, target, { signal })))
    return undefined
  }
  const entry = await storage.stat(from, { signal: job.transfer.signal })
  if (entry.kind !== 'file')
    throw new GatewayError('unsupported', { reason: 'a symlink to a folder cannot be copied to another storage' })
  await job.assertReadable(storage.treePath(from))
  return writeFile(job, from, to, entry, old)
}

/**
 * Runs `work` under the path lock of a new name in the target, after the last check. The signal for its calls aborts
 * also when the lock is lost, here and below.
 */
export function withPublishCheck<T>(
  job: CopyJob,
  to: Path,
  work: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  const locks = job.newLocks()
  return locks.runAndEnd(async () => {
    await assertPublishable(job, locks, to, { replaces: false, isNew: true })
    return work(locks.signal)
  })
}

/** The last check before a file is published under this name. Takes its path lock. */
async function assertPublishable(job: CopyJob, locks: HeldPathLocks, to: Path, asked: PublishOptions): Promise<void> {
  const path = job.transfer.to.storage.treePath(to)
  const refused = await job.refusedNames(locks, [path], asked)
  if (!refused.has(path)) return
  locks.release()
  throw refused.get(path)
}

/**
 * Moves the old entry to a backup while `work` creates its replacement, and restores it if that fails. If the storage
 * cannot rename a folder, the folder is removed only after `writeReserved` has completely written the replacement under
 * a reserved name.
 */
export async function withBackup<T>(
  job: CopyJob,
  to: Path,
  old: Entry | undefined,
  work: () => Promise<T>,
  writeReserved?: (at: Path) => Promise<T>,
): Promise<T> {
  if (!old) return work()
  if (!job.transfer.overwrite) throw new GatewayError('exists')
  const place: MountedPath = { storage: job.transfer.to.storage, inner: to }
  const isTree = isRealFolder(old)
  const backup = await withRemovalCheck(job, 'replaced', to, isTree, (signal) =>
    job.dependencies.intents.moveToBackup(place, signal ?? job.transfer.signal),
  )
  if (backup) {
    try {
      const result = await work()
      await backup.markReplaced()
      return result
    } finally {
      await backup.restoreOrDiscard()
    }
  }
  if (!writeReserved) {
    throw new GatewayError('unsupported', { reason: 'this storage can replace a folder only with a file' })
  }
  const reserved = await job.dependencies.intents.reserveBackup(place)
  try {
    const result = await writeReserved(reserved.at)
    await withRemovalCheck(job, 'replaced', to, isTree, (signal) => job.transfer.to.storage.removeTree(to, { signal }))
    return result
  } finally {
    await reserved.restoreOrDiscard()
  }
}

/** Runs `work` under the path lock of an entry that it removes, after the last check. `tree`: with all its members. */
export function withRemovalCheck<T>(
  job: CopyJob,
  what: RemovedPart,
  at: Path,
  tree: boolean,
  work: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  const locks = job.newLocks()
  return locks.runAndEnd(async () => {
    await job.assertRemovable(locks, what, at, tree)
    return work(locks.signal)
  })
}

/** Resolves to the verified copy. */
export async function writeFile(
  job: CopyJob,
  from: Path,
  to: Path,
  entry: Entry,
  old: Entry | undefined,
): Promise<Entry> {
  if (old && !job.transfer.overwrite) throw new GatewayError('exists')
  const write = (at: Path) => writeInto(job, from, to, entry, { at, isNew: !old })
  return old?.kind === 'folder' ? withBackup(job, to, old, () => write(to), write) : write(to)
}

/** `at`: the path that is written; `to`: the path of the target, for which the publication is checked. */
async function writeInto(
  job: CopyJob,
  from: Path,
  to: Path,
  entry: Entry,
  { at, isNew }: { readonly at: Path; readonly isNew: boolean },
): Promise<Entry> {
  const { storage } = job.transfer.to
  const locks = job.newLocks()
  const options = {
    signal: locks.signal,
    holder: job.transfer.holder,
    modified: entry.modified,
    mode: entry.mode,
    createOnly: !job.transfer.overwrite,
    resumable: resumableUploadOf(job, from, entry),
    beforePublish: async () => {
      await assertUnchanged(job.transfer.from.storage, from, entry, job.transfer.signal)
      // A backend that rejects the copy after this check causes a second call.
      locks.release()
      await assertPublishable(job, locks, to, { replaces: job.transfer.overwrite, isNew })
    },
  }
  const original = job.transfer.meter.source(job.transfer.from.storage, from, entry, job.transfer.holder)
  const source = entry.size > minCountedSize ? countedSource(original, (bytes) => job.advance(bytes)) : undefined
  const write = async () => {
    const counted = transfer.counted(source ?? original)
    if (job.transfer.from.storage !== storage) return storage.write(at, counted, options)
    await storage.copy(from, at, { ...options, source: counted })
    return storage.stat(at, { signal: job.transfer.signal })
  }
  const transfer = job.transfer.meter.start(storage, 'write')
  try {
    const written = await locks.runAndEnd(() =>
      transfer.run(async () => {
        const copy = await write()
        const difference = differenceOf(entry, copy)
        if (difference === undefined) return copy
        const remove = async () => {
          // The replaced file may be the source itself under another name. The source has changed then.
          if (!isNew) await assertUnchanged(job.transfer.from.storage, from, entry, job.transfer.signal)
          await removeCopy(storage, at, copy, locks.signal)
        }
        const cause = await remove().then(() => undefined, toGatewayError)
        const reason = cause ? `${difference}, and was not removed` : difference
        throw new GatewayError('internal', { reason, cause })
      }),
    )
    if (source) source.complete()
    else job.advance(entry.size)
    return written
  } catch (error) {
    source?.revert()
    throw error
  }
}

/** The source must be unchanged since it was read, or the copy could mix two versions of it. */
async function assertUnchanged(storage: Storage, path: Path, entry: Entry, signal: AbortSignal): Promise<void> {
  const now = await storage.stat(path, { signal, refresh: true })
  const same =
    entry.revision !== undefined && now.revision !== undefined
      ? entry.revision === now.revision
      : entry.size === now.size && entry.modified.getTime() === now.modified.getTime()
  if (!same) throw new GatewayError('busy', { detail: 'source_changed' })
}

/**
 * Undefined for a source whose content could change without its state: an upload must not combine bytes of two
 * versions.
 */
function resumableUploadOf(
  { transfer: { from, journal } }: CopyJob,
  path: Path,
  entry: Entry,
): ResumableUpload | undefined {
  if (!hasReliableVersion(entry)) return undefined
  // A storage whose configuration was changed may lead to another file with the same state.
  const { id, modified } = from.storage.row
  return journal.resumableUpload(from.storage.treePath(path), [id, modified.getTime(), contentVersion(entry)].join(' '))
}

/** In which of size and digests a copy differs from its source, in words; undefined if in none. */
function differenceOf(entry: Entry, copy: Entry): string | undefined {
  if (entry.size !== copy.size) return `the copy has ${copy.size} bytes, the source ${entry.size}`
  for (const [name, digest] of Object.entries(entry.hashes ?? {})) {
    const other = copy.hashes?.[name]
    if (other !== undefined && other !== digest) return `the copy has another ${name}`
  }
  return undefined
}

/**
 * Removes a copy that is not as its source. Its path lock must be held. A symlink is followed, as by the write. Rejects
 * with `busy` if another program has changed it since it was written.
 */
async function removeCopy(storage: Storage, at: Path, copy: Entry, signal: AbortSignal | undefined): Promise<void> {
  const path = await storage.realPath(at, { signal, last: true })
  const now = await storage.stat(path, { signal, refresh: true })
  if (contentVersion(now) !== contentVersion(copy)) throw new GatewayError('busy', { reason: 'it was changed' })
  await storage.remove(path, { signal })
}

/** Maximum size in bytes of a file in a bundle. */
const maxSmallSize = 128 * 1024
/** Maximum number of files in a bundle. */
const maxBundleSize = 64
/** Minimum number of files in a bundle; fewer are copied one by one. */
const minBundleSize = 8

/** Small files of one folder of the source. */
export interface Bundle {
  readonly folder: Path
  readonly files: readonly Entry[]
}

/** Bundles of those members of a folder that can be copied together. */
export function createBundles(
  { transfer: { from, to } }: CopyJob,
  folder: Path,
  members: Iterable<Entry>,
): readonly Bundle[] {
  if (!to.storage.takesFilesOf(from.storage)) return []
  const files = [...members].filter(isSmallFile)
  const bundles: Bundle[] = []
  for (let at = 0; files.length - at >= minBundleSize; at += maxBundleSize)
    bundles.push({ folder, files: files.slice(at, at + maxBundleSize) })
  return bundles
}

function isSmallFile(entry: Entry): boolean {
  return !isRealFolder(entry) && !isSymlink(entry) && entry.size <= maxSmallSize && entry.revision !== undefined
}

/**
 * Copies the files into the folder `to`. Resolves, in the order of the files, to the copy, or to undefined for a file
 * that was not copied or not verified.
 */
export async function copyBundle(
  job: CopyJob,
  { folder, files }: Bundle,
  to: Path,
): Promise<readonly (Entry | undefined)[]> {
  const { from, to: target } = job.transfer
  const pathOf = (name: string) => target.storage.treePath(childOf(to, name))
  // A copy that a storage makes within itself is no transfer.
  const isTransfer = from.storage !== target.storage
  const transfers = isTransfer
    ? [job.transfer.meter.start(from.storage, 'read'), job.transfer.meter.start(target.storage, 'write')]
    : []
  const locks = job.newLocks()
  const beforePublish = async (names: readonly string[]) => {
    const refused = await job.refusedNames(locks, names.map(pathOf), { replaces: false, isNew: true })
    return new Set(names.filter((name) => !refused.has(pathOf(name))))
  }
  const verified = async (entry: Entry, copy: Entry | undefined) => {
    if (!copy || differenceOf(entry, copy) === undefined) return copy
    // If that fails, the copy of this file alone reports that the name is taken.
    await removeCopy(target.storage, childOf(to, entry.name), copy, locks.signal).catch(() => undefined)
    return undefined
  }
  try {
    const bundle = { source: from.storage, from: folder, to, files, beforePublish }
    const copies = await locks.runAndEnd(async () => {
      const made = await target.storage.copyFiles(bundle, { signal: locks.signal })
      return Promise.all(files.map((entry, index) => verified(entry, made[index])))
    })
    const bytes = copies.reduce((sum, copy) => sum + (copy?.size ?? 0), 0)
    for (const transfer of transfers) {
      transfer.count(bytes)
      transfer.end()
    }
    return copies
  } catch (error) {
    for (const transfer of transfers) transfer.end(error)
    throw error
  }
}

/**
 * Checks whether the entry at the target is the copy of a source, so that a later run can skip it, or a move can remove
 * the source. Resolves to `known` if the copy is in the state that was verified. Otherwise compares the content, and
 * resolves to a new state if it is equal, or to undefined if it differs. `entry` is the source, `copy` the entry at the
 * target.
 */
export async function verifiedCopy(
  job: CopyJob,
  from: Path,
  entry: Entry,
  copy: Entry,
  known: CopiedState | undefined,
): Promise<CopiedState | undefined> {
  if (known?.copy === contentVersion(copy) && (isSymlink(entry) || differenceOf(entry, copy) === undefined))
    return known
  const isEqual = isSymlink(entry) ? isEqualSymlink(job, from, copy) : isEqualFile(job, from, entry, copy)
  if (!(await isEqual)) return undefined
  // Another writer may have put the source itself there, so the two are not known to be distinct.
  return { source: contentVersion(entry), size: entry.size, distinct: false, copy: contentVersion(copy) }
}

/** Compares in the way `copySymlink` copies: the target text, or the content of the file it leads to. */
async function isEqualSymlink(job: CopyJob, from: Path, copy: Entry): Promise<boolean> {
  const { signal } = job.transfer
  const { storage } = job.transfer.from
  if (storage === job.transfer.to.storage) {
    if (!isSymlink(copy)) return false
    const [text, other] = await Promise.all(
      [from, targetOf(job, from)].map((at) => storage.readSymlink(at, { signal })),
    )
    return text === other
  }
  const entry = await storage.stat(from, { signal })
  if (entry.kind !== 'file') return false
  await job.assertReadable(storage.treePath(from))
  return isEqualFile(job, from, entry, copy)
}

async function isEqualFile(job: CopyJob, from: Path, entry: Entry, copy: Entry): Promise<boolean> {
  if (copy.kind !== 'file' || isSymlink(copy)) return false
  const { from: source, to, meter, holder, signal } = job.transfer
  const one = meter.source(source.storage, from, entry, holder)
  return isSameContent(one, meter.source(to.storage, targetOf(job, from), copy, holder), signal)
}
