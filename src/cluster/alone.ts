/** The cluster of a process that has the database for itself: all other nodes in it have ended. */
import { limitersInMemory } from '../accounts/limiter.js'
import type { Instance } from '../contract/driver-env.js'
import type { OfOthers } from '../database/tables.js'
import { PathLocksInProcess } from '../locks/path-locks.js'
import type { Cluster, ClusterHandlers, JoinOptions, Limits } from './cluster.js'
import { joinNodes, nodeStatuses } from './node-rows.js'

export class Alone implements Cluster {
  readonly isCurrent = true
  readonly count = 1
  readonly limiters = limitersInMemory(() => performance.now())
  readonly knowsEntries = true
  readonly spansMachines = false
  #handlers: ClusterHandlers | undefined

  private constructor(
    private readonly nodes: JoinOptions['store']['nodes'],
    readonly instance: Instance,
  ) {}

  static async join({ store, instance, name }: JoinOptions): Promise<Alone> {
    const ended = await joinNodes(store.nodes, { id: instance.name, name }, () => true)
    const isOver = (id: string) => (id === instance.name ? false : ended.has(id) || instance.isOver(id))
    return new Alone(store.nodes, { ...instance, isOver })
  }

  readonly ofOthers: OfOthers = () => undefined

  assertCurrent(): void {
    // Nobody else can take this process for dead.
  }

  now(): number {
    return Date.now()
  }

  onCountChange(): () => void {
    return () => undefined
  }

  limits(settings: Limits): Limits {
    return settings
  }

  pathLocks(): PathLocksInProcess {
    return new PathLocksInProcess()
  }

  duty(): undefined {
    return undefined
  }

  async status() {
    return nodeStatuses(this.nodes, () => false, { id: this.instance.name, working: this.#handlers?.working() ?? {} })
  }

  async publishAddresses(addresses: Readonly<Record<string, string>>): Promise<void> {
    await this.nodes.setAddresses(this.instance.name, JSON.stringify(addresses))
  }

  start(handlers: ClusterHandlers): void {
    this.#handlers = handlers
  }

  async leave(): Promise<void> {
    await this.nodes.end(this.instance.name)
  }
}
