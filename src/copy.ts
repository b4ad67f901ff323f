/**
 * Copies and moves of trees, within a storage that cannot do them itself and between storages. Every file is verified;
 * a move removes a source only after that, last, and only if it is still the one that was read.
 */
import { randomUUID } from 'node:crypto'
import { TreeError, type Failure } from './change.js'
import type { Entry } from './driver.js'
import { GatewayError, isGatewayError, toGatewayError } from './errors.js'
import type { Place } from './mounts.js'
import { childOf, folded, parentOf, reservedPrefix, type Path } from './path.js'
import type { Storage } from './storage.js'

export interface CopyJob {
  readonly from: Place
  readonly to: Place
  readonly signal: AbortSignal
  /** false: a folder without its members. */
  readonly deep: boolean
  /** Existing folders are entered and existing files left alone; otherwise the target is replaced as a whole. */
  readonly merge: boolean
  /** false: `exists` where something has the target's name. */
  readonly overwrite: boolean
  /** Whether a member of the source, by its path in the whole tree, is to be left out. */
  readonly leaveOut: (path: Path) => boolean
  /**
   * Gives what stands at this path of the target another name, where its storage can; resolves to what removes it, or
   * puts it back where nothing took its place.
   */
  readonly setAside: (path: Path) => Promise<(() => Promise<void>) | undefined>
  /** Rejects where what a link at this path of the tree leads to may not be read. */
  readonly assertReadable: (source: Path) => Promise<void>
  /** Rejects where a link with this text must not stand at this path of the tree. */
  readonly assertLink: (target: Path, text: string) => Promise<void>
  /** The last check before a file takes its name in the target. Resolves to what ends the reservation it took. */
  readonly beforePublish: (target: Path) => Promise<() => void>
}

/** Members that are copied at once. */
const atOnce = 4

/** One thing that was copied or moved, by its paths in the two storages. */
export interface Copied {
  readonly from: Path
  readonly to: Path
  /** The source as it was when it was read. */
  readonly entry: Entry
}

/**
 * Copies what stands at `from`. Rejects with TreeError for what could not be copied; the rest is there. What was copied is
 * put into `copied`, folders after their members, also where it rejects.
 */
export async function copyTree(job: CopyJob, copied: Copied[]): Promise<void> {
  const failures: Failure[] = []
  await copyOne(job, job.from.inner, job.to.inner, copied, failures)
  throwFailures(failures)
}

/**
 * Copies, then removes what was copied. What failed, or changed meanwhile, stays where it was. What is gone from the source
 * is put into `moved`, folders after their members, also where it rejects.
 */
export async function moveTree(job: CopyJob, moved: Copied[]): Promise<void> {
  const copied: Copied[] = []
  const failures: Failure[] = []
  await copyOne({ ...job, deep: true }, job.from.inner, job.to.inner, copied, failures)
  const source = job.from.storage
  for (const each of copied) {
    const { from, entry } = each
    try {
      if (entry.kind !== 'folder') await assertUnchanged(source, from, entry, isLink(entry), job.signal)
      await source.remove(from, { signal: job.signal })
      moved.push(each)
    } catch (error) {
      if (job.signal.aborted) throw error
      // A folder that still holds what failed, or what came meanwhile, stays: that is told once, by its member.
      if (!(isGatewayError(error, 'not_empty') && failures.length > 0)) {
        failures.push({ path: source.treePath(from), error: toGatewayError(error) })
      }
    }
  }
  throwFailures(failures)
}

function isLink(entry: Entry): boolean {
  return entry.kind === 'link' || entry.isLink === true
}

function throwFailures(failures: readonly Failure[]): void {
  const [first, ...others] = failures
  if (first) throw new TreeError([first, ...others])
}

async function copyOne(job: CopyJob, from: Path, to: Path, copied: Copied[], failures: Failure[]): Promise<void> {
  try {
    const entry = await job.from.storage.stat(from, { signal: job.signal, link: true })
    if (isLink(entry)) await copyLink(job, from, to, entry, copied)
    else if (entry.kind === 'folder') await copyFolder(job, from, to, entry, copied, failures)
    else await copyFile(job, from, to, entry, copied)
  } catch (error) {
    if (job.signal.aborted) throw error
    failures.push({ path: job.to.storage.treePath(to), error: toGatewayError(error) })
  }
}

/** A link is copied as a link where both sides have them; else what it leads to is copied if that is a file. */
async function copyLink(job: CopyJob, from: Path, to: Path, link: Entry, copied: Copied[]): Promise<void> {
  const { storage } = job.from
  if (storage === job.to.storage) {
    const target = await storage.readLink(from, { signal: job.signal })
    await job.assertLink(storage.treePath(to), target)
    const old = await existing(storage, to, job.signal)
    if (job.merge && old) return
    await inPlaceOf(job, to, old, () => published(job, to, () => storage.symlink(to, target, { signal: job.signal })))
    copied.push({ from, to, entry: link })
    return
  }
  const entry = await storage.stat(from, { signal: job.signal })
  if (entry.kind !== 'file')
    throw new GatewayError('unsupported', { reason: 'a link to a folder is not copied to another storage' })
  await job.assertReadable(storage.treePath(from))
  await writeFile(job, from, to, entry)
  copied.push({ from, to, entry: link })
}

/** Runs the last check, then `work` under the reservation that it took. */
async function published<T>(job: CopyJob, to: Path, work: () => Promise<T>): Promise<T> {
  const done = await job.beforePublish(job.to.storage.treePath(to))
  try {
    return await work()
  } finally {
    done()
  }
}

/** Does `work` in the place of what stands there, which comes back where nothing takes its place. */
async function inPlaceOf<T>(job: CopyJob, to: Path, old: Entry | undefined, work: () => Promise<T>): Promise<T> {
  if (!old) return work()
  if (!job.overwrite) throw new GatewayError('exists')
  const settle = await job.setAside(to)
  if (!settle) {
    await removeAll(job.to.storage, to, job.signal)
    return work()
  }
  try {
    return await work()
  } finally {
    await settle()
  }
}

async function copyFolder(
  job: CopyJob,
  from: Path,
  to: Path,
  entry: Entry,
  copied: Copied[],
  failures: Failure[],
): Promise<void> {
  const { storage } = job.to
  const surplus = await makeFolder(job, to)
  const failed = failures.length
  const names = job.deep ? await memberNames(job, from, to, failures) : new Map<string, string>()
  const waiting = names.values()
  const worker = async () => {
    for (const name of waiting) {
      await copyOne(job, childOf(from, name), childOf(to, name), copied, failures)
    }
  }
  // When one gives up, the others are waited for: nothing of this goes on behind the caller's back.
  const workers = await Promise.allSettled(Array.from({ length: Math.min(atOnce, names.size) }, worker))
  for (const ended of workers) if (ended.status === 'rejected') throw ended.reason
  // What the old target held beyond the copy goes last, and only if everything of the copy is there.
  if (failures.length === failed) {
    for (const name of surplus) {
      if (!names.has(asTold(storage, name))) await removeAll(storage, childOf(to, name), job.signal)
    }
  }
  if (entry.modified.getTime() > 0) {
    await storage
      .setAttributes(to, { modified: entry.modified, mode: entry.mode }, { signal: job.signal })
      .catch(() => undefined)
  }
  copied.push({ from, to, entry })
}

/** A name as the storage tells it from others. */
function asTold({ traits }: Storage, name: string): string {
  return traits.caseSensitive ? name : folded(name)
}

/** Members of a folder of the source that go along, by what the target tells them apart by; of two that it cannot, one fails. */
async function memberNames(
  job: CopyJob,
  from: Path,
  to: Path,
  failures: Failure[],
): Promise<ReadonlyMap<string, string>> {
  const [source, target] = [job.from.storage, job.to.storage]
  const names = new Map<string, string>()
  for await (const page of source.pages(from, { signal: job.signal })) {
    for (const { name } of page) {
      if (name.startsWith(reservedPrefix) || job.leaveOut(source.treePath(childOf(from, name)))) continue
      const key = asTold(target, name)
      if (names.has(key)) {
        const reason = 'the target takes it and another one for the same'
        failures.push({ path: target.treePath(childOf(to, name)), error: new GatewayError('exists', { reason }) })
      } else {
        names.set(key, name)
      }
    }
  }
  return names
}

/** Makes the target folder; resolves to the names in one that is replaced. */
async function makeFolder(job: CopyJob, to: Path): Promise<readonly string[]> {
  const { storage } = job.to
  const old = await existing(storage, to, job.signal)
  if (old?.kind === 'folder' && old.isLink !== true) {
    if (!job.overwrite && !job.merge) throw new GatewayError('exists')
    if (job.merge) return []
    const names: string[] = []
    for await (const page of storage.pages(to, { signal: job.signal })) names.push(...page.map((entry) => entry.name))
    return names
  }
  await inPlaceOf(job, to, old, () => published(job, to, () => storage.mkdir(to, { signal: job.signal })))
  return []
}

async function copyFile(job: CopyJob, from: Path, to: Path, entry: Entry, copied: Copied[]): Promise<void> {
  if (job.merge && (await existing(job.to.storage, to, job.signal))) return
  await writeFile(job, from, to, entry)
  copied.push({ from, to, entry })
}

async function writeFile(job: CopyJob, from: Path, to: Path, entry: Entry): Promise<void> {
  const { storage } = job.to
  const old = await existing(storage, to, job.signal)
  if (old && !job.overwrite) throw new GatewayError('exists')
  const write = () => writeInto(job, from, to, entry)
  await (old?.kind === 'folder' ? inPlaceOf(job, to, old, write) : write())
}

async function writeInto(job: CopyJob, from: Path, to: Path, entry: Entry): Promise<void> {
  const { storage } = job.to
  let done: (() => void) | undefined
  const options = {
    signal: job.signal,
    modified: entry.modified,
    mode: entry.mode,
    createOnly: !job.overwrite,
    beforePublish: async () => {
      await assertUnchanged(job.from.storage, from, entry, false, job.signal)
      // Of a backend that found out late that it cannot copy, this is the second time.
      done?.()
      done = await job.beforePublish(storage.treePath(to))
    },
  }
  try {
    const byItself = job.from.storage === storage && (await storage.copy(from, to, options))
    const written = byItself
      ? await storage.stat(to, { signal: job.signal })
      : await storage.write(to, job.from.storage.source(from, entry), options)
    assertSame(entry, written)
  } finally {
    done?.()
  }
}

/** The source must still be the one that was read, or the copy is of neither the old nor the new one. */
async function assertUnchanged(
  storage: Storage,
  path: Path,
  entry: Entry,
  link: boolean,
  signal: AbortSignal,
): Promise<void> {
  const now = await storage.stat(path, { signal, link })
  const same =
    entry.revision !== undefined && now.revision !== undefined
      ? entry.revision === now.revision
      : entry.size === now.size && entry.modified.getTime() === now.modified.getTime()
  if (!same) throw new GatewayError('busy', { reason: 'the source changed while it was copied' })
}

function assertSame(entry: Entry, written: Entry): void {
  if (entry.size !== written.size) {
    throw new GatewayError('internal', { reason: `the copy has ${written.size} bytes, the source ${entry.size}` })
  }
  for (const [name, digest] of Object.entries(entry.hashes ?? {})) {
    const other = written.hashes?.[name as keyof typeof written.hashes]
    if (other !== undefined && other !== digest)
      throw new GatewayError('internal', { reason: `the copy has another ${name}` })
  }
}

async function existing(storage: Storage, path: Path, signal: AbortSignal): Promise<Entry | undefined> {
  try {
    return await storage.stat(path, { signal, link: true })
  } catch (error) {
    if (isGatewayError(error, 'not_found')) return undefined
    throw error
  }
}

/**
 * Removes whatever stands at `path`; rejects with TreeError for what stayed. Links are removed, never entered. What is gone
 * is put into `removed`, without the members of what is gone as a whole, also where it rejects.
 */
export async function removeAll(
  storage: Storage,
  path: Path,
  signal: AbortSignal,
  removed: Path[] = [],
): Promise<void> {
  const entry = await storage.stat(path, { signal, link: true })
  if (entry.kind !== 'folder' || entry.isLink === true) {
    await storage.remove(path, { signal })
  } else if (!(await storage.removeTree(path, { signal }))) {
    const failures: Failure[] = []
    await removeFolder(storage, path, signal, failures, removed)
    throwFailures(failures)
    return
  }
  removed.push(path)
}

async function removeFolder(
  storage: Storage,
  path: Path,
  signal: AbortSignal,
  failures: Failure[],
  removed: Path[],
): Promise<void> {
  const [failed, gone] = [failures.length, removed.length]
  const attempt = async (at: Path, work: () => Promise<void>) => {
    try {
      await work()
    } catch (error) {
      if (signal.aborted) throw error
      // Somebody else removed it meanwhile.
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
      if (member.kind === 'folder' && member.isLink !== true) {
        await removeFolder(storage, at, signal, failures, removed)
      } else {
        await attempt(at, async () => {
          await storage.remove(at, { signal })
          removed.push(at)
        })
      }
    }
    if (failures.length > failed) return
    await storage.remove(path, { signal })
    removed.splice(gone, removed.length, path)
  })
}

/** A name in the same folder for what stands at `path` while something else takes its place. */
export function asideOf(path: Path): Path {
  return childOf(parentOf(path), `${reservedPrefix}aside-${randomUUID()}`)
}

/** Ends what `asideOf` began: what was set aside goes if something took its place, and comes back if nothing did. */
export async function settleAside(storage: Storage, path: Path, aside: Path): Promise<void> {
  const { signal } = new AbortController()
  if (!(await existing(storage, aside, signal))) return
  if (await existing(storage, path, signal)) await removeAll(storage, aside, signal)
  else await storage.move(aside, path)
}
