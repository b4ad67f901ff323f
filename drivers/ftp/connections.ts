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
/**
 * Milliseconds without use before it is closed; before it is looked whether it still stands, and how long that may take; for one to
 * become free; and for putting right what a lost one has left.
 */
const idleLimit = 60_000
const trustedFor = 5_000
const standsLimit = 5_000
const waitLimit = 60_000
const repairLimit = 10_000
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
  /** Ends each that is being made. */
  readonly #opening = new Set<AbortController>()
  /** Turns that are taken: whoever has one may have one connection. */
  readonly #uses = { ask: 0, read: 0, write: 0 }
  /** For a turn; and, having one, for a connection that is about to be given back. */
  readonly #waiting = new Set<Waiting>()
  readonly #awaiting = new Set<Waiting>()
  #isStopped = false
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
    if (signal?.aborted) abort()
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
      if (!seen.lost || signal?.aborted || this.#isStopped) throw error
      return this.use(use, signal, work)
    }
  }

  /**
   * Puts right what was begun on a connection that is in use, which may be done twice: where that one is lost, on another in its place.
   * Its turn lasts, so nobody is waited for who may be waiting for it; and no caller's signal ends this, but a limit of time does.
   */
  async putRight<T>(on: Connection, work: (sound: Connection) => Promise<T>): Promise<T> {
    try {
      return await work(on)
    } catch (error) {
      if (!on.broken) throw error
    }
    this.#drop(on)
    const limit = AbortSignal.timeout(repairLimit)
    const connection = await this.#inPlace(limit)
    const end = () => connection.close(new GatewayError('timeout'))
    limit.addEventListener('abort', end, { once: true })
    try {
      return await work(connection)
    } finally {
      limit.removeEventListener('abort', end)
      this.#giveBack(connection)
    }
  }

  /** Until `give`. Rejects with `busy` where none becomes free, and as `Connection.open` does. */
  async take(use: Use, signal: AbortSignal | undefined): Promise<Connection> {
    for (;;) {
      await this.#turn(use, signal)
      let connection: Connection | undefined
      try {
        connection = await this.#free(use, signal)
        if (connection) return connection
      } finally {
        if (!connection) this.#leave(use)
      }
    }
  }

  /** Whoever wants one next waits for this one, rather than making another: that takes longer. */
  giveSoon(connection: Connection): void {
    this.#ending.add(connection)
  }

  give(use: Use, connection: Connection): void {
    this.#giveBack(connection)
    this.#leave(use)
  }

  close(): void {
    this.#isStopped = true
    clearTimeout(this.#idleTimer)
    for (const opening of this.#opening) opening.abort()
    for (const connection of this.#all) connection.close()
    this.#all.clear()
    this.#idle.length = 0
    for (const { giveUp } of [...this.#waiting, ...this.#awaiting]) giveUp(stopped())
  }

  // Turns

  /** Taken until `#leave`. */
  async #turn(use: Use, signal: AbortSignal | undefined): Promise<void> {
    if (this.#isStopped) throw stopped()
    if (signal?.aborted) throw new GatewayError('aborted')
    if (this.#hasRoom(use)) this.#uses[use]++
    else await this.#wait(this.#waiting, use, signal)
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
      this.#uses[waiting.use]++
      waiting.start()
    }
  }

  /** Until it is started; who gave up before that cannot be. */
  async #wait(queue: Set<Waiting>, use: Use, signal: AbortSignal | undefined): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    let abort: (() => void) | undefined
    try {
      await new Promise<void>((resolve, reject) => {
        const start = () => {
          queue.delete(waiting)
          resolve()
        }
        const giveUp = (error: GatewayError) => {
          queue.delete(waiting)
          reject(error)
        }
        const waiting = { use, start, giveUp }
        const late = () => giveUp(new GatewayError('busy', { reason: 'all connections to the FTP server are in use' }))
        timer = setTimeout(late, waitLimit)
        abort = () => giveUp(new GatewayError('aborted'))
        signal?.addEventListener('abort', abort, { once: true })
        queue.add(waiting)
      })
    } finally {
      clearTimeout(timer)
      if (abort) signal?.removeEventListener('abort', abort)
    }
  }

  // Connections

  /** For who has a turn. undefined: the server lets nobody else in, and those who are in have to do. */
  async #free(use: Use, signal: AbortSignal | undefined): Promise<Connection | undefined> {
    return (await this.#standing(use, signal)) ?? (await this.#another(signal))
  }

  /** The same for who has lost one in the middle of something: the server may still count it. */
  async #inPlace(limit: AbortSignal): Promise<Connection> {
    const [wait] = roomPauses
    for (;;) {
      const connection = await this.#free('ask', limit)
      if (connection) return connection
      await pause(wait, undefined, { signal: limit }).catch(() => {
        throw new GatewayError('busy', { reason: 'the FTP server takes no connection now' })
      })
    }
  }

  #giveBack(connection: Connection): void {
    this.#ending.delete(connection)
    if (connection.broken) {
      this.#drop(connection)
    } else {
      connection.idleSince = Date.now()
      this.#idle.push(connection)
      this.#idleTimer ??= setTimeout(() => this.#closeIdle(), idleLimit).unref()
    }
    const [next] = this.#awaiting
    next?.start()
  }

  #drop(connection: Connection): void {
    this.#all.delete(connection)
    connection.close()
  }

  /** One that nobody uses and that surely stands: what cannot be asked again must not meet one that died while idle. */
  async #standing(use: Use, signal: AbortSignal | undefined): Promise<Connection | undefined> {
    while (this.#idle.length === 0 && this.#ending.size > this.#awaiting.size) {
      await this.#wait(this.#awaiting, use, signal)
    }
    for (let connection = this.#idle.pop(); connection; connection = this.#idle.pop()) {
      const isTrusted = !connection.broken && Date.now() - connection.idleSince < trustedFor
      if (isTrusted || (await this.#answers(connection, signal))) return connection
      this.#drop(connection)
      if (signal?.aborted) throw new GatewayError('aborted')
      // Those that idled for longer went the same way: to ask each of them takes too long.
      for (const older of this.#idle.splice(0)) this.#drop(older)
    }
    return undefined
  }

  async #answers(connection: Connection, signal: AbortSignal | undefined): Promise<boolean> {
    const end = () => connection.close()
    const timer = setTimeout(end, standsLimit)
    signal?.addEventListener('abort', end, { once: true })
    try {
      await connection.ask('NOOP')
    } catch {
      // That there is no such command is an answer too.
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
    }
    return !connection.broken
  }

  /** A new one, made only as long as somebody wants it. undefined: the server lets nobody else in. */
  async #another(signal: AbortSignal | undefined): Promise<Connection | undefined> {
    if (this.#isStopped) throw stopped()
    if (signal?.aborted) throw new GatewayError('aborted')
    // The signals themselves, which many may share, are heard by one listener of each.
    const opening = new AbortController()
    const end = () => opening.abort()
    this.#opening.add(opening)
    signal?.addEventListener('abort', end, { once: true })
    try {
      return await this.#made(opening.signal)
    } finally {
      signal?.removeEventListener('abort', end)
      this.#opening.delete(opening)
    }
  }

  async #made(signal: AbortSignal): Promise<Connection | undefined> {
    for (let tries = 0; ; tries++) {
      try {
        const connection = await this.connect(signal)
        if (signal.aborted) {
          connection.close()
          throw new GatewayError('aborted')
        }
        this.#all.add(connection)
        this.#limit = Math.max(this.#limit, this.#all.size)
        return connection
      } catch (error) {
        if (!this.#isFull(error)) throw error
        this.#limit = Math.max(1, Math.min(this.#limit, this.#all.size))
        if (this.#all.size > 0) return undefined
        const wait = roomPauses[tries]
        if (wait === undefined) throw error
        await pause(wait, undefined, { signal }).catch(() => {
          throw new GatewayError('aborted')
        })
      }
    }
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
      this.#drop(connection)
    }
    if (this.#idle.length > 0) this.#idleTimer = setTimeout(() => this.#closeIdle(), idleLimit / 4).unref()
    // The server may have more room by now.
    if (this.#all.size === 0) this.#limit = connectionsAtMost
  }
}

function stopped(): GatewayError {
  return new GatewayError('aborted', { reason: 'the storage was stopped' })
}
