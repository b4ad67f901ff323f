/**
 * Pauses a connection's socket while a session has reached its memory limit for WRITEs, or while the connection has had
 * its part of a turn of the event loop. Unread bytes then stay in the socket's receive buffer and with the sender.
 * Without the pause, ssh2 would buffer its whole window.
 */
import type { EventEmitter } from 'node:events'
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

/** Milliseconds of work on what a connection has received, after which others have their turn. */
const turnTime = 5

/**
 * Pauses the socket for the rest of a turn of the event loop in which it has taken long. The listeners for `data`
 * handle all messages of a chunk at once, and Node reads many chunks in one turn. To be called when these listeners are
 * there.
 */
export function yieldToOthers(socket: EventEmitter, gate: ReadGate): void {
  let began: number | undefined
  socket.prependListener('data', () => {
    if (began !== undefined) return
    began = performance.now()
    setImmediate(() => {
      began = undefined
      gate.release(socket)
    })
  })
  socket.on('data', () => {
    if (began !== undefined && performance.now() - began >= turnTime) gate.acquire(socket)
  })
}
