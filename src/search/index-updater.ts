/**
 * Applies the changes that the gateway makes, through any protocol, to the index: in order, in batches, and without
 * delaying the requests that make them.
 */
import { isGatewayError, toGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { isWithin, nameOf, parentOf, type Path } from '../base/path.js'
import type { TreeChange } from '../storage/events.js'
import type { NamesWriter } from '../database/search/names-writer.js'
import type { IndexedName } from '../database/search/names.js'
import { depthOf, indexedName, type IndexedTree } from './indexed-tree.js'

/**
 * A change to apply. 'recheck': what is indexed of the path may be outdated; 'changed elsewhere': also what is indexed
 * below it.
 */
type Item = TreeChange | { readonly kind: 'recheck'; readonly path: Path }

/** The current entry of a path; 'unknown' if its storage does not report it. */
type Lookup = IndexedName | 'nothing' | 'unknown'

/** Milliseconds for which changes are collected. */
const batchDelay = 50
const batchSize = 500
/** Maximum pending changes; beyond it, the tree that contains them is read again instead. */
const maxPending = 100_000
/** Milliseconds for the lookup of one path. */
const lookupTimeout = 10_000
const concurrentLookups = 8

interface IndexUpdaterDependencies {
  readonly tree: IndexedTree
  readonly writer: NamesWriter
  readonly log: Log
  /** Called with the path of a tree that has to be read into the index. */
  readonly onScanNeeded: (path: Path) => void
}

interface Recording {
  readonly concerns: (item: Item) => boolean
  readonly paths: Set<Path>
}

export class IndexUpdater {
  #pending: Item[] = []
  #running: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  readonly #recordings = new Set<Recording>()

  constructor(private readonly dependencies: IndexUpdaterDependencies) {}

  /** Queues a change. */
  enqueue(item: Item): void {
    for (const recording of this.#recordings) {
      if (!recording.concerns(item)) continue
      recording.paths.add(item.path)
      if (item.kind === 'moved') recording.paths.add(item.from)
    }
    this.#add(item)
  }

  /** Queues a comparison of the path, as indexed, with its current entry. */
  recheck(path: Path): void {
    this.#add({ kind: 'recheck', path })
  }

  #add(item: Item): void {
    this.#pending.push(item)
    if (this.#pending.length > maxPending) this.#replaceByScan()
    this.#timer ??= setTimeout(() => this.#startWork(), batchDelay).unref()
  }

  /** Discards all pending changes and has their common folder read again. */
  #replaceByScan(): void {
    const paths = this.#pending.flatMap((item) => (item.kind === 'moved' ? [item.from, item.path] : [item.path]))
    this.#pending = []
    this.dependencies.onScanNeeded(paths.map(parentOf).reduce(commonFolder))
  }

  /**
   * Records the paths of changes in the folders until `end` is called, then rechecks them: a concurrent reader of these
   * folders may have seen the state before the change.
   */
  recordChanges(folders: readonly Path[]): { end(): void } {
    const read = new Set(folders)
    const [first] = folders
    // The folders of one call are siblings, so an ancestor of the first one is an ancestor of all.
    const concerns = (path: Path) =>
      read.has(parentOf(path)) || read.has(path) || (first !== undefined && isWithin(path, first))
    const recording: Recording = {
      paths: new Set(),
      concerns: (item) => concerns(item.path) || (item.kind === 'moved' && concerns(item.from)),
    }
    this.#recordings.add(recording)
    return {
      end: () => {
        this.#recordings.delete(recording)
        for (const path of recording.paths) this.recheck(path)
      },
    }
  }

  /** Whether queued changes are not in the index yet. */
  get isBusy(): boolean {
    return this.#pending.length > 0 || this.#running !== undefined
  }

  /** Resolves when all queued changes are in the index. */
  async idle(): Promise<void> {
    while (this.isBusy) {
      this.#startWork()
      await this.#running
    }
  }

  #startWork(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#running ??= this.#applyAll().finally(() => {
      this.#running = undefined
    })
  }

  async #applyAll(): Promise<void> {
    for (let batch = this.#pending.splice(0, batchSize); batch.length > 0; batch = this.#pending.splice(0, batchSize)) {
      try {
        await this.#apply(batch)
      } catch (error) {
        this.dependencies.log.error({ err: error }, 'search index: applying changes failed')
        const paths = batch.map(({ path }) => path)
        this.dependencies.onScanNeeded(paths.map(parentOf).reduce(commonFolder))
      }
    }
  }

  async #apply(batch: readonly Item[]): Promise<void> {
    const { tree, writer } = this.dependencies
    const items = deduplicated(batch).filter(({ kind, path }) => kind !== 'written' || this.#isIndexable(path))
    const lookups = await this.#lookUpAll(items)
    let added: IndexedName[] = []
    const putAll = async () => {
      const names = added
      added = []
      await writer.put(names)
    }
    for (const item of items) {
      const current = lookups.get(item.path) ?? 'unknown'
      if (item.kind === 'written' || item.kind === 'folder made') {
        if (item.kind === 'folder made' && tree.isMountPoint(item.path)) {
          this.dependencies.onScanNeeded(item.path)
        } else if (typeof current === 'object') {
          added.push(current)
        } else if (current === 'unknown' && this.#isIndexable(item.path)) {
          // An entry with a wrong size is better than none.
          added.push({ parent: parentOf(item.path), name: nameOf(item.path), kind: kindOfEvent[item.kind], size: 0 })
        }
        continue
      }
      await putAll()
      if (item.kind === 'removed') await this.#remove(item.path)
      else if (item.kind === 'moved') await this.#move(item.from, item.path, current)
      else await this.#compare(item.path, current, item.kind === 'changed elsewhere')
    }
    await putAll()
  }

  /** Whether an entry at this path belongs in the index. */
  #isIndexable(path: Path): boolean {
    const { tree } = this.dependencies
    return path !== '/' && depthOf(path) <= tree.depth && tree.includes(path)
  }

  async #lookUpAll(items: readonly Item[]): Promise<ReadonlyMap<Path, Lookup>> {
    const lookups = new Map<Path, Lookup>()
    const remaining = items.filter(({ kind, path }) => kind !== 'removed' && this.#isIndexable(path)).values()
    const worker = async () => {
      for (const { path } of remaining) if (!lookups.has(path)) lookups.set(path, await this.#lookUp(path))
    }
    await Promise.all(Array.from({ length: concurrentLookups }, worker))
    return lookups
  }

  async #lookUp(path: Path): Promise<Lookup> {
    try {
      const entry = await this.dependencies.tree.entry(path, AbortSignal.timeout(lookupTimeout))
      return entry === undefined ? 'nothing' : indexedName(parentOf(path), { ...entry, name: nameOf(path) })
    } catch (error) {
      if (!isGatewayError(toGatewayError(error), 'aborted', 'timeout', 'unavailable')) {
        this.dependencies.log.warn({ err: error, path }, 'search index: lookup failed')
      }
      return 'unknown'
    }
  }

  async #remove(path: Path): Promise<void> {
    const { tree, writer } = this.dependencies
    // A storage whose options changed is unmounted and mounted again: its entries are compared later, not removed.
    if (tree.isMountPoint(path)) return
    const mountPoints = tree.mountPoints(path)
    await writer.remove(path, mountPoints)
    for (const point of mountPoints) await writer.put(foldersBetween(path, point))
  }

  async #move(from: Path, to: Path, current: Lookup): Promise<void> {
    const { tree, writer } = this.dependencies
    if (!this.#isIndexable(to)) {
      await this.#remove(from)
      return
    }
    // Descendants that exceeded the maximum depth at `from` may be within it at `to`.
    const mayGrow = depthOf(to) < depthOf(from) && (await writer.deepest(from)) >= tree.depth
    if (!(await writer.move(from, to))) {
      await this.#compare(to, current)
      return
    }
    if (typeof current === 'object') await writer.put([current])
    if (mayGrow || tree.ignoredPaths().some((each) => isWithin(from, each))) this.dependencies.onScanNeeded(to)
    for (const each of tree.ignoredPaths()) if (isWithin(to, each)) await writer.remove(each)
  }

  async #compare(path: Path, current: Lookup, withBelow = false): Promise<void> {
    const { tree, writer } = this.dependencies
    if (current === 'nothing' || (current === 'unknown' && !tree.includes(path))) {
      await this.#remove(path)
    } else if (typeof current === 'object') {
      const indexedKind = await writer.kindOf(path)
      if (indexedKind === 'folder' && current.kind !== 'folder') await this.#remove(path)
      await writer.put([current])
      const isUnread = withBelow || indexedKind !== 'folder'
      if (current.kind === 'folder' && isUnread) this.dependencies.onScanNeeded(path)
    }
  }
}

const kindOfEvent = { written: 'file', 'folder made': 'folder' } as const

/** Drops all but the last 'written' and 'recheck' item of each path, because each is applied with the current entry. */
function deduplicated(batch: readonly Item[]): readonly Item[] {
  const last = new Map(batch.map((item, at) => [`${item.kind}:${item.path}`, at]))
  return batch.filter(
    (item, at) => (item.kind !== 'written' && item.kind !== 'recheck') || last.get(`${item.kind}:${item.path}`) === at,
  )
}

/** The folders below `top` down to and including the mount point. */
function foldersBetween(top: Path, point: Path): IndexedName[] {
  const names: IndexedName[] = []
  for (let at = point; at !== top && at !== '/'; at = parentOf(at)) {
    names.push({ parent: parentOf(at), name: nameOf(at), kind: 'folder', size: 0 })
  }
  return names
}

function commonFolder(one: Path, other: Path): Path {
  let folder = one
  while (!isWithin(folder, other)) folder = parentOf(folder)
  return folder
}
