/**
 * Passes on connections that a worker has not accepted when it ends. `node:cluster` sends each new connection to a worker
 * and waits for its acknowledgement; of a worker that ends, it would keep the connection open and unanswered. The messages are those
 * of Node's lib/internal/cluster/round_robin_handle.js. Without them, this does nothing.
 */
import type { Worker } from 'node:cluster'

/** Fields of messages of `node:cluster`. */
interface ClusterMessage {
  /** Of the primary process: "newconn" has a connection with it. */
  readonly act?: string
  readonly seq?: number
  /** Of a worker: the `seq` that it answers. */
  readonly ack?: number
}

/** Milliseconds in which the last messages of a worker that has ended are read. */
const lastMessages = 100

export function passConnectionsOn({ process }: Worker): void {
  const pending = new Set<number>()
  const send = process.send.bind(process) as (message: ClusterMessage, ...rest: readonly unknown[]) => boolean
  process.send = (message: ClusterMessage, ...rest: readonly unknown[]) => {
    if (message.act === 'newconn' && message.seq !== undefined) pending.add(message.seq)
    return send(message, ...rest)
  }
  process.on('internalMessage', ({ ack }: ClusterMessage) => {
    if (ack !== undefined) pending.delete(ack)
  })
  // The acknowledgement of a worker that stops says that it has not accepted the connection.
  const refuse = () => {
    for (const ack of pending) process.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack, accepted: false })
  }
  process.once('exit', () => setTimeout(refuse, lastMessages))
}
