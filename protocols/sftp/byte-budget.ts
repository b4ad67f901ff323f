/**
 * Memory budget for pending requests and responses, shared by all sessions of all connections. Each busy session may
 * hold an equal share. A client that does not read its responses holds its share indefinitely, but blocks no other
 * session: their shares only become smaller. If n sessions start one after another and all of them stall, they hold at
 * most `total` × (1 + ln n) bytes, plus one request each. `p-queue` counts jobs, not bytes.
 */

import { FairShare, type Holder, type Release } from '../../src/base/fair-share.js'

/** Maximum share of one session, in bytes. */
const sessionLimit = 4 * 1024 * 1024

export class ByteBudget {
  /** Number of sessions that hold any bytes. */
  #busy = 0

  constructor(private readonly total: number) {}

  /** Share of each busy session, in bytes. */
  get share(): number {
    return Math.min(sessionLimit, this.total / Math.max(1, this.#busy))
  }

  /** Whether the share is below the maximum because many sessions are busy. */
  get isScarce(): boolean {
    return this.share < sessionLimit
  }

  /** Whether a session that holds `own` bytes may accept another request. One request is always allowed. */
  allows(own: number): boolean {
    return own === 0 || own < this.share
  }

  /** Records that the bytes held by a session changed from `before` to `after`. */
  update(before: number, after: number): void {
    this.#busy += Number(after > 0) - Number(before > 0)
  }
}

/** Bytes in which `HeldBytes` takes its share. */
const step = 256 * 1024

/**
 * What a session has received and not read yet, because earlier requests are pending: at most the window of its channel
 * and a packet; or what a connection has not sent yet. All sessions and connections of one user share what `total`
 * leaves them.
 */
export class HeldBytes {
  readonly #releases: Release[] = []

  constructor(
    private readonly total: FairShare,
    private readonly holder: Holder,
  ) {}

  /** Throws `busy` if it is more than the user's share. */
  set(bytes: number): void {
    const steps = Math.ceil(bytes / step)
    while (this.#releases.length > steps) this.#releases.pop()?.()
    while (this.#releases.length < steps) this.#releases.push(this.total.take(this.holder, step))
  }
}
