/**
 * Reads a tree into the index, folder by folder, some of them at a time: what each holds is gathered aside and then taken up in
 * one go. The way on is read from the index itself, so that memory stays flat however large the tree is.
 */
import { GatewayError, isGatewayError, toGatewayError } from '../errors.js'
import { nameOf, type Path } from '../path.js'
import type { IndexedName } from '../store/search/names.js'
import type { NamesWriter } from '../store/search/names-writer.js'
import type { IndexFollower } from './follower.js'
import { depthOf, type IndexedTree } from './indexed-tree.js'

/** Folders whose content is taken up together. */
const together = 64
/** Folders that are read at once. */
const atOnce = 4
/** Names that are gathered by one statement. */
const gathered = 1000

export interface WalkParts {
  readonly tree: IndexedTree
  readonly writer: NamesWriter
  readonly follower: IndexFollower
  readonly signal: AbortSignal
  /** Told of each page. */
  readonly progress: (names: number) => void
  /** A folder that could not be read: what the index knows of it stays. */
  readonly failed: (folder: Path, error: GatewayError) => void
}

/** A folder that was read, and the way through those in it. */
interface Step {
  readonly folder: Path
  /** Levels of folders below it that are to be read. */
  readonly levels: number
  /** The last name that was gone into. */
  after: string
  /** What is in it is not known: only mounts below it are of use. */
  readonly mountsOnly: boolean
}

type Content = 'folders' | 'no folders' | 'unknown'

/**
 * Reads everything at and below `path`, `levels` levels of folders deep. Rejects with `aborted`, and with what is wrong with
 * the index; what is wrong with a storage is told to `failed`.
 */
export async function walk(parts: WalkParts, path: Path, levels: number): Promise<void> {
  for (const top of parts.tree.beginnings(path)) {
    const deep = levels - (depthOf(top) - depthOf(path))
    if (await isFolder(parts, top)) await walkFrom(parts, top, deep)
  }
}

/** Whether there is something to walk; the thing itself is taken up too. */
async function isFolder({ tree, signal, failed, follower }: WalkParts, top: Path): Promise<boolean> {
  if (top === '/') return true
  try {
    const entry = await tree.entry(top, signal)
    // What is gone, and what has come, is the follower's business: it does these in the order in which they happen.
    follower.recheck(top)
    return entry?.kind === 'folder' && entry.isLink !== true
  } catch (error) {
    assertGoing(signal)
    failed(top, toGatewayError(error))
    return tree.leadsToMounts(top)
  }
}

async function walkFrom(parts: WalkParts, top: Path, levels: number): Promise<void> {
  if (levels < 1) return
  const content = (await readFolders(parts, [top])).get(top)
  const steps: Step[] = [{ folder: top, levels: levels - 1, after: '', mountsOnly: content === 'unknown' }]
  for (let step = steps.at(-1); step !== undefined; step = steps.at(-1)) {
    assertGoing(parts.signal)
    const folders = step.levels < 1 ? [] : await parts.writer.subfolders(step.folder, step.after, together)
    const last = folders.at(-1)
    if (last === undefined) {
      steps.pop()
      continue
    }
    step.after = nameOf(last)
    const next = folders.filter((folder) => isWorthReading(parts.tree, folder, step.mountsOnly))
    const contents = await readFolders(parts, next)
    for (const folder of next) {
      const content = contents.get(folder)
      if (content === 'no folders') continue
      steps.push({ folder, levels: step.levels - 1, after: '', mountsOnly: content === 'unknown' })
    }
  }
}

function isWorthReading(tree: IndexedTree, folder: Path, mountsOnly: boolean): boolean {
  if (!tree.includes(folder)) return false
  return !mountsOnly || tree.isMountPoint(folder) || tree.leadsToMounts(folder)
}

/** Reads these folders and takes up what they hold. */
async function readFolders(parts: WalkParts, folders: readonly Path[]): Promise<ReadonlyMap<Path, Content>> {
  const contents = new Map<Path, Content>()
  if (folders.length === 0) return contents
  const { tree, writer, follower, signal } = parts
  // What changes while this reads is looked at once more afterwards.
  const record = follower.record(folders)
  try {
    await writer.beginListing()
    let names: IndexedName[] = []
    const waiting = folders.values()
    const worker = async () => {
      for (const folder of waiting) {
        contents.set(folder, 'no folders')
        try {
          for await (const page of tree.pages(folder, signal)) {
            assertGoing(signal)
            if (page.some(({ kind }) => kind === 'folder')) contents.set(folder, 'folders')
            names.push(...page)
            parts.progress(page.length)
            if (names.length < gathered) continue
            const full = names
            names = []
            await writer.gather(full)
          }
        } catch (error) {
          assertGoing(signal)
          contents.set(folder, 'unknown')
          if (isGatewayError(error, 'not_found', 'not_dir')) follower.recheck(folder)
          else parts.failed(folder, toGatewayError(error))
        }
      }
    }
    const workers = await Promise.allSettled(Array.from({ length: Math.min(atOnce, folders.length) }, worker))
    for (const ended of workers) if (ended.status === 'rejected') throw ended.reason
    if (names.length > 0) await writer.gather(names)
    await writer.gatheredAll(folders.filter((folder) => contents.get(folder) !== 'unknown'))
    await writer.takeUp({ tellNew: false })
  } finally {
    record.end()
  }
  return contents
}

/** Takes up the whole content of one folder that somebody has read. Resolves to the folders in it that are new. */
export async function takeUpFolder(
  writer: NamesWriter,
  folder: Path,
  names: readonly IndexedName[],
): Promise<readonly Path[]> {
  await writer.beginListing()
  for (let at = 0; at < names.length; at += gathered) await writer.gather(names.slice(at, at + gathered))
  await writer.gatheredAll([folder])
  return writer.takeUp({ tellNew: true })
}

function assertGoing(signal: AbortSignal): void {
  if (signal.aborted) throw new GatewayError('aborted')
}
