/**
 * The queues of slow hashes, and of questions to a directory or provider. scrypt runs in the threads that also read and
 * write files, so one hash is computed at a time, whoever asks for it. `p-queue` knows the priority of each job, but
 * not how many its party has had.
 */
import { GatewayError } from '../base/errors.js'
import { throwIfAborted } from '../base/cancellation.js'
import { tooManyAttempts } from './errors.js'
import { RecentCounts } from '../base/bounded-tables.js'
import { lockout } from './limiter.js'

/** Maximum places, per party with its jobs that run, and of all that wait. */
const maxPlaces = { perParty: 16, waiting: 512 }
/** Jobs that a party that is known may have more than one that is not, and is still served first. */
const headStart = 8
/** Milliseconds after the last job of a party until its jobs are forgotten. */
const memory = 5 * 60_000
/** Parties that wait beyond which the last one to come is served first: the first ones will have given up. */
const manyParties = 16
/** Every third job is the one that has waited longest, so that none waits forever. */
const oldestEvery = 3

/** On whose behalf a job is done. */
export interface Requester {
  /** A network; or the name of an account that is signed in, or that has signed in from this network recently. */
  readonly party: { readonly network: string } | { readonly account: string }
  /** Aborts when the client has disconnected. */
  readonly signal?: AbortSignal | undefined
}

interface WaitingJob {
  /** Increases with each job. */
  readonly number: number
  readonly start: () => void
  readonly refuse: (error: GatewayError) => void
}

interface WaitingParty {
  readonly key: string
  readonly isKnown: boolean
  /** The jobs of the party, oldest first; never empty. */
  readonly places: WaitingJob[]
}

/**
 * Runs one job at a time, or `concurrency`, of which one party has at most `perParty`. The party with the fewest jobs,
 * recent and waiting, is served first, so that a new party waits for a few jobs, however many parties go on asking.
 * Equal parties are served in the order in which they came, or in the opposite order if many wait.
 */
export class FairQueue {
  /** The parties that wait, in the order in which they came. */
  readonly #waiting = new Map<string, WaitingParty>()
  readonly #recent: RecentCounts
  /** The parties whose jobs run: one more than once if several of its jobs do. */
  #running: readonly string[] = []
  #started = 0
  #numbers = 0

  /** `now`: milliseconds. */
  constructor(
    now: () => number = () => performance.now(),
    private readonly concurrency = 1,
    private readonly perParty = concurrency,
  ) {
    this.#recent = new RecentCounts(memory, now)
  }

  /**
   * Runs `work` when its turn has come. Rejects with `throttled` if the party has too many places, or, if too many jobs
   * wait, the most of all; with `aborted` if the signal aborts before `work` has started. `work` itself is not aborted.
   */
  async run<T>({ party, signal }: Requester, work: () => Promise<T>): Promise<T> {
    throwIfAborted(signal)
    const isKnown = 'account' in party
    const key = isKnown ? `account ${party.account}` : party.network
    if (this.#running.length < this.concurrency && this.#runningOf(key) < this.perParty) this.#begin(key)
    else await this.#wait(key, isKnown, signal)
    try {
      return await work()
    } finally {
      this.#running = this.#running.toSpliced(this.#running.indexOf(key), 1)
      this.#startNext()
    }
  }

  #begin(key: string): void {
    this.#running = [...this.#running, key]
    this.#recent.add(key)
  }

  #runningOf(key: string): number {
    return this.#running.filter((other) => other === key).length
  }

  /** Resolves when the job may start, and `#running` is set. */
  async #wait(key: string, isKnown: boolean, signal: AbortSignal | undefined): Promise<void> {
    const party = this.#waiting.get(key) ?? { key, isKnown, places: [] }
    const places = party.places.length + this.#runningOf(key)
    if (places >= maxPlaces.perParty) throw tooManyAttempts(1)
    let onAbort: () => void = () => undefined
    const turn = new Promise<void>((resolve, reject) => {
      const place = { number: this.#numbers++, start: resolve, refuse: reject }
      onAbort = () => {
        this.#remove(party, place)
        reject(new GatewayError('aborted'))
      }
      party.places.push(place)
      this.#waiting.set(key, party)
    })
    signal?.addEventListener('abort', onAbort, { once: true })
    this.#refuseExcess()
    try {
      await turn
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  #remove(party: WaitingParty, place: WaitingJob): void {
    const index = party.places.indexOf(place)
    if (index >= 0) party.places.splice(index, 1)
    if (party.places.length === 0) this.#waiting.delete(party.key)
  }

  /** Refuses the newest job of the party with the most, if too many wait. */
  #refuseExcess(): void {
    const parties = [...this.#waiting.values()]
    if (parties.reduce((sum, { places }) => sum + places.length, 0) <= maxPlaces.waiting) return
    const excess = parties.reduce((worst, party) => {
      const difference = party.places.length - worst.places.length || this.#rank(party) - this.#rank(worst)
      return difference > 0 ? party : worst
    })
    const place = excess.places.at(-1)
    if (place === undefined) return
    this.#remove(excess, place)
    place.refuse(tooManyAttempts(1))
  }

  #startNext(): void {
    const party = this.#next()
    const place = party?.places[0]
    if (party === undefined || place === undefined) return
    this.#remove(party, place)
    this.#begin(party.key)
    place.start()
  }

  #next(): WaitingParty | undefined {
    const parties = [...this.#waiting.values()].filter(({ key }) => this.#runningOf(key) < this.perParty)
    if (parties.length === 0) return undefined
    const cost =
      ++this.#started % oldestEvery === 0
        ? ({ places: [oldest] }: WaitingParty) => oldest?.number ?? 0
        : (party: WaitingParty) => this.#rank(party)
    if (parties.length > manyParties) parties.reverse()
    return parties.reduce((best, party) => (cost(party) < cost(best) ? party : best))
  }

  /** Parties of lower rank are served first. */
  #rank({ key, isKnown, places }: WaitingParty): number {
    const jobs = this.#recent.count(key) + places.length
    // A network is locked after this many failures: a large one that signs in often is not served after those that
    // fail.
    return Math.min(jobs - (isKnown ? headStart : 0), lockout.failures)
  }
}
