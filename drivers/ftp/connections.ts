/**
 * The connection pool of one storage. Each connection serves one call at a time; they are opened on demand and closed
 * when idle. Reads cannot occupy all connections, so that writes are possible: a copy within the storage reads and
 * writes concurrently. Transfers cannot occupy all connections either, so that short commands are possible.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { GatewayError } from '../../src/base/errors.js'
import { abortTimeout, type FtpConnection } from './connection.js'
import { replyCode } from './errors.js'

export type Use = 'ask' | 'read' | 'write'

/** Many servers accept fewer connections per address. The pool reduces its limit when the server refuses one. */
const maxConnections = 32
/** Milliseconds until an idle connection is closed. */
const idleTimeout = 60_000
/** Milliseconds without use after which a connection is probed before it is used again. */
const probeAfter = 5_000
const probeTimeout = 5_000
/** Milliseconds to wait for a connection. */
const waitTimeout = 60_000
/** Milliseconds for cleanup on a new connection. */
const repairTimeout = 10_000
/**
 * Milliseconds between attempts while the server is at capacity: it may still count connections that were just closed.
 */
const capacityDelays = [200, 500, 1_500]

interface Waiter {
  readonly use: Use
  readonly start: () => void
  readonly cancel: (error: GatewayError) => void
}

export class FtpConnections {
  readonly #all = new Set<FtpConnection>()
  readonly #idle: FtpConnection[] = []
  /** Connections that are about to be released. */
  readonly #releasing = new Set<FtpConnection>()
  /** Each aborts a connection that is being opened. */
  readonly #opening = new Set<AbortController>()
  /** Slots in use. A slot permits its holder to use one connection. */
  readonly #slots = { ask: 0, read: 0, write: 0 }
  /** Calls that wait for a slot. */
  readonly #slotQueue = new Set<Waiter>()
  /** Calls that have a slot, and wait for a connection that is about to be released. */
  readonly #releaseQueue = new Set<Waiter>()
  #isStopped = false
  #limit = maxConnections
  #idleTimer: NodeJS.Timeout | undefined

  constructor(private readonly connect: (signal: AbortSignal) => Promise<FtpConnection>) {}

  /**
   * Runs `work` with exclusive use of a connection. When the signal is aborted, the connection is closed, which ends
   * the work. For a write it is closed a few seconds later, so that the work can undo its changes.
   */
  async use<T>(use: Use, signal: AbortSignal | undefined, work: (connection: FtpConnection) => Promise<T>): Promise<T> {
    const connection = await this.acquire(use, signal)
    let timer: NodeJS.Timeout | undefined
    const end = () => connection.close(new GatewayError('aborted'))
    const abort = () => (use === 'write' ? (timer = setTimeout(end, abortTimeout)) : end())
    signal?.addEventListener('abort', abort, { once: true })
    if (signal?.aborted) abort()
    try {
      return await work(connection)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      this.release(use, connection)
    }
  }

  /**
   * Like `use`, for idempotent work: if the connection turns out to be lost, `work` is retried once on another
   * connection.
   */
  async useWithRetry<T>(
    use: Use,
    signal: AbortSignal | undefined,
    work: (connection: FtpConnection) => Promise<T>,
  ): Promise<T> {
    const state = { isLost: false }
    try {
      return await this.use(use, signal, async (connection) => {
        try {
          return await work(connection)
        } finally {
          state.isLost = connection.broken
        }
      })
    } catch (error) {
      if (!state.isLost || signal?.aborted || this.#isStopped) throw error
      return this.use(use, signal, work)
    }
  }

  /**
   * Runs idempotent cleanup on a connection that is in use; if that is lost, on a replacement. The caller keeps its
   * slot, so the cleanup cannot deadlock with calls that wait for one. It is not aborted by the caller's signal, but
   * limited by a timeout.
   */
  async repair<T>(on: FtpConnection, work: (open: FtpConnection) => Promise<T>): Promise<T> {
    try {
      return await work(on)
    } catch (error) {
      if (!on.broken) throw error
    }
    this.#drop(on)
    const timeout = AbortSignal.timeout(repairTimeout)
    const connection = await this.#replacement(timeout)
    const end = () => connection.close(new GatewayError('timeout'))
    timeout.addEventListener('abort', end, { once: true })
    try {
      return await work(connection)
    } finally {
      timeout.removeEventListener('abort', end)
      this.#giveBack(connection)
    }
  }

  /**
   * Acquires a connection. The caller must release it. Rejects with `busy` if none becomes available in time, and
   * as `FtpConnection.open` does.
   */
  async acquire(use: Use, signal: AbortSignal | undefined): Promise<FtpConnection> {
    for (;;) {
      await this.#acquireSlot(use, signal)
      let connection: FtpConnection | undefined
      try {
        connection = await this.#idleOrNew(use, signal)
        if (connection) return connection
      } finally {
        if (!connection) this.#releaseSlot(use)
      }
    }
  }

  /** Announces that this connection is about to be released: the next call waits for it instead of opening another. */
  announceRelease(connection: FtpConnection): void {
    this.#releasing.add(connection)
  }

  release(use: Use, connection: FtpConnection): void {
    this.#giveBack(connection)
    this.#releaseSlot(use)
  }

  close(): void {
    this.#isStopped = true
    clearTimeout(this.#idleTimer)
    for (const opening of this.#opening) opening.abort()
    for (const connection of this.#all) connection.close()
    this.#all.clear()
    this.#idle.length = 0
    for (const { cancel } of [...this.#slotQueue, ...this.#releaseQueue]) cancel(stopped())
  }

  // Slots

  /** Acquires a slot, until `#releaseSlot`. */
  async #acquireSlot(use: Use, signal: AbortSignal | undefined): Promise<void> {
    if (this.#isStopped) throw stopped()
    if (signal?.aborted) throw new GatewayError('aborted')
    if (this.#isAvailable(use)) this.#slots[use]++
    else await this.#wait(this.#slotQueue, use, signal)
  }

  /** Reads use at most half of the slots, and reads and writes together leave one. */
  #isAvailable(use: Use): boolean {
    const { ask, read, write } = this.#slots
    if (ask + read + write >= this.#limit) return false
    if (use === 'read' && read >= Math.max(1, Math.floor(this.#limit / 2))) return false
    return use === 'ask' || read + write < Math.max(1, this.#limit - 1)
  }

  #releaseSlot(use: Use): void {
    this.#slots[use]--
    for (const waiter of this.#slotQueue) {
      if (!this.#isAvailable(waiter.use)) continue
      this.#slots[waiter.use]++
      waiter.start()
    }
  }

  /** Waits in the queue until started. Rejects with `busy` after a timeout, and with `aborted`. */
  async #wait(queue: Set<Waiter>, use: Use, signal: AbortSignal | undefined): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    let abort: (() => void) | undefined
    try {
      await new Promise<void>((resolve, reject) => {
        const start = () => {
          queue.delete(waiter)
          resolve()
        }
        const cancel = (error: GatewayError) => {
          queue.delete(waiter)
          reject(error)
        }
        const waiter = { use, start, cancel }
        const expire = () =>
          cancel(new GatewayError('busy', { reason: 'all connections to the FTP server are in use' }))
        timer = setTimeout(expire, waitTimeout)
        abort = () => cancel(new GatewayError('aborted'))
        signal?.addEventListener('abort', abort, { once: true })
        queue.add(waiter)
      })
    } finally {
      clearTimeout(timer)
      if (abort) signal?.removeEventListener('abort', abort)
    }
  }

  // Connections

  /** An idle connection or a new one, for the holder of a slot. undefined: the server accepts no more connections. */
  async #idleOrNew(use: Use, signal: AbortSignal | undefined): Promise<FtpConnection | undefined> {
    return (await this.#takeIdle(use, signal)) ?? (await this.#openNew(signal))
  }

  /** A replacement of a lost connection. Retries until the timeout, because the server may still count the lost one. */
  async #replacement(timeout: AbortSignal): Promise<FtpConnection> {
    const [delay] = capacityDelays
    for (;;) {
      const connection = await this.#idleOrNew('ask', timeout)
      if (connection) return connection
      await pause(delay, undefined, { signal: timeout }).catch(() => {
        throw new GatewayError('busy', { reason: 'the FTP server accepts no further connections' })
      })
    }
  }

  #giveBack(connection: FtpConnection): void {
    this.#releasing.delete(connection)
    if (connection.broken) {
      this.#drop(connection)
    } else {
      connection.idleSince = Date.now()
      this.#idle.push(connection)
      this.#idleTimer ??= setTimeout(() => this.#closeIdle(), idleTimeout).unref()
    }
    const [next] = this.#releaseQueue
    next?.start()
  }

  #drop(connection: FtpConnection): void {
    this.#all.delete(connection)
    connection.close()
  }

  /**
   * An idle connection that was verified to be open: work that cannot be retried must not get one that was lost while
   * idle.
   */
  async #takeIdle(use: Use, signal: AbortSignal | undefined): Promise<FtpConnection | undefined> {
    while (this.#idle.length === 0 && this.#releasing.size > this.#releaseQueue.size) {
      await this.#wait(this.#releaseQueue, use, signal)
    }
    for (let connection = this.#idle.pop(); connection; connection = this.#idle.pop()) {
      const isTrusted = !connection.broken && Date.now() - connection.idleSince < probeAfter
      if (isTrusted || (await this.#probe(connection, signal))) return connection
      this.#drop(connection)
      if (signal?.aborted) throw new GatewayError('aborted')
      // Connections that were idle for longer are assumed to be lost, too: probing each takes too long.
      for (const older of this.#idle.splice(0)) this.#drop(older)
    }
    return undefined
  }

  async #probe(connection: FtpConnection, signal: AbortSignal | undefined): Promise<boolean> {
    const end = () => connection.close()
    const timer = setTimeout(end, probeTimeout)
    signal?.addEventListener('abort', end, { once: true })
    try {
      await connection.send('NOOP')
    } catch {
      // An error reply also shows that the connection is open.
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
    }
    return !connection.broken
  }

  /** Opens a connection, until the signal is aborted. undefined: the server accepts no more connections. */
  async #openNew(signal: AbortSignal | undefined): Promise<FtpConnection | undefined> {
    if (this.#isStopped) throw stopped()
    if (signal?.aborted) throw new GatewayError('aborted')
    // One controller for the signal and for `close()`, so that a shared signal gets only one listener per call.
    const opening = new AbortController()
    const end = () => opening.abort()
    this.#opening.add(opening)
    signal?.addEventListener('abort', end, { once: true })
    try {
      return await this.#connect(opening.signal)
    } finally {
      signal?.removeEventListener('abort', end)
      this.#opening.delete(opening)
    }
  }

  /** Connects, and adjusts the limit of the pool. Retries only while the pool has no other connection. */
  async #connect(signal: AbortSignal): Promise<FtpConnection | undefined> {
    for (let attempt = 0; ; attempt++) {
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
        if (!this.#isAtCapacity(error)) throw error
        this.#limit = Math.max(1, Math.min(this.#limit, this.#all.size))
        if (this.#all.size > 0) return undefined
        const delay = capacityDelays[attempt]
        if (delay === undefined) throw error
        await pause(delay, undefined, { signal }).catch(() => {
          throw new GatewayError('aborted')
        })
      }
    }
  }

  /**
   * Whether the server refused the connection because it accepts no more. A refused sign-in (530, 430) also means that
   * if other connections are signed in, as the password is then correct.
   */
  #isAtCapacity(error: unknown): boolean {
    const code = replyCode(error)
    return code === 421 || (this.#all.size > 0 && (code === 530 || code === 430))
  }

  #closeIdle(): void {
    this.#idleTimer = undefined
    const now = Date.now()
    for (const connection of this.#idle.splice(0)) {
      if (now - connection.idleSince < idleTimeout && !connection.broken) {
        this.#idle.push(connection)
        continue
      }
      this.#drop(connection)
    }
    if (this.#idle.length > 0) this.#idleTimer = setTimeout(() => this.#closeIdle(), idleTimeout / 4).unref()
    // The server may accept more connections by now.
    if (this.#all.size === 0) this.#limit = maxConnections
  }
}

function stopped(): GatewayError {
  return new GatewayError('aborted', { reason: 'the storage was stopped' })
}
