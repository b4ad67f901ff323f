/**
 * Copies and moves of trees, within a storage that cannot do them itself and between storages. Every file is verified;
 * a move removes a source only after that, last, and only if it is still the one that was read.
 */
import { randomUUID } from 'node:crypto'
import { TreeError, type Failure } from './change.js'
import type { Entry } from './driver.js'
import { GatewayError, isGatewayError, toGatewayError } from './errors.js'
import type { Place } from './mounts.js'
import { childOf, parentOf, type Path } from './path.js'
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
  /** The last check before a file takes its name in the target. Resolves to what ends the reservation it took. */
  readonly beforePublish: (target: Path) => Promise<() => void>
}

/** Members that are copied at once. */
const atOnce = 4

/** Names that the core gives to what it sets aside; no door shows them. */
export const reservedPrefix = '.tidegate-'

/**
 * Copies what stands at `from`. Rejects with TreeError for what could not be copied; the rest is there. Resolves to
 * what was copied: the sources as they were when they were read, folders after their members.
 */
export async function copyTree(job: CopyJob): Promise<readonly Copied[]> {
  const copied: Copied[] = []
  const failures: Failure[] = []
  await copyOne(job, job.from.inner, job.to.inner, copied, failures)
  throwFailures(failures)
  return copied
}

/** One thing that was copied. */
export interface Copied {
  readonly path: Path
  readonly entry: Entry
}

/** Copies, then removes what was copied. What failed, or changed meanwhile, stays where it was. */
export async function moveTree(job: CopyJob): Promise<void> {
  const copied: Copied[] = []
  const failures: Failure[] = []
  await copyOne({ ...job, deep: true }, job.from.inner, job.to.inner, copied, failures)
  const source = job.from.storage
  for (const { path, entry } of copied) {
    try {
      if (entry.kind !== 'folder') await assertUnchanged(source, path, entry, job.signal)
      await source.remove(path, { signal: job.signal })
    } catch (error) {
      // A folder that still holds what failed, or what came meanwhile, stays: that is told once, by its member.
      if (!(isGatewayError(error, 'not_empty') && failures.length > 0)) {
        failures.push({ path: source.treePath(path), error: toGatewayError(error) })
      }
    }
  }
  throwFailures(failures)
}

function throwFailures(failures: readonly Failure[]): void {
  const [first, ...others] = failures
  if (first) throw new TreeError([first, ...others])
}

async function copyOne(job: CopyJob, from: Path, to: Path, copied: Copied[], failures: Failure[]): Promise<void> {
  try {
    const entry = await job.from.storage.stat(from, { signal: job.signal, link: true })
    if (entry.isLink === true || entry.kind === 'link') await copyLink(job, from, to, copied)
    else if (entry.kind === 'folder') await copyFolder(job, from, to, entry, copied, failures)
    else await copyFile(job, from, to, entry, copied)
  } catch (error) {
    if (job.signal.aborted) throw error
    failures.push({ path: job.to.storage.treePath(to), error: toGatewayError(error) })
  }
}

/** A link is copied as a link where both sides have them; else what it leads to is copied if that is a file. */
async function copyLink(job: CopyJob, from: Path, to: Path, copied: Copied[]): Promise<void> {
  const { storage } = job.from
  const link = await storage.stat(from, { signal: job.signal, link: true })
  if (storage === job.to.storage) {
    const target = await storage.readLink(from, { signal: job.signal })
    await makeWay(job, to, 'link')
    await storage.symlink(to, target, { signal: job.signal })
    copied.push({ path: from, entry: link })
    return
  }
  const entry = await storage.stat(from, { signal: job.signal })
  if (entry.kind !== 'file')
    throw new GatewayError('unsupported', { reason: 'a link to a folder is not copied to another storage' })
  await writeFile(job, from, to, entry)
  copied.push({ path: from, entry: link })
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
  if (job.deep) {
    const names: string[] = []
    for await (const page of job.from.storage.pages(from, { signal: job.signal })) {
      for (const member of page) {
        if (member.name.startsWith(reservedPrefix)) continue
        if (!job.leaveOut(job.from.storage.treePath(childOf(from, member.name)))) names.push(member.name)
      }
    }
    const failed = failures.length
    const waiting = [...names]
    const worker = async () => {
      for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
        await copyOne(job, childOf(from, name), childOf(to, name), copied, failures)
      }
    }
    await Promise.all(Array.from({ length: Math.min(atOnce, names.length) }, worker))
    // What the old target held beyond the copy goes last, and only if everything of the copy is there.
    if (failures.length === failed) {
      for (const name of surplus) if (!names.includes(name)) await removeAll(storage, childOf(to, name), job.signal)
    }
  }
  if (entry.modified.getTime() > 0) {
    await storage
      .setAttributes(to, { modified: entry.modified, mode: entry.mode }, { signal: job.signal })
      .catch(() => undefined)
  }
  copied.push({ path: from, entry })
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
  if (old) await makeWay(job, to, 'folder')
  const done = await job.beforePublish(storage.treePath(to))
  try {
    await storage.mkdir(to, { signal: job.signal })
  } finally {
    done()
  }
  return []
}

async function copyFile(job: CopyJob, from: Path, to: Path, entry: Entry, copied: Copied[]): Promise<void> {
  if (job.merge && (await existing(job.to.storage, to, job.signal))) return
  await writeFile(job, from, to, entry)
  copied.push({ path: from, entry })
}

async function writeFile(job: CopyJob, from: Path, to: Path, entry: Entry): Promise<void> {
  const { storage } = job.to
  const old = await existing(storage, to, job.signal)
  if (old && !job.overwrite) throw new GatewayError('exists')
  if (old?.kind === 'folder') await makeWay(job, to, 'file')
  let done: (() => void) | undefined
  const options = {
    signal: job.signal,
    modified: entry.modified,
    mode: entry.mode,
    createOnly: !job.overwrite,
    beforePublish: async () => {
      await assertUnchanged(job.from.storage, from, entry, job.signal)
      done = await job.beforePublish(storage.treePath(to))
    },
  }
  try {
    if (job.from.storage === storage && (await storage.copy(from, to, options))) return
    const written = await storage.write(to, job.from.storage.source(from, entry), options)
    assertSame(entry, written)
  } finally {
    done?.()
  }
}

/** The source must still be the one that was read, or the copy is of neither the old nor the new one. */
async function assertUnchanged(storage: Storage, path: Path, entry: Entry, signal: AbortSignal): Promise<void> {
  const now = await storage.stat(path, { signal, link: entry.kind === 'link' || entry.isLink === true })
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

/** Removes what has the target's name and is of another kind. */
async function makeWay(job: CopyJob, to: Path, kind: Entry['kind']): Promise<void> {
  const old = await existing(job.to.storage, to, job.signal)
  if (!old) return
  if (!job.overwrite) throw new GatewayError('exists')
  if (kind === 'file' && old.kind === 'file') return
  await removeAll(job.to.storage, to, job.signal)
}

/** Removes whatever stands at `path`; rejects with TreeError for what stayed. Links are removed, never entered. */
export async function removeAll(storage: Storage, path: Path, signal: AbortSignal): Promise<void> {
  const entry = await storage.stat(path, { signal, link: true })
  if (entry.kind !== 'folder' || entry.isLink === true) {
    await storage.remove(path, { signal })
    return
  }
  if (await storage.removeTree(path, { signal })) return
  const failures: Failure[] = []
  await removeFolder(storage, path, signal, failures)
  throwFailures(failures)
}

async function removeFolder(storage: Storage, path: Path, signal: AbortSignal, failures: Failure[]): Promise<void> {
  const before = failures.length
  const members: Entry[] = []
  for await (const page of storage.pages(path, { signal })) members.push(...page)
  for (const member of members) {
    const at = childOf(path, member.name)
    if (member.kind === 'folder' && member.isLink !== true) {
      await removeFolder(storage, at, signal, failures)
    } else {
      await storage.remove(at, { signal }).catch((error: unknown) => note(failures, storage, at, error, signal))
    }
  }
  if (failures.length > before) return
  await storage.remove(path, { signal }).catch((error: unknown) => note(failures, storage, path, error, signal))
}

function note(failures: Failure[], storage: Storage, path: Path, error: unknown, signal: AbortSignal): void {
  if (signal.aborted) throw error
  failures.push({ path: storage.treePath(path), error: toGatewayError(error) })
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
