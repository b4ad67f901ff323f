/** Detects commits of other processes by polling, for databases that notify nobody. */
import type { ForeignCommits } from './engine.js'
import type { Topic } from './rows.js'

/** Milliseconds between two polls. */
const interval = 250

interface ChangeState {
  /** A number that changes when another process commits, and is unaffected by commits of this connection. */
  version(): Promise<number>
  /** The number of changes of each topic, by any process. */
  counts(): Promise<ReadonlyMap<Topic, number>>
}

/** Compares numbers of the database at intervals. */
export class PolledCommits implements ForeignCommits {
  #timer: NodeJS.Timeout | undefined
  #polling: Promise<void> | undefined

  private constructor(
    private readonly state: ChangeState,
    private lastVersion: number,
    private lastCounts: ReadonlyMap<Topic, number>,
  ) {}

  /** Detects changes that are committed from now on. */
  static async open(state: ChangeState): Promise<PolledCommits> {
    return new PolledCommits(state, await state.version(), await state.counts())
  }

  start(changed: (topics: ReadonlySet<Topic>) => void): void {
    this.#timer = setInterval(() => {
      // A poll that fails is repeated by the next one.
      this.#polling ??= this.#poll(changed)
        .catch(() => undefined)
        .finally(() => (this.#polling = undefined))
    }, interval).unref()
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#polling
  }

  async #poll(changed: (topics: ReadonlySet<Topic>) => void): Promise<void> {
    const version = await this.state.version()
    if (version === this.lastVersion) return
    // Read after the version: a commit in between is included here, and its new version then changes no count.
    const counts = await this.state.counts()
    const topics = [...counts.keys()].filter((topic) => counts.get(topic) !== this.lastCounts.get(topic))
    this.lastVersion = version
    this.lastCounts = counts
    if (topics.length > 0) changed(new Set(topics))
  }
}
