/** The rows of the nodes: how a process joins them, when one counts as alive, and how admins see them. */
import { version } from '../base/version.js'
import { deadAfter } from '../database/nodes.js'
import type { NodeRow } from '../database/tables/nodes.js'
import type { Store } from '../database/tables.js'

/** Times in milliseconds. All nodes must have the same ones. */
export interface NodeTimes {
  /** The time between two heartbeats. */
  readonly interval: number
  /** The time since its last heartbeat for which a node is current. */
  readonly current: number
  /** The time since its last heartbeat after which a node is dead. */
  readonly dead: number
}

export const usualTimes: NodeTimes = { interval: 5000, current: 15_000, dead: deadAfter }

export interface NodeStatus {
  readonly id: string
  readonly name: string
  readonly version: string
  /** The addresses at which the node accepts connections, by protocol. */
  readonly addresses: Readonly<Record<string, string>>
  readonly started: Date
  /** Seconds since its last heartbeat, which a node without a shared database sends only when it starts. */
  readonly heartbeatAge: number
  /** 'silent': it has sent no heartbeat for too long, and answers nothing until it has sent one. */
  readonly state: 'current' | 'silent' | 'ended'
  readonly ended: Date | undefined
  /** The amounts of work of the node at its last heartbeat: numbers by name. */
  readonly working: Readonly<Record<string, number>>
}

/** Milliseconds for which a node is listed after it has ended. */
const listedTime = 3600_000

/**
 * Adds this process to the nodes, ends those that are over, and makes it the owner of all unfinished work that no
 * living node owns. Resolves to the ids of the nodes that have ended.
 */
export async function joinNodes(
  nodes: Store['nodes'],
  { id, name }: Pick<NodeRow, 'id' | 'name'>,
  isOver: (other: NodeRow) => boolean,
): Promise<ReadonlySet<string>> {
  await nodes.join({ id, name, version, addresses: '{}' })
  const ended = new Set<string>()
  for (const other of await nodes.all()) {
    if (other.id === id || (other.ended === undefined && !isOver(other))) continue
    if (other.ended === undefined) await nodes.end(other.id)
    ended.add(other.id)
  }
  await nodes.claim(id)
  return ended
}

/** Whether a node that sends heartbeats has sent none for so long that it answers nothing. */
export function isSilent({ age }: NodeRow): boolean {
  return age >= usualTimes.current
}

/**
 * The nodes that are alive or have ended within an hour, in the order of their starts. `silent`: which of them answer
 * nothing. `own`: what this node works on now.
 */
export async function nodeStatuses(
  nodes: Store['nodes'],
  silent: (node: NodeRow) => boolean,
  own?: Pick<NodeStatus, 'id' | 'working'>,
): Promise<NodeStatus[]> {
  const rows = await nodes.all()
  return rows.flatMap((row) => {
    const { id, name, version, addresses, started, heartbeat, age, ended, working } = row
    if (ended !== undefined && heartbeat + age - ended.getTime() > listedTime) return []
    return {
      id,
      name,
      version,
      started,
      ended,
      addresses: JSON.parse(addresses) as NodeStatus['addresses'],
      heartbeatAge: Math.round(age / 1000),
      state: ended !== undefined ? 'ended' : silent(row) ? 'silent' : 'current',
      working: id === own?.id ? own.working : (JSON.parse(working) as NodeStatus['working']),
    }
  })
}
