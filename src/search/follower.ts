/**
 * Keeps the index up with the changes that the gateway makes, whichever door they came through: in their order, in batches, and
 * never in the way of whoever asked for them.
 */
import { isGatewayError, toGatewayError } from '../errors.js'
import type { TreeEvent } from '../events.js'
import type { Log } from '../log.js'
import { isWithin, nameOf, parentOf, type Path } from '../path.js'
import type { IndexedName } from '../store/search/names.js'
import type { NamesWriter } from '../store/search/names-writer.js'
import { depthOf, indexedName, type IndexedTree } from './indexed-tree.js'

/** `recheck`: whatever the index knows of the path may be old. */
type Item = TreeEvent | { readonly kind: 'recheck'; readonly path: Path }

/** What stands at a path now; 'unknown' where its storage does not tell. */
type Found = IndexedName | 'nothing' | 'unknown'

/** Milliseconds for which changes are gathered. */
const pause = 50
const batchSize = 500
/** So many changes wait at the most; with more, the tree around them is read again instead. */
const mostWaiting = 100_000
/** Milliseconds that a storage has to tell what stands at a path. */
const patience = 10_000
const asksAtOnce = 8

export interface FollowerParts {
  readonly tree: IndexedTree
  readonly writer: NamesWriter
  readonly log: Log
  /** Told of a tree that has to be read, because the index knows nothing of it yet. */
  readonly due: (path: Path) => void
}

interface Record {
  readonly concerns: (item: Item) => boolean
  readonly paths: Set<Path>
}

export class IndexFollower {
  #waiting: Item[] = []
  #working: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  readonly #records = new Set<Record>()

  constructor(private readonly parts: FollowerParts) {}

  hear(event: TreeEvent): void {
    for (const record of this.#records) {
      if (!record.concerns(event)) continue
      record.paths.add(event.path)
      if (event.kind === 'moved') record.paths.add(event.from)
    }
    this.#add(event)
  }

  /** What the index knows of the path and of what is below it is compared with what is there. */
  recheck(path: Path): void {
    this.#add({ kind: 'recheck', path })
  }

  #add(item: Item): void {
    this.#waiting.push(item)
    if (this.#waiting.length > mostWaiting) this.#giveUp()
    this.#timer ??= setTimeout(() => this.#work(), pause).unref()
  }

  /** More changes than can be followed one by one: their common folder is read again. */
  #giveUp(): void {
    const paths = this.#waiting.flatMap((item) => (item.kind === 'moved' ? [item.from, item.path] : [item.path]))
    this.#waiting = []
    this.parts.due(paths.map(parentOf).reduce(commonFolder))
  }

  /**
   * Whatever is heard of the folders until the record ends is looked at once more after that: whoever reads them meanwhile may
   * have read what was there before.
   */
  record(folders: readonly Path[]): { end(): void } {
    const read = new Set(folders)
    const [first] = folders
    // Folders of one reading lie side by side: what holds one of them holds them all.
    const concerns = (path: Path) =>
      read.has(parentOf(path)) || read.has(path) || (first !== undefined && isWithin(path, first))
    const record: Record = {
      paths: new Set(),
      concerns: (item) => concerns(item.path) || (item.kind === 'moved' && concerns(item.from)),
    }
    this.#records.add(record)
    return {
      end: () => {
        this.#records.delete(record)
        for (const path of record.paths) this.recheck(path)
      },
    }
  }

  /** Whether something that was heard is not in the index yet. */
  get isBusy(): boolean {
    return this.#waiting.length > 0 || this.#working !== undefined
  }

  /** Resolves when everything that was heard until now is in the index. */
  async settled(): Promise<void> {
    while (this.isBusy) {
      this.#work()
      await this.#working
    }
  }

  #work(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#working ??= this.#takeAll().finally(() => {
      this.#working = undefined
    })
  }

  async #takeAll(): Promise<void> {
    for (let batch = this.#waiting.splice(0, batchSize); batch.length > 0; batch = this.#waiting.splice(0, batchSize)) {
      try {
        await this.#follow(batch)
      } catch (error) {
        this.parts.log.error({ err: error }, 'the search index could not follow some changes')
        const paths = batch.map(({ path }) => path)
        this.parts.due(paths.map(parentOf).reduce(commonFolder))
      }
    }
  }

  async #follow(batch: readonly Item[]): Promise<void> {
    const { tree, writer } = this.parts
    const items = onceEach(batch).filter(({ kind, path }) => kind !== 'written' || this.#belongs(path))
    const found = await this.#lookAt(items)
    let come: IndexedName[] = []
    const putAll = async () => {
      const names = come
      come = []
      await writer.put(names)
    }
    for (const item of items) {
      const now = found.get(item.path) ?? 'unknown'
      if (item.kind === 'written' || item.kind === 'folder made') {
        if (item.kind === 'folder made' && tree.isMountPoint(item.path)) {
          this.parts.due(item.path)
        } else if (typeof now === 'object') {
          come.push(now)
        } else if (now === 'unknown' && this.#belongs(item.path)) {
          // Better found with an unknown size than not found.
          come.push({ parent: parentOf(item.path), name: nameOf(item.path), kind: kindMade[item.kind], size: 0 })
        }
        continue
      }
      await putAll()
      if (item.kind === 'removed') await this.#remove(item.path)
      else if (item.kind === 'moved') await this.#move(item.from, item.path, now)
      else await this.#compare(item.path, now)
    }
    await putAll()
  }

  /** Whether something at this path is to be in the index. */
  #belongs(path: Path): boolean {
    const { tree } = this.parts
    return path !== '/' && depthOf(path) <= tree.depth && tree.includes(path)
  }

  async #lookAt(items: readonly Item[]): Promise<ReadonlyMap<Path, Found>> {
    const found = new Map<Path, Found>()
    const waiting = items.filter(({ kind, path }) => kind !== 'removed' && this.#belongs(path)).values()
    const worker = async () => {
      for (const { path } of waiting) if (!found.has(path)) found.set(path, await this.#found(path))
    }
    await Promise.all(Array.from({ length: asksAtOnce }, worker))
    return found
  }

  async #found(path: Path): Promise<Found> {
    try {
      const entry = await this.parts.tree.entry(path, AbortSignal.timeout(patience))
      return entry === undefined ? 'nothing' : indexedName(parentOf(path), { ...entry, name: nameOf(path) })
    } catch (error) {
      if (!isGatewayError(toGatewayError(error), 'aborted', 'timeout', 'unavailable')) {
        this.parts.log.warn({ err: error, path }, 'the search index could not look at a path')
      }
      return 'unknown'
    }
  }

  async #remove(path: Path): Promise<void> {
    const { tree, writer } = this.parts
    // A storage whose options changed was taken away and put back: what is below it is compared, not forgotten.
    if (tree.isMountPoint(path)) return
    const kept = tree.mountPoints(path)
    await writer.remove(path, kept)
    for (const point of kept) await writer.put(leadingTo(path, point))
  }

  async #move(from: Path, to: Path, now: Found): Promise<void> {
    const { tree, writer } = this.parts
    if (!this.#belongs(to)) {
      await this.#remove(from)
      return
    }
    // Where it lay, the index may have ended at a depth that it does not reach here.
    const endsHere = depthOf(to) < depthOf(from) && (await writer.deepest(from)) >= tree.depth
    if (!(await writer.move(from, to))) {
      await this.#compare(to, now)
      return
    }
    if (typeof now === 'object') await writer.put([now])
    if (endsHere || tree.ignored().some((each) => isWithin(from, each))) this.parts.due(to)
    for (const each of tree.ignored()) if (isWithin(to, each)) await writer.remove(each)
  }

  async #compare(path: Path, now: Found): Promise<void> {
    const { tree, writer } = this.parts
    if (now === 'nothing' || (now === 'unknown' && !tree.includes(path))) {
      await this.#remove(path)
    } else if (typeof now === 'object') {
      const known = await writer.kindOf(path)
      if (known === 'folder' && now.kind !== 'folder') await this.#remove(path)
      await writer.put([now])
      if (now.kind === 'folder' && known !== 'folder') this.parts.due(path)
    }
  }
}

const kindMade = { written: 'file', 'folder made': 'folder' } as const

/** Of several writings of one file only the last one counts: each is looked at as it is now. */
function onceEach(batch: readonly Item[]): readonly Item[] {
  const last = new Map(batch.map((item, at) => [`${item.kind}:${item.path}`, at]))
  return batch.filter(
    (item, at) => (item.kind !== 'written' && item.kind !== 'recheck') || last.get(`${item.kind}:${item.path}`) === at,
  )
}

/** The folders by which a mount point is reached from `top`, and itself. */
function leadingTo(top: Path, point: Path): IndexedName[] {
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
