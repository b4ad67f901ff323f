/** The receive window of an SSH channel (RFC 4254 §5.2). */
import type { ServerChannel } from 'ssh2'

/**
 * Calls `exceeded` when the client sends more than the window of the channel permits, and drops that. ssh2 itself keeps it,
 * so that a client could fill the memory.
 */
export function enforceWindow(channel: Pick<ServerChannel, 'push' | 'incoming'>, exceeded: () => void): void {
  const incoming = channel.incoming as { readonly window: number }
  const push = channel.push.bind(channel)
  channel.push = (chunk, encoding) => {
    if (incoming.window >= 0) return push(chunk, encoding)
    exceeded()
    return false
  }
}
