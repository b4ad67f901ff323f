/**
 * Pauses a connection's socket while a session has reached its memory limit for WRITEs. Unread bytes then stay in
 * the socket's receive buffer and with the sender. Without the pause, ssh2 would buffer its whole window.
 */
import type { Socket } from 'node:net'

/** Maximum pause in milliseconds. It also delays the client's keepalive replies and the requests of other sessions. */
const timeout = 1000

export class ReadGate {
  readonly #holders = new Set<object>()
  #timer: NodeJS.Timeout | undefined

  constructor(private readonly socket: Pick<Socket, 'pause' | 'resume'>) {}

  /** Pauses the socket until every session that called this has released the gate, or the timeout expires. */
  acquire(session: object): void {
    if (this.#holders.size === 0) {
      this.socket.pause()
      this.#timer = setTimeout(() => this.#open(), timeout)
    }
    this.#holders.add(session)
  }

  /** Ends the hold of `session`. Resumes the socket if it was the last one. */
  release(session: object): void {
    if (this.#holders.delete(session) && this.#holders.size === 0) this.#open()
  }

  #open(): void {
    clearTimeout(this.#timer)
    this.#holders.clear()
    this.socket.resume()
  }
}
