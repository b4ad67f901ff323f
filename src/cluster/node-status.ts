/** When a node counts as alive, and the nodes as admins see them. */
import { deadAfter } from '../database/nodes.js'
import type { Store } from '../database/tables.js'

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

export interface NodeStatus {
  readonly id: string
  readonly name: string
  readonly version: string
  /** By protocol: where it accepts connections. */
  readonly addresses: Readonly<Record<string, string>>
  readonly started: Date
  /** Seconds since its last heartbeat, which a node without a shared database sends only when it starts. */
  readonly heartbeatAge: number
  /** 'silent': it has sent no heartbeat for too long, and answers nothing until it has sent one. */
  readonly state: 'current' | 'silent' | 'ended'
  readonly ended: Date | undefined
  /** What it works on, as of its last heartbeat: numbers by name. */
  readonly working: Readonly<Record<string, number>>
}

/** Milliseconds for which a node is listed after it has ended. */
const listedTime = 3600_000

/**
 * The nodes that are alive or have ended within an hour, in the order of their starts. `isOver`: as `Instance.isOver`,
 * for a database that is not shared: its node sends no heartbeats.
 */
export async function nodeStatuses(
  { nodes, isShared }: Pick<Store, 'nodes' | 'isShared'>,
  isOver: (id: string) => boolean | undefined = () => false,
): Promise<NodeStatus[]> {
  const rows = await nodes.all()
  return rows.flatMap(({ id, name, version, addresses, started, heartbeat, age, ended, working }) => {
    const now = heartbeat + age
    if (ended !== undefined && now - ended.getTime() > listedTime) return []
    const isSilent = isShared ? age >= usualTimes.current : isOver(id) === true
    return {
      id,
      name,
      version,
      started,
      ended,
      addresses: JSON.parse(addresses) as NodeStatus['addresses'],
      heartbeatAge: Math.round(age / 1000),
      state: ended !== undefined ? 'ended' : isSilent ? 'silent' : 'current',
      working: JSON.parse(working) as NodeStatus['working'],
    }
  })
}
