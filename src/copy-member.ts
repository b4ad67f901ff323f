/** One file or link of a copy: written, verified, and never over what somebody else has put there meanwhile. */
import { stateOf, tellsChanges } from './change.js'
import type { CopyJob, Going } from './copy-job.js'
import { countedSource } from './counted-source.js'
import type { Entry } from './driver.js'
import { GatewayError, SourceChangedError } from './errors.js'
import type { KeptUpload } from './kept-uploads.js'
import type { Place } from './mounts.js'
import type { Path } from './path.js'
import { removeAll } from './removing.js'
import type { Storage } from './storage.js'

/** Bytes of a file from which on its progress is told while it is read. */
const large = 1024 * 1024

export function isLink(entry: Entry): boolean {
  return entry.kind === 'link' || entry.isLink === true
}

/** A link to a folder is none. */
export function isFolder(entry: Entry): boolean {
  return entry.kind === 'folder' && entry.isLink !== true
}

/**
 * A link is copied as a link where both sides have them; else what it leads to is copied if that is a file, and this resolves to
 * the file that was written.
 */
export async function copyLink(job: CopyJob, from: Path, to: Path, old: Entry | undefined): Promise<Entry | undefined> {
  const { storage } = job.from
  if (storage === job.to.storage) {
    const target = await storage.readLink(from, { signal: job.signal })
    await job.assertLink(storage.treePath(to), target)
    await inPlaceOf(job, to, old, () => published(job, to, () => storage.symlink(to, target, { signal: job.signal })))
    return undefined
  }
  const entry = await storage.stat(from, { signal: job.signal })
  if (entry.kind !== 'file')
    throw new GatewayError('unsupported', { reason: 'a link to a folder is not copied to another storage' })
  await job.assertReadable(storage.treePath(from))
  return writeFile(job, from, to, entry, old)
}

/** Runs the last check, then `work` under the reservation that it took. */
export async function published<T>(job: CopyJob, to: Path, work: () => Promise<T>): Promise<T> {
  const release = await cleared(job, to, false)
  try {
    return await work()
  } finally {
    release()
  }
}

/** The last check before a file takes this name. Resolves to what ends the reservation that it took. */
async function cleared(job: CopyJob, to: Path, replaces: boolean): Promise<() => void> {
  const path = job.to.storage.treePath(to)
  const { refused, release } = await job.beforePublish([path], replaces)
  if (!refused.has(path)) return release
  release()
  throw refused.get(path)
}

/**
 * Does `work` in the place of what stands there, which comes back where nothing takes its place. Of a folder that cannot be set
 * aside, nothing goes before `writeAside` has written all that takes its place.
 */
export async function inPlaceOf<T>(
  job: CopyJob,
  to: Path,
  old: Entry | undefined,
  work: () => Promise<T>,
  writeAside?: (at: Path) => Promise<T>,
): Promise<T> {
  if (!old) return work()
  if (!job.overwrite) throw new GatewayError('exists')
  const place: Place = { storage: job.to.storage, inner: to }
  const aside = await removing(job, 'replaced', to, old, () => job.setAside(place))
  if (aside) {
    try {
      const done = await work()
      await aside.taken()
      return done
    } finally {
      await aside.settle()
    }
  }
  if (!writeAside) {
    throw new GatewayError('unsupported', { reason: 'this storage puts nothing but a file in the place of a folder' })
  }
  const written = await job.writeAside(place)
  try {
    const done = await writeAside(written.at)
    await removing(job, 'replaced', to, old, () => removeAll(job.to.storage, to, job.signal))
    return done
  } finally {
    await written.settle()
  }
}

/** Runs the last check before `old` goes from the target, then `work` under the reservation that it took. */
export async function removing<T>(job: CopyJob, what: Going, at: Path, old: Entry, work: () => Promise<T>): Promise<T> {
  const done = await job.beforeRemove(what, at, isFolder(old))
  try {
    return await work()
  } finally {
    done()
  }
}

/** Resolves to the copy as it was verified. */
export async function writeFile(
  job: CopyJob,
  from: Path,
  to: Path,
  entry: Entry,
  old: Entry | undefined,
): Promise<Entry> {
  if (old && !job.overwrite) throw new GatewayError('exists')
  const write = (at: Path) => writeInto(job, from, to, entry, at)
  return old?.kind === 'folder' ? inPlaceOf(job, to, old, () => write(to), write) : write(to)
}

/** `at`: where it is written; `to`: the name that it is for. */
async function writeInto(job: CopyJob, from: Path, to: Path, entry: Entry, at: Path): Promise<Entry> {
  const { storage } = job.to
  let done: (() => void) | undefined
  const options = {
    signal: job.signal,
    modified: entry.modified,
    mode: entry.mode,
    createOnly: !job.overwrite,
    kept: keptOf(job, from, entry),
    beforePublish: async () => {
      await assertUnchanged(job.from.storage, from, entry, job.signal)
      // Of a backend that found out late that it cannot copy, this is the second time.
      done?.()
      done = await cleared(job, to, job.overwrite)
    },
  }
  const plain = job.from.storage.source(from, entry)
  const source = entry.size > large ? countedSource(plain, job.advance) : undefined
  try {
    const byItself = job.from.storage === storage && (await storage.copy(from, at, options))
    const written = byItself
      ? await storage.stat(at, { signal: job.signal })
      : await storage.write(at, source ?? plain, options)
    assertSame(entry, written)
    if (byItself || !source) job.advance(entry.size)
    return written
  } catch (error) {
    source?.takeBack()
    throw error
  } finally {
    done?.()
  }
}

/** The source must still be the one that was read, or the copy is of neither the old nor the new one. */
async function assertUnchanged(storage: Storage, path: Path, entry: Entry, signal: AbortSignal): Promise<void> {
  const now = await storage.stat(path, { signal, fresh: true })
  const same =
    entry.revision !== undefined && now.revision !== undefined
      ? entry.revision === now.revision
      : entry.size === now.size && entry.modified.getTime() === now.modified.getTime()
  if (!same) throw new SourceChangedError()
}

/** Undefined of a source that may become another one in the same state: nothing must be put to the first half of an old one. */
function keptOf({ from, journal }: CopyJob, path: Path, entry: Entry): KeptUpload | undefined {
  if (!tellsChanges(entry)) return undefined
  // A storage that is configured anew may lead elsewhere, to a file that is told in the same words.
  const { id, modified } = from.storage.row
  return journal.keptUpload(from.storage.treePath(path), [id, modified.getTime(), stateOf(entry)].join(' '))
}

function assertSame(entry: Entry, copy: Entry): void {
  if (entry.size !== copy.size) {
    throw new GatewayError('internal', { reason: `the copy has ${copy.size} bytes, the source ${entry.size}` })
  }
  for (const [name, digest] of Object.entries(entry.hashes ?? {})) {
    const other = copy.hashes?.[name as keyof typeof copy.hashes]
    if (other !== undefined && other !== digest)
      throw new GatewayError('internal', { reason: `the copy has another ${name}` })
  }
}

export function isSame(entry: Entry, copy: Entry): boolean {
  try {
    assertSame(entry, copy)
    return true
  } catch {
    return false
  }
}
