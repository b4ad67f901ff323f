/** When nodes take each other for living. */
import { deadAfter } from '../store/nodes.js'

/** Times in milliseconds. All nodes must have the same ones. */
export interface NodeTimes {
  /** Between two heartbeats. */
  readonly interval: number
  /** Since its last heartbeat, for which a node is current. */
  readonly current: number
  /** Since its last heartbeat, after which a node is dead. */
  readonly dead: number
}

export const usualTimes: NodeTimes = { interval: 5000, current: 15_000, dead: deadAfter }
