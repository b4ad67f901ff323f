/**
 * The cluster of a process that shares the database with others, as one of its nodes: its heartbeats, whether it may
 * still act, and the end of nodes that are dead (docs/decisions/0036).
 */
import { sharedLimiters, type Limiters } from '../accounts/limiter.js'
import { settlesWithin } from '../base/cancellation.js'
import { GatewayError } from '../base/errors.js'
import type { Instance } from '../contract/driver-env.js'
import type { SharedEngine } from '../database/engine.js'
import type { NodeRow } from '../database/tables/nodes.js'
import type { Topic } from '../database/topics.js'
import type { OfOthers, Store } from '../database/tables.js'
import type { Cluster, ClusterHandlers, JoinOptions, Limits } from './cluster.js'
import { Duty } from './duty.js'
import { FileNotices } from './file-notices.js'
import { isSilent, joinNodes, nodeStatuses, usualTimes, type NodeTimes } from './node-rows.js'
import { SharedPathLocks, type Mirror } from './shared-path-locks.js'

/** Milliseconds by which clocks may differ without effect: the time of the network is part of the difference. */
const clockTolerance = 1000

/** The settings of which each node gets an equal part: speeds, and numbers of concurrent tasks. */
const sharedSettings = /^max_(?:client|server)_(?:down|up)load_speed$|_task_threads_num$/

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

export class Nodes implements Cluster {
  readonly instance: Instance
  readonly limiters: Limiters
  readonly knowsEntries = false
  readonly spansMachines: boolean
  readonly #store: Pick<Store, 'nodes' | 'leases'>
  readonly #notices: FileNotices
  /** When the last heartbeat that succeeded was sent. */
  #renewed: Moment
  #rows: readonly NodeRow[] = []
  /** The heartbeats of other nodes, and since when this node has seen them, while it was current. */
  #seen = new Map<string, { readonly heartbeat: number; readonly since: Moment }>()
  readonly #duties: Duty[] = []
  #timer: NodeJS.Timeout | undefined
  #beating: Promise<void> | undefined
  #takingOver: Promise<void> | undefined
  /** Reports that the node is not current any more. */
  #lapse: NodeJS.Timeout | undefined
  #hasEnded = false
  /** Undefined until the node has started. */
  #handlers: ClusterHandlers | undefined
  readonly #countListeners = new Set<() => void>()
  /** Called when the node is not current any more: others may take it for dead, so what it has begun must stop. */
  readonly #lapseListeners = new Set<() => void>()
  /** Milliseconds by which the clock of the database is ahead of this machine's. */
  #clockOffset = 0
  /** The nodes that had ended when this one last took over what they owned. */
  #takenOver: ReadonlySet<string> = new Set()
  readonly #times: NodeTimes

  private constructor(
    private readonly options: JoinOptions,
    private readonly shared: SharedEngine,
    joined: Moment,
  ) {
    const { store, instance, events, log, times = usualTimes } = options
    this.#store = store
    this.#renewed = joined
    this.#times = times
    this.instance = { ...instance, isOver: (name) => this.#isOver(name) }
    this.limiters = sharedLimiters(store.signIns)
    this.spansMachines = shared.spansMachines
    this.#notices = new FileNotices(shared, events, log)
  }

  /** Starts the heartbeats too. */
  static async join(options: JoinOptions, shared: SharedEngine): Promise<Nodes> {
    const { store, instance, name, times = usualTimes } = options
    const joined = now()
    const ended = await joinNodes(store.nodes, { id: instance.name, name }, ({ id, age }) => {
      // A copy of this machine looks like an earlier boot of it, but sends heartbeats.
      const isLate = age >= times.current
      return instance.runs(id) === false || (isLate && instance.isOver(id) === true)
    })
    const nodes = new Nodes(options, shared, joined)
    nodes.#takenOver = ended
    nodes.#rows = await store.nodes.all()
    nodes.#scheduleBeat()
    nodes.#watch()
    return nodes
  }

  /** From now on this node also ends dead nodes. */
  start(handlers: ClusterHandlers): void {
    if (this.#hasEnded) throw new GatewayError('unavailable', { reason: 'another node has ended this one' })
    this.#handlers = handlers
    this.#scheduleBeat(0)
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

  readonly ofOthers: OfOthers = (read) => read()

  /** A change of `count` is reported as a change of a setting. */
  limits(settings: Limits): Limits {
    return {
      number: (key) => settings.number(key) / (sharedSettings.test(key) ? this.count : 1),
      onChange: (listener) => {
        const unsubscribers = [settings.onChange(listener), this.onCountChange(listener)]
        return () => {
          for (const unsubscribe of unsubscribers) unsubscribe()
        }
      },
    }
  }

  pathLocks(mirrors: ReadonlyMap<Topic, Mirror>): SharedPathLocks {
    const locks = new SharedPathLocks(this.shared, this.#notices, mirrors)
    this.#lapseListeners.add(() => locks.loseAll())
    return locks
  }

  duty(name: string): Duty {
    const duty = new Duty(name, this.#store.leases, this.#notices)
    this.#duties.push(duty)
    return duty
  }

  /** Stops the heartbeats, after the other nodes have got the notices of all changes. */
  async leave(): Promise<void> {
    await this.#notices.close()
    this.#hasEnded = true
    clearTimeout(this.#timer)
    clearTimeout(this.#lapse)
    await settlesWithin(Promise.all([this.#beating, this.#takingOver]), this.#times.interval)
    await this.#store.nodes.end(this.#id)
  }

  get #id(): string {
    return this.instance.name
  }

  get isCurrent(): boolean {
    return !this.#hasEnded && ageOf(this.#renewed) < this.#times.current
  }

  assertCurrent(): void {
    if (this.isCurrent) return
    throw new GatewayError('unavailable', {
      reason: 'this server has lost the connection to its database',
      retryAfter: Math.ceil(this.#times.interval / 1000),
    })
  }

  /** The time by the clock of the database, as far as the last heartbeat tells. */
  now(): number {
    return Date.now() + this.#clockOffset
  }

  /** The number of living nodes, as of the last heartbeat. */
  get count(): number {
    return Math.max(1, this.#rows.filter(({ ended }) => ended === undefined).length)
  }

  onCountChange(listener: () => void): () => void {
    this.#countListeners.add(listener)
    return () => this.#countListeners.delete(listener)
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

  async status() {
    return nodeStatuses(this.#store.nodes, isSilent, { id: this.#id, working: this.#working })
  }

  #isOver(name: string): boolean | undefined {
    const node = this.#rows.find(({ id }) => id === name)
    return node ? node.ended !== undefined : this.options.instance.isOver(name)
  }

  async publishAddresses(addresses: Readonly<Record<string, string>>): Promise<void> {
    await this.#store.nodes.setAddresses(this.#id, JSON.stringify(addresses))
    await this.#list()
  }

  /** Reads the nodes. */
  async #list(): Promise<void> {
    const { count } = this
    this.#rows = await this.#store.nodes.all()
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
    const { nodes } = this.#store
    const isLate = () => !this.isCurrent
    const wasLate = isLate()
    if (wasLate) this.#seen.clear()
    const sent = now()
    const heartbeat = await nodes.renew(this.#id, JSON.stringify(this.#working))
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
    for (const duty of this.#duties) await duty.renew()
    const ended = this.#rows.filter((node) => node.ended !== undefined).map(({ id }) => id)
    if (ended.some((id) => !this.#takenOver.has(id))) this.#takeOver(handlers, new Set(ended))
  }

  /** Heartbeats do not wait for it: backends may be slow. If it fails, it is repeated after the next heartbeat. */
  #takeOver(handlers: ClusterHandlers, ended: ReadonlySet<string>): void {
    const takeOver = async () => {
      await this.#store.nodes.claim(this.#id)
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
    for (const { id, name, heartbeat, ended, age } of this.#rows) {
      if (ended !== undefined || id === this.#id) continue
      const seen = this.#seen.get(id)
      if (seen?.heartbeat !== heartbeat) this.#seen.set(id, { heartbeat, since: now() })
      else if (age > dead && ageOf(seen.since) > dead - 2 * interval) {
        if (!(await this.#store.nodes.end(id, heartbeat))) continue
        endedAny = true
        this.options.log.warn({ node: name, silent: Math.round(age / 1000) }, 'a node is dead; taking over its work')
      }
    }
    if (endedAny) await this.#list()
  }

  /** Milliseconds until the next heartbeat: sooner if a node may be dead by then. */
  #pause(): number {
    const ages = this.#rows.filter(({ id, ended }) => ended === undefined && id !== this.#id).map(({ age }) => age)
    const { dead, interval } = this.#times
    return Math.min(interval, Math.max(interval / 5, dead - Math.max(0, ...ages)))
  }

  #onEnded(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    clearTimeout(this.#lapse)
    for (const listener of this.#lapseListeners) listener()
    for (const duty of this.#duties) duty.lose()
    this.options.log.error({}, 'another node has ended this one, because it sent no heartbeat')
    this.#handlers?.ended()
  }
}
