/**
 * This process as one of the nodes that share the database: its heartbeats, whether it may still act, and the end of
 * nodes that are dead (docs/decisions/0036).
 */
import { settlesWithin } from '../base/cancellation.js'
import type { Instance } from '../contract/driver-env.js'
import { GatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { version } from '../base/version.js'
import type { NodeRow } from '../database/rows.js'
import type { Store } from '../database/tables.js'
import { nodeStatuses, usualTimes, type NodeStatus, type NodeTimes } from './node-status.js'

/** Milliseconds by which clocks may differ without effect: the time of the network is part of the difference. */
const clockTolerance = 1000

interface MembershipOptions {
  readonly store: Pick<Store, 'nodes' | 'leases' | 'isShared'>
  readonly instance: Instance
  /** Whether the process of another node runs on this machine; undefined if that is unknown. */
  readonly runs: (id: string) => boolean | undefined
  /** For admins: where the node runs. */
  readonly name: string
  readonly log: Log
  /** For tests. */
  readonly times?: NodeTimes
}

interface NodeHandlers {
  /** Reads everything again that this process mirrors: changes of others may have been missed. */
  reload(): Promise<void>
  /** Continues or settles the work of nodes that have ended. This node owns their rows now. */
  takeOver(): Promise<void>
  /** What this node works on, for admins: numbers by name. */
  working(): Readonly<Record<string, number>>
  /** Another node has ended this one: nothing may continue under its id. Called once. */
  ended(): void
}

/** What one node at a time does for all of them. */
export interface Duty {
  /** Of the lease. */
  readonly name: string
  /** This node does it from now on. Another one may have done it before. */
  begin(): void
  /** This node must not do it any more. */
  end(): void
}

/** A time by both clocks: only the wall clock runs while a machine is suspended, and it may be set back. */
interface Moment {
  readonly wall: number
  readonly monotonic: number
}

function now(): Moment {
  return { wall: Date.now(), monotonic: performance.now() }
}

/** Milliseconds since `moment`. */
function ageOf({ wall, monotonic }: Moment): number {
  return Math.max(Date.now() - wall, performance.now() - monotonic)
}

export class Membership {
  /** When the last heartbeat that succeeded was sent. */
  #renewed: Moment
  #nodes: readonly NodeRow[] = []
  /** The heartbeats of other nodes, and since when this node has seen them, while it was current. */
  #seen = new Map<string, { readonly heartbeat: number; readonly since: Moment }>()
  /** What this node can do for all, and whether it does. */
  readonly #duties = new Map<Duty, boolean>()
  #timer: NodeJS.Timeout | undefined
  #beating: Promise<void> | undefined
  #takingOver: Promise<void> | undefined
  /** Reports that the node is not current any more. */
  #lapse: NodeJS.Timeout | undefined
  #hasEnded = false
  /** Undefined until the node has started. */
  #handlers: NodeHandlers | undefined
  readonly #countListeners = new Set<() => void>()
  readonly #lapseListeners = new Set<() => void>()
  /** Milliseconds by which the clock of the database is ahead of this machine's. */
  #clockOffset = 0
  /** The nodes that had ended when this one last took over what they owned. */
  #takenOver: ReadonlySet<string> = new Set()
  readonly #times: NodeTimes

  private constructor(
    private readonly options: MembershipOptions,
    joined: Moment,
  ) {
    this.#renewed = joined
    this.#times = options.times ?? usualTimes
  }

  /**
   * Adds this process to the nodes, and starts the heartbeats. It becomes the owner of all unfinished work that no
   * living node owns. Without a shared database there are no heartbeats: all other nodes have ended.
   */
  static async join(options: MembershipOptions): Promise<Membership> {
    const { store, instance, name } = options
    const { nodes } = store
    const joined = now()
    await nodes.join({ id: instance.name, name, version, addresses: '{}' })
    const membership = new Membership(options, joined)
    const takenOver = new Set<string>()
    for (const { id, ended, age } of await nodes.all()) {
      if (id === instance.name) continue
      // A copy of this machine looks like an earlier boot of it, but sends heartbeats.
      const isSilent = age >= membership.#times.current
      const isOver = !store.isShared || options.runs(id) === false || (isSilent && instance.isOver(id) === true)
      if (ended === undefined && !isOver) continue
      if (ended === undefined) await nodes.end(id)
      takenOver.add(id)
    }
    await nodes.claim(instance.name)
    membership.#takenOver = takenOver
    membership.#nodes = await nodes.all()
    if (store.isShared) {
      membership.#scheduleBeat()
      membership.#watch()
    }
    return membership
  }

  /**
   * From now on this node also ends dead nodes, and takes over what they owned. Throws `unavailable` if another node
   * has ended this one since it joined.
   */
  start(handlers: NodeHandlers): void {
    if (this.#hasEnded) throw new GatewayError('unavailable', { reason: 'another node has ended this one' })
    this.#handlers = handlers
    if (this.options.store.isShared) this.#scheduleBeat(0)
  }

  #scheduleBeat(pause = this.#pause()): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat()
        .catch((error: unknown) => this.options.log.warn({ err: error }, 'the heartbeat of this node failed'))
        .finally(() => {
          if (!this.#hasEnded) this.#scheduleBeat()
        })
    }, pause).unref()
  }

  /** Begins the duty as soon as no other living node does it. Resolves when it has begun, or another node does it. */
  async offer(duty: Duty): Promise<void> {
    this.#duties.set(duty, false)
    await this.#obtainDuties()
  }

  /** Ends the duty, if this node does it. Another one may begin it. */
  async withdraw(duty: Duty): Promise<void> {
    const does = this.#duties.get(duty)
    this.#duties.delete(duty)
    if (does !== true) return
    duty.end()
    await this.options.store.leases.release(duty.name)
  }

  /** Ends this node: others may take over what it owns. The heartbeats stop. */
  async leave(): Promise<void> {
    this.#hasEnded = true
    clearTimeout(this.#timer)
    clearTimeout(this.#lapse)
    await settlesWithin(Promise.all([this.#beating, this.#takingOver]), this.#times.interval)
    await this.options.store.nodes.end(this.id)
  }

  get id(): string {
    return this.options.instance.name
  }

  /** Whether other nodes take this one for living, so that what it mirrors is valid and it may change something. */
  get isCurrent(): boolean {
    return !this.options.store.isShared || (!this.#hasEnded && ageOf(this.#renewed) < this.#times.current)
  }

  /** Throws `unavailable` unless the node is current. */
  assertCurrent(): void {
    if (this.isCurrent) return
    throw new GatewayError('unavailable', {
      reason: 'this server has lost the connection to its database',
      retryAfter: Math.ceil(this.#times.interval / 1000),
    })
  }

  /** The clock of the database, as far as the last heartbeat tells: milliseconds since 1970. */
  now(): number {
    return Date.now() + this.#clockOffset
  }

  /** The number of living nodes, as of the last heartbeat; at least 1. */
  get count(): number {
    return Math.max(1, this.#nodes.filter(({ ended }) => ended === undefined).length)
  }

  /** Calls `listener` when `count` has changed. Returns an unsubscriber. */
  onCountChange(listener: () => void): () => void {
    this.#countListeners.add(listener)
    return () => this.#countListeners.delete(listener)
  }

  /**
   * Calls `listener` when the node is not current any more: other nodes may take it for dead, so that what it has begun
   * must stop.
   */
  onLapse(listener: () => void): void {
    this.#lapseListeners.add(listener)
  }

  #watch(): void {
    clearTimeout(this.#lapse)
    if (this.#hasEnded) return
    const check = () => {
      if (this.isCurrent) this.#watch()
      else for (const listener of this.#lapseListeners) listener()
    }
    this.#lapse = setTimeout(check, this.#times.current - ageOf(this.#renewed)).unref()
  }

  /** The nodes for admins, as of now. */
  async status(): Promise<readonly NodeStatus[]> {
    const nodes = await nodeStatuses(this.options.store)
    return nodes.map((node) => (node.id === this.id ? { ...node, working: this.#working } : node))
  }

  /** As `Instance.isOver`; also known of the nodes of other machines that share the database. */
  isOver(name: string): boolean | undefined {
    const node = this.#nodes.find(({ id }) => id === name)
    return node ? node.ended !== undefined : this.options.instance.isOver(name)
  }

  /** Stores where this node accepts connections, by protocol. */
  async publishAddresses(addresses: Readonly<Record<string, string>>): Promise<void> {
    await this.options.store.nodes.setAddresses(this.id, JSON.stringify(addresses))
    await this.#list()
  }

  /** Reads the nodes. */
  async #list(): Promise<void> {
    const { count } = this
    this.#nodes = await this.options.store.nodes.all()
    if (this.count !== count) for (const listener of this.#countListeners) listener()
  }

  get #working(): Readonly<Record<string, number>> {
    return this.#handlers?.working() ?? {}
  }

  async #beat(): Promise<void> {
    const work = this.#renew()
    work.catch(() => undefined)
    if (!(await settlesWithin(work, 2 * this.#times.interval))) throw new GatewayError('unavailable')
    await work
  }

  async #renew(): Promise<void> {
    const handlers = this.#handlers
    const { nodes } = this.options.store
    const isLate = () => !this.isCurrent
    const wasLate = isLate()
    if (wasLate) this.#seen.clear()
    const sent = now()
    const heartbeat = await nodes.renew(this.id, JSON.stringify(this.#working))
    if (heartbeat === undefined) {
      this.#onEnded()
      return
    }
    const offset = heartbeat - (sent.wall + Date.now()) / 2
    this.#clockOffset = Math.abs(offset) > clockTolerance ? offset : 0
    await this.#list()
    if (wasLate || isLate()) {
      this.#seen.clear()
      await handlers?.reload()
    }
    // An earlier heartbeat that took long may end after a later one.
    if (ageOf(sent) < ageOf(this.#renewed)) this.#renewed = sent
    this.#watch()
    if (!handlers) return
    await this.#endDead()
    await this.#obtainDuties()
    const ended = this.#nodes.filter((node) => node.ended !== undefined).map(({ id }) => id)
    if (ended.some((id) => !this.#takenOver.has(id))) this.#takeOver(handlers, new Set(ended))
  }

  async #obtainDuties(): Promise<void> {
    for (const [duty, does] of this.#duties) {
      const holds = await this.options.store.leases.obtain(duty.name)
      if (holds === does) continue
      this.#duties.set(duty, holds)
      if (holds) duty.begin()
      else duty.end()
    }
  }

  /** Heartbeats do not wait for it: backends may be slow. If it fails, it is repeated after the next heartbeat. */
  #takeOver(handlers: NodeHandlers, ended: ReadonlySet<string>): void {
    const takeOver = async () => {
      await this.options.store.nodes.claim(this.id)
      await handlers.takeOver()
      this.#takenOver = ended
    }
    this.#takingOver ??= takeOver()
      .catch((error: unknown) =>
        this.options.log.warn({ err: error }, 'the work of a dead node could not be taken over'),
      )
      .finally(() => (this.#takingOver = undefined))
  }

  /** Ends the nodes whose heartbeat this node has seen unchanged for too long. */
  async #endDead(): Promise<void> {
    const { dead, interval } = this.#times
    let endedAny = false
    for (const { id, name, heartbeat, ended, age } of this.#nodes) {
      if (ended !== undefined || id === this.id) continue
      const seen = this.#seen.get(id)
      if (seen?.heartbeat !== heartbeat) this.#seen.set(id, { heartbeat, since: now() })
      else if (age > dead && ageOf(seen.since) > dead - 2 * interval) {
        if (!(await this.options.store.nodes.end(id, heartbeat))) continue
        endedAny = true
        this.options.log.warn({ node: name, silent: Math.round(age / 1000) }, 'a node is dead; taking over its work')
      }
    }
    if (endedAny) await this.#list()
  }

  /** Milliseconds until the next heartbeat: sooner if a node may be dead by then. */
  #pause(): number {
    const ages = this.#nodes.filter(({ id, ended }) => ended === undefined && id !== this.id).map(({ age }) => age)
    const { dead, interval } = this.#times
    return Math.min(interval, Math.max(interval / 5, dead - Math.max(0, ...ages)))
  }

  #onEnded(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    clearTimeout(this.#lapse)
    for (const listener of this.#lapseListeners) listener()
    for (const [duty, does] of this.#duties) if (does) duty.end()
    this.options.log.error({}, 'another node has ended this one, because it sent no heartbeat')
    this.#handlers?.ended()
  }
}
