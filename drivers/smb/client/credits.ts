/** What the server lets a client have in flight (MS-SMB2 §3.2.4.1.2): each message costs some, each answer brings some. */

/** Bytes that one credit moves. */
export const bytesPerCredit = 65_536
/** How many we want to have: enough for some sixty requests of 1 MiB. */
const wanted = 1024

interface Waiting {
  readonly cost: number
  readonly go: () => void
}

export class Credits {
  #left = 1
  readonly #waiting: Waiting[] = []

  /** What a message should ask for. */
  asked(cost: number): number {
    return Math.min(Math.max(wanted - this.#left, cost), 512)
  }

  /** Runs `go` when there are so many, in the order of the calls: at once if it can be. */
  take(cost: number, go: () => void): void {
    if (this.#waiting.length === 0 && cost <= this.#left) {
      this.#left -= cost
      go()
      return
    }
    this.#waiting.push({ cost, go })
  }

  grant(count: number): void {
    this.#left += count
    for (let next = this.#waiting[0]; next !== undefined && next.cost <= this.#left; next = this.#waiting[0]) {
      this.#waiting.shift()
      this.#left -= next.cost
      next.go()
    }
  }

  /** Whether messages wait for more of them. */
  get areWanted(): boolean {
    return this.#waiting.length > 0
  }

  /** Nothing that waits will ever go. */
  drop(): void {
    this.#waiting.length = 0
  }

  static costOf(weight: number): number {
    return Math.max(1, Math.ceil(weight / bytesPerCredit))
  }
}
