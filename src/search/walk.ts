/**
 * Reads a tree into the index, a batch of folders at a time: their entries are staged, then applied in one transaction.
 * The walk reads the next folders from the index itself, so that memory use does not depend on the size of the tree.
 */
import { GatewayError, isGatewayError, toGatewayError } from '../base/errors.js'
import { nameOf, type Path } from '../base/path.js'
import type { NamesWriter } from '../database/search/names-writer.js'
import type { IndexedName } from '../database/search/names.js'
import type { IndexUpdater } from './index-updater.js'
import { depthOf, type IndexedTree } from './indexed-tree.js'

/** Folders whose entries are applied together. */
const folderBatchSize = 64
/** Folders that are read concurrently. */
const concurrentFolders = 4
/** Names that are staged by one statement. */
const nameBatchSize = 1000

interface WalkOptions {
  readonly tree: IndexedTree
  readonly writer: NamesWriter
  readonly updater: IndexUpdater
  readonly signal: AbortSignal
  /** Called for each page, with its number of names. */
  readonly progress: (names: number) => void
  /** Called for a folder that could not be read; its indexed entries are unchanged. */
  readonly failed: (folder: Path, error: GatewayError) => void
}

/** A folder that was read, and the position of the walk among its subfolders. */
interface Step {
  readonly folder: Path
  /** Levels of folders below it to read. */
  readonly levels: number
  /** Name of the last subfolder that was walked. */
  after: string
  /** The folder could not be read: only mounts below it are walked. */
  readonly mountsOnly: boolean
}

type Content = 'folders' | 'no folders' | 'unknown'

/**
 * Reads everything at and below `path`, `levels` levels of folders deep. Rejects with `aborted` and with errors of the
 * index; errors of a storage are passed to `failed`.
 */
export async function walk(options: WalkOptions, path: Path, levels: number): Promise<void> {
  for (const top of options.tree.walkRoots(path)) {
    const remaining = levels - (depthOf(top) - depthOf(path))
    if (await isFolder(options, top)) await walkFrom(options, top, remaining)
  }
}

/** Whether `top` is a folder to walk. Also queues a recheck of its own entry. */
async function isFolder({ tree, signal, failed, updater: follower }: WalkOptions, top: Path): Promise<boolean> {
  if (top === '/') return true
  try {
    const entry = await tree.entry(top, signal)
    // The updater adds or removes the entry, so that this is ordered with other changes.
    follower.recheck(top)
    return entry?.kind === 'folder' && entry.isSymlink !== true
  } catch (error) {
    assertNotAborted(signal)
    failed(top, toGatewayError(error))
    return tree.isMountAncestor(top)
  }
}

async function walkFrom(options: WalkOptions, top: Path, levels: number): Promise<void> {
  if (levels < 1) return
  const content = (await readFolders(options, [top])).get(top)
  const steps: Step[] = [{ folder: top, levels: levels - 1, after: '', mountsOnly: content === 'unknown' }]
  for (let step = steps.at(-1); step !== undefined; step = steps.at(-1)) {
    assertNotAborted(options.signal)
    const folders = step.levels < 1 ? [] : await options.writer.subfolders(step.folder, step.after, folderBatchSize)
    const last = folders.at(-1)
    if (last === undefined) {
      steps.pop()
      continue
    }
    step.after = nameOf(last)
    const next = folders.filter((folder) => isWorthReading(options.tree, folder, step.mountsOnly))
    const contents = await readFolders(options, next)
    for (const folder of next) {
      const content = contents.get(folder)
      if (content === 'no folders') continue
      steps.push({ folder, levels: step.levels - 1, after: '', mountsOnly: content === 'unknown' })
    }
  }
}

function isWorthReading(tree: IndexedTree, folder: Path, mountsOnly: boolean): boolean {
  if (!tree.includes(folder)) return false
  return !mountsOnly || tree.isMountPoint(folder) || tree.isMountAncestor(folder)
}

/** Reads these folders and applies their entries to the index. */
async function readFolders(options: WalkOptions, folders: readonly Path[]): Promise<ReadonlyMap<Path, Content>> {
  const contents = new Map<Path, Content>()
  if (folders.length === 0) return contents
  const { tree, writer, updater: follower, signal } = options
  // Changes during the walk are rechecked afterwards.
  const record = follower.recordChanges(folders)
  try {
    await writer.beginListing()
    let names: IndexedName[] = []
    const remaining = folders.values()
    const worker = async () => {
      for (const folder of remaining) {
        contents.set(folder, 'no folders')
        try {
          for await (const page of tree.pages(folder, signal)) {
            assertNotAborted(signal)
            if (page.some(({ kind }) => kind === 'folder')) contents.set(folder, 'folders')
            names.push(...page)
            options.progress(page.length)
            if (names.length < nameBatchSize) continue
            const batch = names
            names = []
            await writer.stage(batch)
          }
        } catch (error) {
          assertNotAborted(signal)
          contents.set(folder, 'unknown')
          if (isGatewayError(error, 'not_found', 'not_folder')) follower.recheck(folder)
          else options.failed(folder, toGatewayError(error))
        }
      }
    }
    const count = Math.min(concurrentFolders, folders.length)
    const results = await Promise.allSettled(Array.from({ length: count }, worker))
    for (const result of results) if (result.status === 'rejected') throw result.reason
    if (names.length > 0) await writer.stage(names)
    await writer.markComplete(folders.filter((folder) => contents.get(folder) !== 'unknown'))
    await writer.applyStaged({ tellNew: false })
  } finally {
    record.end()
  }
  return contents
}

/** Applies a complete listing of one folder to the index. Resolves to its subfolders that were not indexed before. */
export async function indexFolder(
  writer: NamesWriter,
  folder: Path,
  names: readonly IndexedName[],
): Promise<readonly Path[]> {
  await writer.beginListing()
  for (let at = 0; at < names.length; at += nameBatchSize) {
    await writer.stage(names.slice(at, at + nameBatchSize))
  }
  await writer.markComplete([folder])
  return writer.applyStaged({ tellNew: true })
}

function assertNotAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new GatewayError('aborted')
}
