/** The few connections of one storage: made when they are needed, shared by all calls, closed when nobody needs them. */
import { GatewayError } from '../../src/errors.js'
import type { Connection } from './connection.js'

/** One carries any number of calls; more of them help large files that are read and written side by side. */
const connectionsAtMost = 4
/** Calls that share one before another is made. */
const callsEnough = 8
/** Milliseconds without a call. */
const idleLimit = 60_000

export class Connections {
  readonly #open = new Set<Connection>()
  #opening: Promise<Connection> | undefined
  #idle: NodeJS.Timeout | undefined
  readonly #end = new AbortController()

  constructor(private readonly connect: (signal: AbortSignal) => Promise<Connection>) {}

  /** Does the work on the connection with the fewest calls. */
  async use<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = await this.take()
    try {
      return await work(connection)
    } finally {
      this.give(connection)
    }
  }

  /**
   * The same for work that may be done twice: where a connection turns out to be lost, as happens to idle ones behind
   * firewalls, it is done again on another one, once.
   */
  async useAgain<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const seen = { lost: false }
    try {
      return await this.use(async (connection) => {
        try {
          return await work(connection)
        } finally {
          seen.lost = connection.broken
        }
      })
    } catch (error) {
      if (!seen.lost || this.#end.signal.aborted) throw error
      return this.use(work)
    }
  }

  /**
   * For a change that must not be done twice: `look` comes before it on the same connection, and again on another one where that
   * turns out to be lost.
   */
  async useOnce<Seen, T>(
    look: (connection: Connection) => Promise<Seen>,
    change: (connection: Connection, seen: Seen) => Promise<T>,
  ): Promise<T> {
    const { connection, seen } = await this.useAgain(async (on) => {
      const found = await look(on)
      on.users++
      return { connection: on, seen: found }
    })
    try {
      return await change(connection, seen)
    } finally {
      this.give(connection)
    }
  }

  /** Until `give`. */
  async take(): Promise<Connection> {
    if (this.#end.signal.aborted) throw new GatewayError('aborted', { reason: 'the storage was stopped' })
    clearTimeout(this.#idle)
    const standing = this.#standing()
    const [least] = standing.sort((one, other) => one.users - other.users)
    const connection =
      least !== undefined && (least.users < callsEnough || standing.length >= connectionsAtMost)
        ? least
        : await this.#another(least)
    connection.users++
    return connection
  }

  give(connection: Connection): void {
    connection.users--
    if (connection.broken) this.#open.delete(connection)
    if (this.#standing().some(({ users }) => users > 0)) return
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => this.#closeAll(), idleLimit).unref()
  }

  close(): void {
    this.#end.abort()
    clearTimeout(this.#idle)
    this.#closeAll()
  }

  /** A server may not want more connections than there are: then those are shared. */
  async #another(standing: Connection | undefined): Promise<Connection> {
    this.#opening ??= this.connect(this.#end.signal).finally(() => (this.#opening = undefined))
    try {
      const connection = await this.#opening
      if (this.#end.signal.aborted) {
        connection.close()
        throw new GatewayError('aborted', { reason: 'the storage was stopped' })
      }
      this.#open.add(connection)
      return connection
    } catch (error) {
      if (standing === undefined || standing.broken) throw error
      return standing
    }
  }

  #standing(): Connection[] {
    for (const connection of this.#open) if (connection.broken) this.#open.delete(connection)
    return [...this.#open]
  }

  #closeAll(): void {
    for (const connection of this.#open) connection.close()
    this.#open.clear()
  }
}
