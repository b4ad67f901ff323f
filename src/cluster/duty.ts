/** Work that one node at a time does for all of them: the one that holds its lease. */
import type { Store } from '../database/tables.js'
import type { FileNotices } from './file-notices.js'

/** How a node does the duty. */
export interface DutyHolder {
  /** This node does the work from now on. Another one may have done it before. */
  begin(): void
  /** This node must not do the work any more. */
  end(): void
  /** Handles what another node asks of the one that does it. */
  handle(request: unknown): void
}

export class Duty {
  #holder: DutyHolder | undefined
  #isHeld = false

  /** `name`: of the lease and of the requests, such as `search`. */
  constructor(
    private readonly name: string,
    private readonly leases: Store['leases'],
    private readonly notices: Pick<FileNotices, 'request' | 'onRequest'>,
  ) {}

  /** Asks the node that does it. Rejects with `invalid` if the request is too long for a notice. */
  request(request: unknown): Promise<void> {
    return this.notices.request(this.name, request)
  }

  /** Begins it as soon as no other living node does it. Resolves when it has begun, or another one does it. */
  async offer(holder: DutyHolder): Promise<void> {
    this.#holder = holder
    this.notices.onRequest(this.name, (request) => holder.handle(request))
    await this.renew()
  }

  /** Obtains the lease if it is free, and begins or ends the duty accordingly. */
  async renew(): Promise<void> {
    const holder = this.#holder
    if (!holder) return
    const holds = await this.leases.obtain(this.name)
    if (holds === this.#isHeld || holder !== this.#holder) return
    this.#isHeld = holds
    if (holds) holder.begin()
    else holder.end()
  }

  /** Ends the work, if this node does it: another one has the lease now. */
  lose(): void {
    if (this.#isHeld) this.#holder?.end()
    this.#isHeld = false
    this.#holder = undefined
  }

  /** Ends the work, if this node does it. Another one may begin it. */
  async withdraw(): Promise<void> {
    const wasHeld = this.#isHeld
    this.lose()
    if (wasHeld) await this.leases.release(this.name)
  }
}
