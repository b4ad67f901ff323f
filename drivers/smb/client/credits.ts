/** Credit accounting (MS-SMB2 §3.2.4.1.2): each request consumes credits, each response grants some. */

/** Payload bytes that one credit covers. */
export const bytesPerCredit = 65_536
/** Number of credits that the client tries to hold: enough for about sixty requests of 1 MiB. */
const targetCredits = 1024

interface Waiting {
  readonly cost: number
  readonly send: () => void
}

export class Credits {
  #available = 1
  readonly #waiting: Waiting[] = []

  /** Credits to request with a message that costs `cost`. */
  creditsToRequest(cost: number): number {
    return Math.min(Math.max(targetCredits - this.#available, cost), 512)
  }

  /** Consumes `cost` credits and runs `send`, immediately or when enough are granted. Calls are served in order. */
  take(cost: number, send: () => void): void {
    if (this.#waiting.length === 0 && cost <= this.#available) {
      this.#available -= cost
      send()
      return
    }
    this.#waiting.push({ cost, send })
  }

  grant(count: number): void {
    this.#available += count
    for (let next = this.#waiting[0]; next !== undefined && next.cost <= this.#available; next = this.#waiting[0]) {
      this.#waiting.shift()
      this.#available -= next.cost
      next.send()
    }
  }

  /** Whether messages wait for credits. */
  get hasWaiters(): boolean {
    return this.#waiting.length > 0
  }

  /** Discards all waiting messages. */
  clear(): void {
    this.#waiting.length = 0
  }

  /** Credits for a request with a payload of `weight` bytes in its larger direction (MS-SMB2 §3.2.4.1.5). */
  static costOf(weight: number): number {
    return Math.max(1, Math.ceil(weight / bytesPerCredit))
  }
}
