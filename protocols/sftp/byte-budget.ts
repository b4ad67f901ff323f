/**
 * Memory for requests and answers, shared by all sessions of all connections: each may hold an equal share of what there is.
 * A client that does not read what it asked for keeps its share for as long as it likes; nobody else waits for it, since
 * the next one's share is only a little smaller. Even if n sessions come one after the other and all of them stall, they hold no
 * more than `total` × (1 + ln n), and one request each.
 */

/** Bytes that one session may hold where few others do. */
const sessionLimit = 4 * 1024 * 1024

export class ByteBudget {
  /** Sessions that hold any bytes. */
  #busy = 0

  constructor(private readonly total: number) {}

  /** Bytes for each of the sessions that hold any. */
  get share(): number {
    return Math.min(sessionLimit, this.total / Math.max(1, this.#busy))
  }

  /** So many sessions hold bytes that each has to do with less than one of few would get. */
  get isScarce(): boolean {
    return this.share < sessionLimit
  }

  /** Whether a session that holds `own` bytes may take up another request: at least one at a time it always may. */
  admits(own: number): boolean {
    return own === 0 || own < this.share
  }

  /** `before` and `after`: bytes that a session held, and holds now. */
  changed(before: number, after: number): void {
    this.#busy += Number(after > 0) - Number(before > 0)
  }
}
