/**
 * Keeps a connection's bytes out while a session that is to write them holds as many as it may: they wait in the system and with
 * their sender, and not in the daemon, where ssh2 would take in its whole window.
 */
import type { Socket } from 'node:net'

/**
 * Milliseconds for which it stays shut at most. Whatever else the client sends waits as well: its answers to the question whether it
 * is still there, and what it asks of other sessions.
 */
const patience = 1000

export class Inlet {
  readonly #holding = new Set<object>()
  #timer: NodeJS.Timeout | undefined

  constructor(private readonly socket: Pick<Socket, 'pause' | 'resume'>) {}

  /** Shut until all who hold it have let go, or for a second. */
  hold(session: object): void {
    if (this.#holding.size === 0) {
      this.socket.pause()
      this.#timer = setTimeout(() => this.#open(), patience)
    }
    this.#holding.add(session)
  }

  letGo(session: object): void {
    if (this.#holding.delete(session) && this.#holding.size === 0) this.#open()
  }

  #open(): void {
    clearTimeout(this.#timer)
    this.#holding.clear()
    this.socket.resume()
  }
}
