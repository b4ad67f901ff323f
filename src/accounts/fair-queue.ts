/** The queue of password checks, which is fair to all addresses. */
import { setTimeout as sleep } from 'node:timers/promises'
import { tooManyAttempts } from './errors.js'

/** Maximum pending attempts, per address and in total. */
const maxPending = { perAddress: 16, total: 512 }

/**
 * Runs one job at a time, round robin over the addresses: an address with many jobs delays those of another address by
 * at most one job per round.
 */
export class FairQueue {
  /** Waiting jobs by address, in the order in which the addresses are served. */
  readonly #waiting = new Map<string, (() => void)[]>()
  /** Number of pending jobs by address. */
  readonly #pending = new Map<string, number>()
  #totalPending = 0
  #busy = false

  /** Waits `delay` milliseconds, then queues and runs `work`. Rejects with `throttled` if too many jobs are pending. */
  async run<T>(address: string, delay: number, work: () => Promise<T>): Promise<T> {
    const pending = this.#pending.get(address) ?? 0
    if (pending >= maxPending.perAddress || this.#totalPending >= maxPending.total) throw tooManyAttempts(1)
    this.#pending.set(address, pending + 1)
    this.#totalPending++
    try {
      if (delay > 0) await sleep(delay, undefined, { ref: false })
      await this.#acquire(address)
      try {
        return await work()
      } finally {
        this.#startNext()
      }
    } finally {
      this.#removePending(address)
    }
  }

  async #acquire(address: string): Promise<void> {
    if (!this.#busy) {
      this.#busy = true
      return
    }
    await new Promise<void>((resolve) => {
      const queue = this.#waiting.get(address)
      if (queue === undefined) this.#waiting.set(address, [resolve])
      else queue.push(resolve)
    })
  }

  #startNext(): void {
    const [first] = this.#waiting
    if (first === undefined) {
      this.#busy = false
      return
    }
    const [address, queue] = first
    const start = queue.shift()
    // Reinserts the address at the end.
    this.#waiting.delete(address)
    if (queue.length > 0) this.#waiting.set(address, queue)
    start?.()
  }

  #removePending(address: string): void {
    const pending = (this.#pending.get(address) ?? 1) - 1
    if (pending === 0) this.#pending.delete(address)
    else this.#pending.set(address, pending)
    this.#totalPending--
  }
}
