/**
 * The few connections of one storage. Each does one thing at a time, so there is a pool of them, made when they are
 * needed and closed when nobody needs them. Nobody who reads can keep all of them from those who write, nor both from
 * those who only ask: a copy within the storage reads and writes at once.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { GatewayError } from '../../src/errors.js'
import { breakLimit, type Connection } from './connection.js'
import { replyCode } from './errors.js'

export type Use = 'ask' | 'read' | 'write'

/** Many servers take fewer of one address: what they take is found out. */
const connectionsAtMost = 32
/** Milliseconds without use before it is closed; before it is looked whether it still stands; and for one to become free. */
const idleLimit = 60_000
const trustedFor = 5_000
const waitLimit = 60_000
/** Milliseconds between tries where the server has no room: it may still count those that we have just closed. */
const roomPauses = [200, 500, 1_500]

interface Waiting {
  readonly use: Use
  readonly start: () => void
  readonly giveUp: (error: GatewayError) => void
}

export class Connections {
  readonly #all = new Set<Connection>()
  readonly #idle: Connection[] = []
  /** About to be given back. */
  readonly #ending = new Set<Connection>()
  readonly #awaiting: (() => void)[] = []
  readonly #uses = { ask: 0, read: 0, write: 0 }
  readonly #waiting = new Set<Waiting>()
  readonly #stopped = new AbortController()
  #limit = connectionsAtMost
  #idleTimer: NodeJS.Timeout | undefined

  constructor(private readonly connect: (signal: AbortSignal) => Promise<Connection>) {}

  /**
   * Does the work on a connection of its own. Once the signal is aborted the connection is closed, and the work ends with it; who
   * writes has a moment left, to take back what was begun.
   */
  async use<T>(use: Use, signal: AbortSignal | undefined, work: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = await this.take(use, signal)
    let timer: NodeJS.Timeout | undefined
    const end = () => connection.close(new GatewayError('aborted'))
    const abort = () => (use === 'write' ? (timer = setTimeout(end, breakLimit)) : end())
    signal?.addEventListener('abort', abort, { once: true })
    try {
      return await work(connection)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      this.give(use, connection)
    }
  }

  /** The same for work that may be done twice: where the connection turns out to be lost, it is done again on another, once. */
  async useAgain<T>(
    use: Use,
    signal: AbortSignal | undefined,
    work: (connection: Connection) => Promise<T>,
  ): Promise<T> {
    const seen = { lost: false }
    try {
      return await this.use(use, signal, async (connection) => {
        try {
          return await work(connection)
        } finally {
          seen.lost = connection.broken
        }
      })
    } catch (error) {
      if (!seen.lost || signal?.aborted || this.#stopped.signal.aborted) throw error
      return this.use(use, signal, work)
    }
  }

  /** Until `give`. Rejects with `busy` where none becomes free, and as `Connection.open` does. */
  async take(use: Use, signal: AbortSignal | undefined): Promise<Connection> {
    await this.#turn(use, signal)
    try {
      return (await this.#standing()) ?? (await this.#another(use, signal))
    } catch (error) {
      this.#leave(use)
      throw error
    }
  }

  /** Whoever wants one next waits for this one, rather than making another: that takes longer. */
  giveSoon(connection: Connection): void {
    this.#ending.add(connection)
  }

  give(use: Use, connection: Connection): void {
    this.#ending.delete(connection)
    if (connection.broken) {
      this.#all.delete(connection)
      connection.close()
    } else {
      connection.idleSince = Date.now()
      this.#idle.push(connection)
      this.#idleTimer ??= setTimeout(() => this.#closeIdle(), idleLimit).unref()
    }
    this.#leave(use)
    this.#awaiting.shift()?.()
  }

  close(): void {
    this.#stopped.abort()
    clearTimeout(this.#idleTimer)
    for (const connection of this.#all) connection.close()
    this.#all.clear()
    this.#idle.length = 0
    for (const { giveUp } of this.#waiting) giveUp(stopped())
  }

  // Turns

  async #turn(use: Use, signal: AbortSignal | undefined): Promise<void> {
    if (this.#stopped.signal.aborted) throw stopped()
    if (signal?.aborted) throw new GatewayError('aborted')
    if (this.#hasRoom(use)) {
      this.#uses[use]++
      return
    }
    const cleanUp: (() => void)[] = []
    try {
      await new Promise<void>((start, giveUp) => {
        const waiting = { use, start, giveUp }
        const abort = () => giveUp(new GatewayError('aborted'))
        const late = () => giveUp(new GatewayError('busy', { reason: 'all connections to the FTP server are in use' }))
        const timer = setTimeout(late, waitLimit)
        signal?.addEventListener('abort', abort, { once: true })
        this.#waiting.add(waiting)
        cleanUp.push(
          () => clearTimeout(timer),
          () => signal?.removeEventListener('abort', abort),
          () => this.#waiting.delete(waiting),
        )
      })
    } finally {
      for (const clean of cleanUp) clean()
    }
  }

  /** Of those in use, reads leave half to others, and all transfers leave one to those who only ask. */
  #hasRoom(use: Use): boolean {
    const { ask, read, write } = this.#uses
    if (ask + read + write >= this.#limit) return false
    if (use === 'read' && read >= Math.max(1, Math.floor(this.#limit / 2))) return false
    return use === 'ask' || read + write < Math.max(1, this.#limit - 1)
  }

  #leave(use: Use): void {
    this.#uses[use]--
    for (const waiting of this.#waiting) {
      if (!this.#hasRoom(waiting.use)) continue
      this.#waiting.delete(waiting)
      this.#uses[waiting.use]++
      waiting.start()
    }
  }

  // Connections

  /** One that nobody uses and that surely stands: what cannot be asked again must not meet one that died while idle. */
  async #standing(): Promise<Connection | undefined> {
    while (this.#idle.length === 0 && this.#ending.size > this.#awaiting.length) {
      await new Promise<void>((resolve) => this.#awaiting.push(resolve))
    }
    for (let connection = this.#idle.pop(); connection; connection = this.#idle.pop()) {
      if (connection.broken) {
        this.#all.delete(connection)
        continue
      }
      if (Date.now() - connection.idleSince < trustedFor) return connection
      try {
        await connection.ask('NOOP')
        return connection
      } catch {
        this.#all.delete(connection)
        connection.close()
      }
    }
    return undefined
  }

  async #another(use: Use, signal: AbortSignal | undefined): Promise<Connection> {
    const signals = signal ? AbortSignal.any([signal, this.#stopped.signal]) : this.#stopped.signal
    for (const wait of [...roomPauses, undefined]) {
      try {
        const connection = await this.connect(signals)
        if (this.#stopped.signal.aborted) {
          connection.close()
          throw stopped()
        }
        this.#all.add(connection)
        this.#limit = Math.max(this.#limit, this.#all.size)
        return connection
      } catch (error) {
        if (!this.#isFull(error)) throw error
        // It lets nobody else in: those who are in have to do.
        this.#limit = Math.max(1, Math.min(this.#limit, this.#all.size))
        if (this.#all.size > 0) break
        if (wait === undefined) throw error
        await pause(wait, undefined, { signal: signals }).catch(() => {
          throw new GatewayError('aborted')
        })
      }
    }
    this.#leave(use)
    await this.#turn(use, signal)
    return (await this.#standing()) ?? this.#another(use, signal)
  }

  /** Whether the server has no room for another one: with others signed in, a refusal cannot be about the password. */
  #isFull(error: unknown): boolean {
    const code = replyCode(error)
    return code === 421 || (this.#all.size > 0 && (code === 530 || code === 430))
  }

  #closeIdle(): void {
    this.#idleTimer = undefined
    const now = Date.now()
    for (const connection of this.#idle.splice(0)) {
      if (now - connection.idleSince < idleLimit && !connection.broken) {
        this.#idle.push(connection)
        continue
      }
      this.#all.delete(connection)
      connection.close()
    }
    if (this.#idle.length > 0) this.#idleTimer = setTimeout(() => this.#closeIdle(), idleLimit / 4).unref()
    // The server may have more room by now.
    if (this.#all.size === 0) this.#limit = connectionsAtMost
  }
}

function stopped(): GatewayError {
  return new GatewayError('aborted', { reason: 'the storage was stopped' })
}
