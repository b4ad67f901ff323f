/**
 * The lifecycle of the search index: enabled by a setting, built and updated in the background, and updated with every
 * change made through the gateway. search-results.ts checks what a principal may find.
 */
import { setTimeout as delay } from 'node:timers/promises'
import PQueue from 'p-queue'
import { settlesWithin } from '../base/cancellation.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError, toGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { root, type Path } from '../base/path.js'
import type { Settings } from '../settings/settings.js'
import type { Events } from '../storage/events.js'
import type { MountedTree } from '../mounts/mounted-tree.js'
import type { Mounts } from '../mounts/mounts.js'
import type { NamesReader } from '../database/search/names-reader.js'
import type { IndexExtent } from '../database/search/names-writer.js'
import type { SearchIndex } from '../database/search/search-index.js'
import { IndexUpdater } from './index-updater.js'
import { depthOf, IndexedTree } from './indexed-tree.js'
import { noProgress, storedProgress, progressText, type IndexProgress } from './progress.js'
import { indexFolder, walk } from './walk.js'

/** The request of an admin to the node that writes the index. */
export type SearchRequest =
  | { readonly action: 'build' | 'stop' | 'clear' }
  | { readonly action: 'update'; readonly paths: readonly Path[]; readonly levels: number | 'all' }

interface SearchDependencies {
  readonly settings: Settings
  readonly mounts: Mounts
  readonly mountedTree: MountedTree
  readonly events: Events
  readonly log: Log
  /** Opens the index, which is created when search is first enabled. */
  readonly openIndex: () => Promise<SearchIndex>
  /** Sends a request to the other nodes. Absent: this process is alone, and writes the index. */
  readonly send?: ((request: SearchRequest) => Promise<void>) | undefined
}

/** Supported values of `search_index`; both select the same engine. */
const engines: readonly string[] = ['database', 'database_non_full_text']

/** Milliseconds between two writes of the progress of a run. */
const progressInterval = 5000
/** Maximum pending comparisons of listed folders with the index; further ones are skipped. */
const maxComparisons = 100
/** Maximum trees that wait to be read again; beyond it, the whole tree is. */
const maxPendingScans = 1000
/** Milliseconds that `close` waits for the last changes to be indexed. */
export const searchCloseTimeout = 3000

/** A build or an update. */
interface Run {
  readonly controller: AbortController
}

type RunWork = (signal: AbortSignal, failures: UnreadableFolders) => Promise<void>

/** The open index while search is enabled. */
interface OpenIndex {
  readonly index: SearchIndex
  readonly updater: IndexUpdater
  /** Cancels background work on this index. */
  readonly closing: AbortController
  extent: IndexExtent
}

/** Milliseconds that a request waits until the node that writes the index has begun it. */
const requestTimeout = 2000

export class Search {
  /** Whether this process writes the index. */
  #isWriter: boolean
  readonly #tree: IndexedTree
  #engine: OpenIndex | undefined
  #isOn = false
  /** Serializes enabling and disabling. */
  readonly #switching = new PQueue({ concurrency: 1 })
  /** Serializes background work on the index. */
  readonly #walks = new PQueue({ concurrency: 1 })
  #run: Run | undefined
  #progress: IndexProgress = noProgress
  readonly #pendingScans = new Set<Path>()
  #comparisons = 0
  #ignoredPaths: readonly Path[] = []
  #mountPoints: ReadonlySet<Path> = new Set()
  readonly #unsubscribe: (() => void)[] = []

  private constructor(private readonly dependencies: SearchDependencies) {
    this.#isWriter = dependencies.send === undefined
    this.#tree = new IndexedTree(dependencies.mounts, dependencies.mountedTree, dependencies.settings)
  }

  /**
   * Enables or disables the index as the setting says, also when it changes. If the index cannot be opened, this is
   * logged, and searches reject with `unavailable`.
   */
  static async open(dependencies: SearchDependencies): Promise<Search> {
    const search = new Search(dependencies)
    const { settings, events } = dependencies
    search.#progress = { ...storedProgress(settings.get('index_progress')), isDone: true }
    search.#unsubscribe.push(
      settings.guard('search_index', (value) => search.#assertEngine(value)),
      settings.onChange(() => search.#applySettings()),
      events.on((event) => {
        if (!search.#isWriter || !search.#engine || search.#engine.extent === 'nothing') return
        const { updater } = search.#engine
        updater.enqueue(event)
        const withBelow = event.kind !== 'written' && event.kind !== 'folder made'
        for (const changed of event.kind === 'moved' ? [event.from, event.path] : [event.path]) {
          for (const path of dependencies.mounts.alsoShownAt(changed)) {
            updater.enqueue({ kind: withBelow ? 'changed elsewhere' : 'recheck', path })
          }
        }
      }),
      events.onListing((folder, entries) => search.#compareListing(folder, entries)),
    )
    search.#ignoredPaths = search.#tree.ignoredPaths()
    search.#mountPoints = new Set(search.#tree.mountPoints(root))
    search.#applySettings()
    await search.#switching.onIdle()
    return search
  }

  /** Whether the setting enables search. */
  get isOn(): boolean {
    return engines.includes(this.dependencies.settings.get('search_index'))
  }

  /** Rejects with `unavailable` if search is disabled or the index could not be opened. */
  async reader(): Promise<NamesReader> {
    return (await this.#requireEngine()).index.reader
  }

  progress(): IndexProgress {
    return this.#isWriter ? this.#progress : storedProgress(this.dependencies.settings.get('index_progress'))
  }

  /** This process writes the index from now on. Changes since another one did are found by reading the tree again. */
  beginWriting(): void {
    if (this.#isWriter) return
    this.#isWriter = true
    this.#progress = { ...storedProgress(this.dependencies.settings.get('index_progress')), isDone: true }
    this.#inBackground('search index: beginning to write failed', async () => {
      const engine = this.#engine
      if (!engine) return
      engine.extent = await engine.index.writer.extent()
      if (engine.extent !== 'nothing') this.#queueScan(engine, root)
    })
  }

  /** Another process writes the index from now on. */
  endWriting(): void {
    this.#isWriter = false
    this.#pendingScans.clear()
    this.#run?.controller.abort()
  }

  /** Handles the request of another node, if this one writes the index. Errors are logged. */
  handle(request: SearchRequest): void {
    if (!this.#isWriter) return
    this.#perform(request).catch((error: unknown) => {
      this.dependencies.log.warn({ err: error, request }, 'search index: a request of another node failed')
    })
  }

  async #perform(request: SearchRequest): Promise<void> {
    if (request.action === 'update') {
      await this.update(request.paths, request.levels === 'all' ? Number.POSITIVE_INFINITY : request.levels)
    } else await this[request.action]()
  }

  /** Sends a request to the node that writes the index. Resolves when its progress shows that, or after some time. */
  async #forward(request: SearchRequest): Promise<void> {
    await this.#requireEngine()
    const isRunning = () => !this.progress().isDone
    if (request.action === 'stop' && !isRunning()) throw new GatewayError('invalid', { detail: 'index_idle' })
    if (request.action !== 'stop' && isRunning()) throw new GatewayError('invalid', { detail: 'index_running' })
    const before = progressText(this.progress())
    await this.dependencies.send?.(request)
    const isHandled = () => progressText(this.progress()) !== before
    for (let waited = 0; !isHandled() && waited < requestTimeout; waited += 50) await delay(50)
  }

  // Operations for admins

  /** Clears the index and reads the whole tree in the background. `invalid` if a run is active. */
  async build(): Promise<void> {
    if (!this.#isWriter) return this.#forward({ action: 'build' })
    const engine = await this.#requireEngine()
    this.#startRun(engine, { ...noProgress, isDone: false }, async (signal, failures) => {
      await engine.index.writer.clear()
      await this.#setExtent(engine, 'part')
      await this.#walk(engine, signal, failures, root, this.#tree.depth)
      await this.#setExtent(engine, 'whole')
    })
  }

  /**
   * Reads these trees again, `levels` levels of folders deep, in the background, and applies the differences to the
   * index. Rejects with `invalid` if a run is active.
   */
  async update(paths: readonly Path[], levels: number): Promise<void> {
    if (!this.#isWriter) {
      return this.#forward({ action: 'update', paths, levels: Number.isFinite(levels) ? levels : 'all' })
    }
    const engine = await this.#requireEngine()
    const before = this.#progress
    this.#startRun(engine, { ...before, objCount: 0, isDone: false, error: '' }, async (signal, failures) => {
      if (engine.extent === 'nothing') await this.#setExtent(engine, 'part')
      for (const path of paths) await this.#walk(engine, signal, failures, path, levels)
      if (paths.includes(root) && levels >= this.#tree.depth) await this.#setExtent(engine, 'whole')
    })
  }

  /** Stops the run; what it has indexed remains. `invalid` if no run is active. */
  async stop(): Promise<void> {
    if (!this.#isWriter) return this.#forward({ action: 'stop' })
    await this.#requireEngine()
    if (!this.#run) throw new GatewayError('invalid', { detail: 'index_idle' })
    this.#run.controller.abort()
  }

  /** Clears the index. `invalid` if a run is active. */
  async clear(): Promise<void> {
    if (!this.#isWriter) return this.#forward({ action: 'clear' })
    const engine = await this.#requireEngine()
    this.#assertIdle()
    await this.#walks.add(async () => {
      await this.#setExtent(engine, 'nothing')
      await engine.updater.idle()
      this.#pendingScans.clear()
      await engine.index.writer.clear()
    })
    await this.#setProgress(noProgress)
  }

  #assertIdle(): void {
    if (this.#run) throw new GatewayError('invalid', { detail: 'index_running' })
  }

  #startRun(engine: OpenIndex, first: IndexProgress, work: RunWork): void {
    this.#assertIdle()
    const run: Run = { controller: new AbortController() }
    this.#run = run
    this.#progress = first
    const { signal } = run.controller
    const stop = () => run.controller.abort()
    engine.closing.signal.addEventListener('abort', stop, { once: true })
    const timer = setInterval(() => void this.#storeProgress(), progressInterval).unref()
    this.#inBackground('search index: run failed', async () => {
      await this.#storeProgress()
      const last = await this.#runToEnd(engine, signal, work)
      clearInterval(timer)
      engine.closing.signal.removeEventListener('abort', stop)
      // Reset before the progress is stored: a client that reads `isDone` may start the next run immediately.
      this.#run = undefined
      await this.#setProgress(last)
    })
  }

  async #runToEnd(engine: OpenIndex, signal: AbortSignal, work: RunWork): Promise<IndexProgress> {
    const failures = new UnreadableFolders()
    try {
      if (signal.aborted) throw new GatewayError('aborted')
      await work(signal, failures)
      await engine.updater.idle()
      const objCount = await engine.index.writer.count()
      return { objCount, isDone: true, lastDone: new Date(), error: failures.text() }
    } catch (error) {
      if (signal.aborted) return { ...this.#progress, isDone: true, error: 'stopped' }
      this.dependencies.log.error({ err: error }, 'search index: run failed')
      return { ...this.#progress, isDone: true, error: toGatewayError(error).reason }
    }
  }

  async #walk(
    engine: OpenIndex,
    signal: AbortSignal,
    failures: UnreadableFolders,
    path: Path,
    levels: number,
    progress = (names: number) => {
      this.#progress = { ...this.#progress, objCount: this.#progress.objCount + names }
    },
  ): Promise<void> {
    const { index, updater } = engine
    const failed = (folder: Path, error: GatewayError) => failures.add(folder, error)
    await walk({ tree: this.#tree, writer: index.writer, updater, signal, progress, failed }, path, levels)
  }

  async #setExtent(engine: OpenIndex, extent: IndexExtent): Promise<void> {
    engine.extent = extent
    await engine.index.writer.setExtent(extent)
  }

  async #setProgress(progress: IndexProgress): Promise<void> {
    this.#progress = progress
    await this.#storeProgress()
  }

  async #storeProgress(): Promise<void> {
    try {
      await this.dependencies.settings.set(new Map([['index_progress', progressText(this.#progress)]]))
    } catch (error) {
      this.dependencies.log.warn({ err: error }, 'search index: storing the progress failed')
    }
  }

  // Background work

  /** Queues a tree to be read into the index. */
  #queueScan(engine: OpenIndex, path: Path): void {
    const isFull = this.#pendingScans.size >= maxPendingScans
    if (isFull) this.#pendingScans.clear()
    this.#pendingScans.add(isFull ? root : path)
    this.#inBackground('search index: reading a tree failed', () => this.#runPendingScans(engine))
  }

  async #runPendingScans(engine: OpenIndex): Promise<void> {
    const { signal } = engine.closing
    for (const path of this.#pendingScans) {
      const failures = new UnreadableFolders()
      // Removed first: a request for the path during the walk needs another walk.
      this.#pendingScans.delete(path)
      try {
        await this.#walk(engine, signal, failures, path, this.#tree.depth - depthOf(path), () => undefined)
      } catch (error) {
        if (signal.aborted) this.#pendingScans.add(path)
        throw error
      }
      if (failures.text() !== '') this.dependencies.log.warn({ failures: failures.text() }, 'search index incomplete')
    }
  }

  /** With `auto_update_index`, applies a new listing of a folder to the index. */
  #compareListing(folder: Path, entries: readonly Entry[]): void {
    const engine = this.#engine
    if (!this.#isWriter || engine?.extent !== 'whole' || this.#run || this.#comparisons >= maxComparisons) return
    if (!this.dependencies.settings.bool('auto_update_index')) return
    if (!this.#tree.includes(folder) || depthOf(folder) >= this.#tree.depth) return
    this.#comparisons++
    const record = engine.updater.recordChanges([folder])
    this.#inBackground('search index: comparing a folder failed', async () => {
      try {
        if (engine.closing.signal.aborted) return
        const added = await indexFolder(engine.index.writer, folder, this.#tree.named(folder, entries))
        for (const path of added) this.#queueScan(engine, path)
      } finally {
        this.#comparisons--
        record.end()
      }
    })
  }

  #inBackground(failureMessage: string, work: () => Promise<void>): void {
    this.#walks.add(work).catch((error: unknown) => {
      if (!isGatewayError(error, 'aborted')) this.dependencies.log.error({ err: error }, failureMessage)
    })
  }

  /** Rechecks mount points that were added or removed. Changes of mounts by another process emit no events. */
  mountsChanged(): void {
    const mounted = new Set(this.#tree.mountPoints(root))
    const before = this.#mountPoints
    this.#mountPoints = mounted
    const engine = this.#engine
    if (!this.#isWriter || !engine || engine.extent === 'nothing') return
    for (const path of new Set([...before, ...mounted])) {
      if (!before.has(path) || !mounted.has(path)) engine.updater.recheck(path)
    }
  }

  // Enabling and disabling

  async #requireEngine(): Promise<OpenIndex> {
    await this.#switching.onIdle()
    if (!this.#engine) throw new GatewayError('unavailable', { detail: 'search_off' })
    return this.#engine
  }

  /** Guard of the setting: rejects if the engine is not supported or the index cannot be opened. */
  async #assertEngine(value: string): Promise<void> {
    if (value === '' || value === 'none') return
    if (!engines.includes(value)) {
      throw new GatewayError('invalid', { reason: `${value} is not part of this server: use ${engines.join(' or ')}` })
    }
    if (!this.#engine) await (await this.dependencies.openIndex()).close()
  }

  #applySettings(): void {
    const { isOn } = this
    if (isOn !== this.#isOn) {
      this.#isOn = isOn
      this.#switching
        .add(() => (isOn ? this.#switchOn() : this.#switchOff(true)))
        .catch((error: unknown) =>
          this.dependencies.log.error({ err: error }, 'search index: enabling or disabling failed'),
        )
    }
    const ignored = this.#tree.ignoredPaths()
    if (ignored !== this.#ignoredPaths) {
      this.#ignoredPaths = ignored
      this.#dropIgnored(ignored)
    }
  }

  #dropIgnored(ignored: readonly Path[]): void {
    this.#inBackground('search index: removing ignored paths failed', async () => {
      if (!this.#isWriter) return
      for (const path of ignored) await this.#engine?.index.writer.remove(path)
    })
  }

  async #switchOn(): Promise<void> {
    const { openIndex, log } = this.dependencies
    const index = await openIndex()
    try {
      const due = (path: Path) => this.#queueScan(engine, path)
      const updater = new IndexUpdater({ tree: this.#tree, writer: index.writer, log, onScanNeeded: due })
      const extent = await index.writer.extent()
      const engine: OpenIndex = { index, updater, closing: new AbortController(), extent }
      this.#engine = engine
      if (!this.#isWriter) return
      for (const path of await index.writer.pendingScans()) this.#queueScan(engine, path)
      await index.writer.setPendingScans([])
    } catch (error) {
      this.#engine = undefined
      await index.close()
      throw error
    }
  }

  /** `rescan`: later changes will be missed, so the whole tree is read again when search is next enabled. */
  async #switchOff(rescan: boolean): Promise<void> {
    const engine = this.#engine
    if (!engine) return
    // Changes of completed requests must be in the index before it closes.
    await engine.updater.idle()
    engine.closing.abort()
    await this.#walks.onIdle()
    this.#engine = undefined
    await engine.updater.idle()
    const { writer } = engine.index
    if (this.#isWriter)
      await writer.setPendingScans(rescan && engine.extent !== 'nothing' ? [root] : [...this.#pendingScans])
    this.#pendingScans.clear()
    await engine.index.close()
  }

  /** Resolves when all changes are in the index and no background work is pending. */
  async idle(): Promise<void> {
    do {
      await this.#switching.onIdle()
      await this.#engine?.updater.idle()
      await this.#walks.onIdle()
    } while (this.#engine?.updater.isBusy === true || this.#walks.size + this.#walks.pending > 0)
  }

  /**
   * Stops the run, indexes the queued changes, and closes the index. Must be called before the storages close. If a
   * storage does not respond in time, the index closes without these changes, and the next start reads the tree again.
   */
  async close(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    const closed = this.#switching.onIdle().then(() => this.#switchOff(false))
    const failed = (error: unknown) => this.dependencies.log.warn({ err: error }, 'search index: closing failed')
    closed.catch(failed)
    if (await settlesWithin(closed, searchCloseTimeout)) return
    this.dependencies.log.warn({}, 'search index: the last changes were not indexed in time')
    const engine = this.#engine
    this.#engine = undefined
    if (engine) await this.#closeUnfinished(engine).catch(failed)
  }

  async #closeUnfinished({ index, closing, extent }: OpenIndex): Promise<void> {
    closing.abort()
    if (this.#isWriter && extent !== 'nothing') await index.writer.setPendingScans([root])
    await index.close()
  }
}

/** Folders that could not be read in one run. */
class UnreadableFolders {
  #count = 0
  #first = ''

  add(folder: Path, error: GatewayError): void {
    if (this.#count++ === 0) this.#first = `${folder}: ${error.reason}`
  }

  /** The first error and the number of the others; empty if there are none. */
  text(): string {
    if (this.#count <= 1) return this.#first
    return `${this.#first} (and ${this.#count - 1} more folders)`
  }
}
