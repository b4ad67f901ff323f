/** The receive window of an SSH channel (RFC 4254 §5.2). */
import type { ServerChannel } from 'ssh2'

interface ReceiveEvents {
  /** The client has sent more than the window permits. That is dropped; ssh2 itself would keep it. */
  readonly exceeded: () => void
  /** Bytes were added to the channel's buffer, or were read at once. */
  readonly received: () => void
}

/** Enforces the window, so that a client cannot fill the memory. */
export function enforceWindow(
  channel: Pick<ServerChannel, 'push' | 'incoming'>,
  { exceeded, received }: ReceiveEvents,
): void {
  const incoming = channel.incoming as { readonly window: number }
  const push = channel.push.bind(channel)
  channel.push = (chunk, encoding) => {
    if (incoming.window < 0) {
      exceeded()
      return false
    }
    const hasRoom = push(chunk, encoding)
    received()
    return hasRoom
  }
}
