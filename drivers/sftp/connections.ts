/** The connection pool of one storage: connections are opened on demand, shared by all calls, and closed when idle. */
import { GatewayError } from '../../src/base/errors.js'
import type { ServerConnection } from './connection.js'

/** One connection carries any number of calls; more of them speed up concurrent transfers of large files. */
const maxConnections = 4
/** Calls that share a connection before another one is opened. */
const callsPerConnection = 8
/** Milliseconds without a call until all connections are closed. */
const idleTimeout = 60_000

export class ServerConnections {
  readonly #open = new Set<ServerConnection>()
  #opening: Promise<ServerConnection> | undefined
  #idleTimer: NodeJS.Timeout | undefined
  readonly #closing = new AbortController()

  constructor(private readonly connect: (signal: AbortSignal) => Promise<ServerConnection>) {}

  /** Runs `work` on the connection with the fewest calls. */
  async use<T>(work: (connection: ServerConnection) => Promise<T>): Promise<T> {
    const connection = await this.acquire()
    try {
      return await work(connection)
    } finally {
      this.release(connection)
    }
  }

  /**
   * Like `use`, for idempotent work: if the connection turns out to be lost, as happens to idle ones behind firewalls,
   * `work` is retried once on another connection.
   */
  async useWithRetry<T>(work: (connection: ServerConnection) => Promise<T>): Promise<T> {
    const state = { isLost: false }
    try {
      return await this.use(async (connection) => {
        try {
          return await work(connection)
        } finally {
          state.isLost = connection.broken
        }
      })
    } catch (error) {
      if (!state.isLost || this.#closing.signal.aborted) throw error
      return this.use(work)
    }
  }

  /**
   * For a change that must not be repeated. Runs `look`, which is idempotent, and then `change` with its result on the
   * same connection. If the connection is lost during `look`, that is retried once on another; `change` is never
   * retried.
   */
  async useAfterLookup<Found, T>(
    look: (connection: ServerConnection) => Promise<Found>,
    change: (connection: ServerConnection, found: Found) => Promise<T>,
  ): Promise<T> {
    const { connection, found } = await this.useWithRetry(async (on) => {
      const result = await look(on)
      on.users++
      return { connection: on, found: result }
    })
    try {
      return await change(connection, found)
    } finally {
      this.release(connection)
    }
  }

  /** Acquires a connection, opening one if necessary. The caller must release it. */
  async acquire(): Promise<ServerConnection> {
    if (this.#closing.signal.aborted) throw new GatewayError('aborted', { reason: 'the storage was stopped' })
    clearTimeout(this.#idleTimer)
    const usable = this.#usable()
    const [leastUsed] = usable.sort((one, other) => one.users - other.users)
    const connection =
      leastUsed !== undefined && (leastUsed.users < callsPerConnection || usable.length >= maxConnections)
        ? leastUsed
        : await this.#openAnother(leastUsed)
    connection.users++
    return connection
  }

  release(connection: ServerConnection): void {
    connection.users--
    if (connection.broken) this.#open.delete(connection)
    if (this.#usable().some(({ users }) => users > 0)) return
    clearTimeout(this.#idleTimer)
    this.#idleTimer = setTimeout(() => this.#closeAll(), idleTimeout).unref()
  }

  close(): void {
    this.#closing.abort()
    clearTimeout(this.#idleTimer)
    this.#closeAll()
  }

  /** Opens a connection. If the server refuses another one, returns `fallback`. */
  async #openAnother(fallback: ServerConnection | undefined): Promise<ServerConnection> {
    this.#opening ??= this.connect(this.#closing.signal).finally(() => (this.#opening = undefined))
    try {
      const connection = await this.#opening
      if (this.#closing.signal.aborted) {
        connection.close()
        throw new GatewayError('aborted', { reason: 'the storage was stopped' })
      }
      this.#open.add(connection)
      return connection
    } catch (error) {
      if (fallback === undefined || fallback.broken) throw error
      return fallback
    }
  }

  #usable(): ServerConnection[] {
    for (const connection of this.#open) if (connection.broken) this.#open.delete(connection)
    return [...this.#open]
  }

  #closeAll(): void {
    for (const connection of this.#open) connection.close()
    this.#open.clear()
  }
}
