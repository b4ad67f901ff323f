/**
 * Removes files that earlier runs have uploaded and not published. Listings that lag may show a published file under its
 * staged name, so one is removed only if listings have shown it as an orphan for much longer than they lag.
 */
import type { Instance } from '../../src/contract/driver-env.js'
import { BackgroundDeleter } from '../lib/background-deleter.js'
import { isOrphan } from '../lib/staged-names.js'
import type { QuarkItem } from './items.js'

/** Maximum number of orphans that are observed. */
const maxObserved = 1000
/** For how many times the lag of listings an orphan is observed. */
const lags = 10

export class Orphans {
  /** When a listing has shown each orphan first, in milliseconds of `performance.now()`. */
  readonly #seenSince = new Map<string, number>()
  readonly #deleter: BackgroundDeleter

  constructor(
    private readonly instance: Instance,
    /** Milliseconds for which listings do not show a change. */
    private readonly lag: number,
    remove: (id: string) => Promise<void>,
    /** Whether the file is still to be published. */
    private readonly isNeeded: (id: string) => boolean,
  ) {
    this.#deleter = new BackgroundDeleter(async (id) => {
      if (!this.isNeeded(id)) await remove(id)
    })
  }

  /** A listing shows this staged file. */
  observe({ id, name }: QuarkItem): void {
    if (!isOrphan(name, this.instance) || this.isNeeded(id)) {
      this.#seenSince.delete(id)
      return
    }
    const now = performance.now()
    const since = this.#seenSince.get(id)
    if (since === undefined) {
      const [oldest] = this.#seenSince.keys()
      if (oldest !== undefined && this.#seenSince.size >= maxObserved) this.#seenSince.delete(oldest)
      this.#seenSince.set(id, now)
    } else if (now - since > lags * this.lag) this.discard(id)
  }

  /** Removes a staged file that will not be published, in the background. */
  discard(id: string): void {
    this.#deleter.enqueue(id)
  }
}
