import { setTimeout as sleep } from 'node:timers/promises'
import { tooManyTries } from './errors.js'

/** Tries of one address that may wait, and of all. */
const most = { ofOne: 16, ofAll: 512 }

/**
 * One piece of work at a time, addresses served in turn: whoever sends a thousand requests delays his own, and others by
 * one at most.
 */
export class Turns {
  /** Addresses in the order of their turns, each with those who wait for it. */
  readonly #waiting = new Map<string, (() => void)[]>()
  /** Places taken, by address. */
  readonly #places = new Map<string, number>()
  #taken = 0
  #busy = false

  /** Does `work` when its turn comes, `delay` milliseconds from now at the earliest. `throttled` where too many wait. */
  async run<T>(address: string, delay: number, work: () => Promise<T>): Promise<T> {
    const places = this.#places.get(address) ?? 0
    if (places >= most.ofOne || this.#taken >= most.ofAll) throw tooManyTries(1)
    this.#places.set(address, places + 1)
    this.#taken++
    try {
      if (delay > 0) await sleep(delay, undefined, { ref: false })
      await this.#turn(address)
      try {
        return await work()
      } finally {
        this.#next()
      }
    } finally {
      this.#leave(address)
    }
  }

  async #turn(address: string): Promise<void> {
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

  #next(): void {
    const [first] = this.#waiting
    if (first === undefined) {
      this.#busy = false
      return
    }
    const [address, queue] = first
    const start = queue.shift()
    // Behind all others, if there is more.
    this.#waiting.delete(address)
    if (queue.length > 0) this.#waiting.set(address, queue)
    start?.()
  }

  #leave(address: string): void {
    const places = (this.#places.get(address) ?? 1) - 1
    if (places === 0) this.#places.delete(address)
    else this.#places.set(address, places)
    this.#taken--
  }
}
