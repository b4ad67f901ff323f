/**
 * The search index and its life: switched by a setting, built and updated in the background, kept current by every change that
 * goes through the gateway. What of it somebody may find is decided in finding.ts.
 */
import PQueue from 'p-queue'
import { settlesWithin } from '../aborting.js'
import type { Entry } from '../driver.js'
import { GatewayError, isGatewayError, toGatewayError } from '../errors.js'
import type { Events } from '../events.js'
import type { Log } from '../log.js'
import type { Mounts } from '../mounts.js'
import { root, type Path } from '../path.js'
import type { Settings } from '../settings.js'
import type { NamesReader } from '../store/search/names-reader.js'
import type { IndexExtent } from '../store/search/names-writer.js'
import { openSearchIndex, type SearchIndex } from '../store/search/search-index.js'
import { IndexFollower } from './follower.js'
import { depthOf, IndexedTree } from './indexed-tree.js'
import { noProgress, storedProgress, progressText, type IndexProgress } from './progress.js'
import { takeUpFolder, walk } from './walk.js'

export interface SearchParts {
  readonly settings: Settings
  readonly mounts: Mounts
  readonly events: Events
  readonly log: Log
  /** Of the index; made when search is switched on for the first time. */
  readonly file: string
}

/** The values of `search_index` for which there is an engine: one and the same. */
const engines: readonly string[] = ['database', 'database_non_full_text']

/** Milliseconds between two notes of how far a run is. */
const noteInterval = 5000
/** Folders, read by somebody, that wait to be compared with the index. */
const mostReadings = 100
/** Trees that wait to be read again; more are one: everything. */
const mostDue = 1000
/** Milliseconds that the index has to take up the last changes when the program stops. */
const closeTimeout = 3000

/** A build or an update. */
interface Run {
  readonly controller: AbortController
}

type RunWork = (signal: AbortSignal, failures: Failures) => Promise<void>

/** The index while search is on. */
interface Engine {
  readonly index: SearchIndex
  readonly follower: IndexFollower
  /** Ends its background work. */
  readonly ending: AbortController
  extent: IndexExtent
}

export class Search {
  readonly #tree: IndexedTree
  #engine: Engine | undefined
  #isOn = false
  /** Switching on and off, one after the other. */
  readonly #switching = new PQueue({ concurrency: 1 })
  /** Whatever walks the tree, one after the other. */
  readonly #walks = new PQueue({ concurrency: 1 })
  #run: Run | undefined
  #progress: IndexProgress = noProgress
  readonly #due = new Set<Path>()
  #readings = 0
  #ignored: readonly Path[] = []
  #mounted: ReadonlySet<Path> = new Set()
  readonly #unsubscribe: (() => void)[] = []

  private constructor(private readonly parts: SearchParts) {
    this.#tree = new IndexedTree(parts.mounts, parts.settings, parts.log)
  }

  /** Follows the setting from now on. An index that cannot be opened is told by the log, and by whoever searches. */
  static async open(parts: SearchParts): Promise<Search> {
    const search = new Search(parts)
    const { settings, events } = parts
    search.#progress = { ...storedProgress(settings.get('index_progress')), isDone: true }
    search.#unsubscribe.push(
      settings.guard('search_index', (value) => search.#assertEngine(value)),
      settings.onChange(() => search.#obeySettings()),
      events.on((event) => {
        if (search.#engine && search.#engine.extent !== 'nothing') search.#engine.follower.hear(event)
      }),
      events.onListing((folder, entries) => search.#compareListing(folder, entries)),
    )
    search.#ignored = search.#tree.ignored()
    search.#mounted = new Set(search.#tree.mountPoints(root))
    search.#obeySettings()
    await search.#switching.onIdle()
    return search
  }

  /** Whether the setting says that there is search. */
  get isOn(): boolean {
    return engines.includes(this.parts.settings.get('search_index'))
  }

  /** Rejects with `unavailable` where search is off, or its index cannot be opened. */
  async reader(): Promise<NamesReader> {
    return (await this.#running()).index.reader
  }

  progress(): IndexProgress {
    return this.#progress
  }

  // The admin's work

  /** Forgets the index and reads everything anew, in the background. `invalid` while a run goes on. */
  async build(): Promise<void> {
    const engine = await this.#running()
    this.#begin(engine, { ...noProgress, isDone: false }, async (signal, told) => {
      await engine.index.writer.clear()
      await this.#setExtent(engine, 'part')
      await this.#walkInto(engine, signal, told, root, this.#tree.depth)
      await this.#setExtent(engine, 'whole')
    })
  }

  /**
   * Reads these trees again, `levels` levels of folders deep, in the background; what is new, gone or changed is taken up.
   * `invalid` while a run goes on.
   */
  async update(paths: readonly Path[], levels: number): Promise<void> {
    const engine = await this.#running()
    const before = this.#progress
    this.#begin(engine, { ...before, objCount: 0, isDone: false, error: '' }, async (signal, told) => {
      if (engine.extent === 'nothing') await this.#setExtent(engine, 'part')
      for (const path of paths) await this.#walkInto(engine, signal, told, path, levels)
      if (paths.includes(root) && levels >= this.#tree.depth) await this.#setExtent(engine, 'whole')
    })
  }

  /** Ends the run; what it has read stays. `invalid` where there is none. */
  async stop(): Promise<void> {
    await this.#running()
    if (!this.#run) throw new GatewayError('invalid', { reason: 'index is not running' })
    this.#run.controller.abort()
  }

  /** Forgets the index. `invalid` while a run goes on. */
  async clear(): Promise<void> {
    const engine = await this.#running()
    this.#assertIdle()
    await this.#walks.add(async () => {
      await this.#setExtent(engine, 'nothing')
      await engine.follower.settled()
      this.#due.clear()
      await engine.index.writer.clear()
    })
    await this.#tell(noProgress)
  }

  #assertIdle(): void {
    if (this.#run) throw new GatewayError('invalid', { reason: 'index is running' })
  }

  #begin(engine: Engine, first: IndexProgress, work: RunWork): void {
    this.#assertIdle()
    const run: Run = { controller: new AbortController() }
    this.#run = run
    this.#progress = first
    const { signal } = run.controller
    const stop = () => run.controller.abort()
    engine.ending.signal.addEventListener('abort', stop, { once: true })
    const noted = setInterval(() => void this.#note(), noteInterval).unref()
    this.#inBackground('the search index could not be read anew', async () => {
      await this.#note()
      const last = await this.#outcome(engine, signal, work)
      clearInterval(noted)
      engine.ending.signal.removeEventListener('abort', stop)
      // Who reads that it is done may begin the next one at once.
      this.#run = undefined
      await this.#tell(last)
    })
  }

  async #outcome(engine: Engine, signal: AbortSignal, work: RunWork): Promise<IndexProgress> {
    const failures = new Failures()
    try {
      if (signal.aborted) throw new GatewayError('aborted')
      await work(signal, failures)
      await engine.follower.settled()
      const objCount = await engine.index.writer.count()
      return { objCount, isDone: true, lastDone: new Date(), error: failures.text() }
    } catch (error) {
      if (signal.aborted) return { ...this.#progress, isDone: true, error: 'stopped' }
      this.parts.log.error({ err: error }, 'the search index could not be read anew')
      return { ...this.#progress, isDone: true, error: toGatewayError(error).reason }
    }
  }

  async #walkInto(
    engine: Engine,
    signal: AbortSignal,
    failures: Failures,
    path: Path,
    levels: number,
    progress = (names: number) => {
      this.#progress = { ...this.#progress, objCount: this.#progress.objCount + names }
    },
  ): Promise<void> {
    const { index, follower } = engine
    const failed = (folder: Path, error: GatewayError) => failures.add(folder, error)
    await walk({ tree: this.#tree, writer: index.writer, follower, signal, progress, failed }, path, levels)
  }

  async #setExtent(engine: Engine, extent: IndexExtent): Promise<void> {
    engine.extent = extent
    await engine.index.writer.setExtent(extent)
  }

  async #tell(progress: IndexProgress): Promise<void> {
    this.#progress = progress
    await this.#note()
  }

  /** Progress outlives a restart. */
  async #note(): Promise<void> {
    try {
      await this.parts.settings.set(new Map([['index_progress', progressText(this.#progress)]]))
    } catch (error) {
      this.parts.log.warn({ err: error }, 'the progress of the search index could not be stored')
    }
  }

  // What goes on by itself

  /** Reads a tree of which the index knows too little, when nothing else is read. */
  #readLater(engine: Engine, path: Path): void {
    const isTooMuch = this.#due.size >= mostDue
    if (isTooMuch) this.#due.clear()
    this.#due.add(isTooMuch ? root : path)
    this.#inBackground('a tree could not be read into the search index', () => this.#readDue(engine))
  }

  async #readDue(engine: Engine): Promise<void> {
    const { signal } = engine.ending
    for (const path of this.#due) {
      const failures = new Failures()
      // Whoever asks for it again while it is read means what comes after.
      this.#due.delete(path)
      try {
        await this.#walkInto(engine, signal, failures, path, this.#tree.depth - depthOf(path), () => undefined)
      } catch (error) {
        if (signal.aborted) this.#due.add(path)
        throw error
      }
      if (failures.text() !== '') this.parts.log.warn(`the search index: ${failures.text()}`)
    }
  }

  /** Somebody read a folder afresh: with the setting, the index takes up what is new about it. */
  #compareListing(folder: Path, entries: readonly Entry[]): void {
    const engine = this.#engine
    if (engine?.extent !== 'whole' || this.#run || this.#readings >= mostReadings) return
    if (!this.parts.settings.bool('auto_update_index')) return
    if (!this.#tree.includes(folder) || depthOf(folder) >= this.#tree.depth) return
    this.#readings++
    const record = engine.follower.record([folder])
    this.#inBackground('a folder could not be compared with the search index', async () => {
      try {
        if (engine.ending.signal.aborted) return
        const fresh = await takeUpFolder(engine.index.writer, folder, this.#tree.named(folder, entries))
        for (const path of fresh) this.#readLater(engine, path)
      } finally {
        this.#readings--
        record.end()
      }
    })
  }

  #inBackground(what: string, work: () => Promise<void>): void {
    this.#walks.add(work).catch((error: unknown) => {
      if (!isGatewayError(error, 'aborted')) this.parts.log.error({ err: error }, what)
    })
  }

  /** Another process may have changed the mounts: that comes without events. */
  mountsChanged(): void {
    const mounted = new Set(this.#tree.mountPoints(root))
    const before = this.#mounted
    this.#mounted = mounted
    const engine = this.#engine
    if (!engine || engine.extent === 'nothing') return
    for (const path of new Set([...before, ...mounted])) {
      if (!before.has(path) || !mounted.has(path)) engine.follower.recheck(path)
    }
  }

  // Switching

  async #running(): Promise<Engine> {
    await this.#switching.onIdle()
    if (!this.#engine) throw new GatewayError('unavailable', { reason: 'search not available' })
    return this.#engine
  }

  /** Before a value is stored: rejects where there is no such engine here, or where it does not start. */
  async #assertEngine(value: string): Promise<void> {
    if (value === '' || value === 'none') return
    if (!engines.includes(value)) {
      throw new GatewayError('invalid', { reason: `${value} is not part of this server: ${engines.join(', ')} are` })
    }
    if (!this.#engine) await (await openSearchIndex(this.parts.file)).close()
  }

  #obeySettings(): void {
    const { isOn } = this
    if (isOn !== this.#isOn) {
      this.#isOn = isOn
      this.#switching
        .add(() => (isOn ? this.#switchOn() : this.#switchOff(true)))
        .catch((error: unknown) => this.parts.log.error({ err: error }, 'search could not be switched'))
    }
    const ignored = this.#tree.ignored()
    if (ignored !== this.#ignored) {
      this.#ignored = ignored
      this.#dropIgnored(ignored)
    }
  }

  #dropIgnored(ignored: readonly Path[]): void {
    this.#inBackground('ignored paths could not be taken out of the search index', async () => {
      for (const path of ignored) await this.#engine?.index.writer.remove(path)
    })
  }

  async #switchOn(): Promise<void> {
    const { file, log } = this.parts
    const index = await openSearchIndex(file)
    try {
      const due = (path: Path) => this.#readLater(engine, path)
      const follower = new IndexFollower({ tree: this.#tree, writer: index.writer, log, due })
      const extent = await index.writer.extent()
      const engine: Engine = { index, follower, ending: new AbortController(), extent }
      this.#engine = engine
      for (const path of await index.writer.due()) this.#readLater(engine, path)
      await index.writer.setDue([])
    } catch (error) {
      this.#engine = undefined
      await index.close()
      throw error
    }
  }

  /** `misses`: changes from now on are not followed; they are found when search is switched on again. */
  async #switchOff(misses: boolean): Promise<void> {
    const engine = this.#engine
    if (!engine) return
    // Every change that was answered is in the index before it closes.
    await engine.follower.settled()
    engine.ending.abort()
    await this.#walks.onIdle()
    this.#engine = undefined
    await engine.follower.settled()
    const { writer } = engine.index
    await writer.setDue(misses && engine.extent !== 'nothing' ? [root] : [...this.#due])
    this.#due.clear()
    await engine.index.close()
  }

  /** Resolves when all that was heard until now is in the index, and nothing is read any more. */
  async settled(): Promise<void> {
    do {
      await this.#switching.onIdle()
      await this.#engine?.follower.settled()
      await this.#walks.onIdle()
    } while (this.#engine?.follower.isBusy === true || this.#walks.size + this.#walks.pending > 0)
  }

  /**
   * Ends what runs, takes up what was heard, and closes the index. Storages still answer. If one does not answer in time, the index
   * closes without the changes that were heard; the next start reads the tree again.
   */
  async close(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    const ended = this.#switching.onIdle().then(() => this.#switchOff(false))
    const failed = (error: unknown) => this.parts.log.warn({ err: error }, 'the search index did not close well')
    ended.catch(failed)
    if (await settlesWithin(ended, closeTimeout)) return
    this.parts.log.warn('the search index did not take up the last changes in time')
    const engine = this.#engine
    this.#engine = undefined
    if (engine) await this.#leave(engine).catch(failed)
  }

  async #leave({ index, ending, extent }: Engine): Promise<void> {
    ending.abort()
    if (extent !== 'nothing') await index.writer.setDue([root])
    await index.close()
  }
}

/** Folders that could not be read in one run. */
class Failures {
  #count = 0
  #first = ''

  add(folder: Path, error: GatewayError): void {
    if (this.#count++ === 0) this.#first = `${folder}: ${error.reason}`
  }

  /** Empty for none. */
  text(): string {
    if (this.#count <= 1) return this.#first
    return `${this.#first} (and ${this.#count - 1} more folders)`
  }
}
