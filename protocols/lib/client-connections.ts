/** Accepts the connections of clients, of which each network has a share. */
import type { Socket } from 'node:net'
import type { FairShare } from '../../src/base/fair-share.js'
import type { Log } from '../../src/base/log.js'
import { networkOf } from '../../src/net/addresses.js'

/** Milliseconds between two lines of the log about connections that were not accepted. */
const logInterval = 60_000

export class ClientConnections {
  #lastLogged = -Infinity

  /** `descriptors`: those of the process; each connection holds one. */
  constructor(
    private readonly descriptors: FairShare,
    private readonly log: Pick<Log, 'warn'>,
    private readonly protocol: string,
  ) {}

  /** Whether the new connection is accepted. Otherwise its network has too many, and it is closed. */
  accept(socket: Socket): boolean {
    const network = networkOf(socket.remoteAddress ?? '')
    try {
      socket.once('close', this.descriptors.take(network))
      return true
    } catch {
      socket.on('error', () => undefined)
      socket.destroy()
      if (performance.now() - this.#lastLogged < logInterval) return false
      this.#lastLogged = performance.now()
      const { protocol } = this
      this.log.warn({ protocol, network }, 'a network has too many connections: further ones are closed')
      return false
    }
  }
}
