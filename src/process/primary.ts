/**
 * The primary process of several workers (`--workers`): it starts them, keeps their locks, passes their notices on and
 * serves nothing itself. All workers accept connections at the same addresses.
 */
import cluster, { type Worker } from 'node:cluster'
import { once } from 'node:events'
import { driverTypes } from '../../drivers/index.js'
import type { FirstAdmin } from '../accounts/bootstrap.js'
import { GatewayError, toGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import type { Addresses, Config } from '../installation/config.js'
import { storeDaemonUrl } from '../installation/data-folder.js'
import { prepareDatabase } from '../gateway/open-database.js'
import { PathLocksInProcess } from '../locks/path-locks.js'
import type { PathClaim } from '../database/engine.js'
import { checkedConfig, lockFolder, publishUrl } from './daemon.js'
import type { Topic } from '../database/topics.js'
import { OutgoingMessages, type Counts, type ToPrimary, type ToWorker } from './worker-messages.js'

/** Milliseconds between two checks of the workers, and without an answer after which one is killed. */
const checkInterval = 5000
const checkTimeout = 25_000
/** Like `checkTimeout`, for a worker that does not accept connections yet: a busy machine may take long to start it. */
const startTimeout = 5 * 60_000
/** Milliseconds before a worker that has ended is replaced. */
const restartDelay = 1000
/** A primary whose workers have ended this often within a minute ends too. */
const maxEnds = 10

/**
 * Locks the data folder, prepares the database, and starts the workers. Resolves when all of them accept connections.
 * Rejects as `startDaemon`.
 */
export async function startPrimary(
  config: Config,
  log: Log,
  admin: FirstAdmin,
): Promise<{ readonly addresses: Addresses; stop(): Promise<void>; reload(): Promise<void>; check(): Promise<void> }> {
  const certificate = await checkedConfig(config, log)
  // Each worker has its own.
  certificate?.close()
  const releaseFolder = await lockFolder(config.data)
  try {
    await prepareDatabase({ config, drivers: driverTypes, admin })
    const onFailed = () => {
      log.error({}, 'the workers end too often')
      process.exit(1)
    }
    // The files of secrets may be readable only by root, who this process is no longer.
    const environment = { TIDEGATE_STORE: config.store, TIDEGATE_STORE_FILE: '', TIDEGATE_ADMIN_PASSWORD_FILE: '' }
    const primary = new Primary({ count: config.workers, environment, log, onFailed })
    process.once('exit', () => primary.kill())
    const addresses = await primary.start()
    await publishUrl(config, addresses, log)
    return {
      addresses,
      reload: async () => primary.reload(),
      stop: async () => {
        await storeDaemonUrl(config.data, undefined).catch(() => undefined)
        await primary.stop()
        await releaseFolder()
      },
      check: async () => {
        if (!primary.isHealthy) throw new Error('a worker does not answer')
      },
    }
  } catch (error) {
    await releaseFolder()
    throw error
  }
}

interface RunningWorker {
  readonly worker: Worker
  readonly outgoing: OutgoingMessages<ToWorker>
  /** The locks that it holds, by id: each is released by its function. */
  readonly held: Map<number, () => void>
  /** Whether it accepts connections, and handles the message `stop`. */
  isReady: boolean
  /** Aborts the requests for locks that it waits for. */
  readonly waiting: AbortController
  /** When it last answered, by the monotonic clock. */
  healthyAt: number
}

interface PrimaryOptions {
  readonly count: number
  /** Variables of the workers that differ from those of this process. */
  readonly environment: Readonly<Record<string, string>>
  readonly log: Log
  /** Called when the workers end too often. */
  readonly onFailed: () => void
}

class Primary {
  readonly #locks = new PathLocksInProcess()
  readonly #workers = new Set<RunningWorker>()
  /** The numbers of changes that workers have committed. */
  readonly #counts = new Map<Topic, number>()
  #ends: number[] = []
  #isStopping = false
  #checking: NodeJS.Timeout | undefined

  constructor(private readonly options: PrimaryOptions) {}

  /** Starts all workers. Resolves to their addresses when they accept connections. Rejects if one ends before. */
  async start(): Promise<Addresses> {
    const ready = Array.from({ length: this.options.count }, () => this.#fork())
    this.#checking = setInterval(() => this.#check(), checkInterval).unref()
    const [addresses] = await Promise.all(ready)
    if (!addresses) throw new RangeError('there is no worker')
    return addresses
  }

  /** Stops all workers. Resolves when they have ended. */
  async stop(): Promise<void> {
    this.#isStopping = true
    const ended = [...this.#workers].map(({ worker }) => once(worker, 'exit'))
    for (const running of this.#workers) {
      if (running.isReady) running.outgoing.send({ kind: 'stop' })
      else running.worker.process.kill('SIGTERM')
    }
    // The checks continue, so that a worker that does not answer is killed.
    await Promise.all(ended)
    clearInterval(this.#checking)
  }

  /** Lets the workers read the TLS certificate again. */
  reload(): void {
    this.#broadcast({ kind: 'reload' })
  }

  /** Ends all workers at once. */
  kill(): void {
    this.#isStopping = true
    for (const { worker } of this.#workers) worker.process.kill('SIGKILL')
  }

  /** Whether every worker has answered lately. */
  get isHealthy(): boolean {
    const since = performance.now() - 2 * checkInterval
    return this.#workers.size === this.options.count && [...this.#workers].every(({ healthyAt }) => healthyAt > since)
  }

  #fork(): Promise<Addresses> {
    const worker = cluster.fork(this.options.environment)
    const running: RunningWorker = {
      worker,
      outgoing: new OutgoingMessages((messages) => worker.isConnected() && worker.send(messages)),
      held: new Map(),
      isReady: false,
      waiting: new AbortController(),
      healthyAt: performance.now(),
    }
    this.#workers.add(running)
    running.outgoing.send({ kind: 'changed', counts: [...this.#counts] })
    return new Promise((resolve, reject) => {
      worker.on('message', (messages: readonly ToPrimary[]) => {
        for (const message of messages) {
          if (message.kind === 'ready') {
            running.isReady = true
            resolve(message.addresses)
          } else this.#receive(running, message)
        }
      })
      // A message to a worker that has just ended.
      worker.on('error', () => undefined)
      worker.once('exit', (status, signal) => {
        this.#ended(running, signal || `status ${status}`)
        reject(new GatewayError('unavailable', { reason: `a worker has ended with ${signal || `status ${status}`}` }))
      })
    })
  }

  #receive(running: RunningWorker, message: Exclude<ToPrimary, { kind: 'ready' }>): void {
    switch (message.kind) {
      case 'acquire':
        void this.#acquire(running, message.id, message.claims)
        break
      case 'release':
        this.#pass(message.notices, running)
        running.held.get(message.id)?.()
        running.held.delete(message.id)
        break
      case 'notify':
        this.#pass(message.notices, running)
        break
      case 'changed':
        this.#count(message.counts)
        running.outgoing.send({ kind: 'counted', id: message.id })
        break
      case 'healthy':
        running.healthyAt = performance.now()
    }
  }

  async #acquire(running: RunningWorker, id: number, claims: readonly PathClaim[]): Promise<void> {
    const { held, waiting } = running
    try {
      const release = await this.#locks.acquire(claims, waiting.signal)
      if (waiting.signal.aborted) release()
      else held.set(id, release)
      running.outgoing.send({ kind: 'granted', id })
    } catch (error) {
      running.outgoing.send({ kind: 'refused', id, reason: toGatewayError(error).reason })
    }
  }

  #count(counts: Counts): void {
    for (const [topic, count] of counts) this.#counts.set(topic, Math.max(count, this.#counts.get(topic) ?? 0))
    this.#broadcast({ kind: 'changed', counts: [...this.#counts] })
  }

  #pass(notices: readonly string[], from: RunningWorker): void {
    for (const notice of notices) this.#broadcast({ kind: 'notice', notice }, from)
  }

  /** A worker receives it before any lock that it is granted from now on. */
  #broadcast(message: ToWorker, except?: RunningWorker): void {
    for (const running of this.#workers) if (running !== except) running.outgoing.sendLater(message)
  }

  #check(): void {
    for (const running of this.#workers) {
      const timeout = running.isReady || this.#isStopping ? checkTimeout : startTimeout
      if (performance.now() - running.healthyAt < timeout) running.outgoing.send({ kind: 'check' })
      else {
        this.options.log.error({ pid: running.worker.process.pid }, 'a worker does not answer; killing it')
        running.worker.process.kill('SIGKILL')
      }
    }
  }

  #ended(running: RunningWorker, how: string): void {
    this.#workers.delete(running)
    running.waiting.abort()
    for (const release of running.held.values()) release()
    if (this.#isStopping) return
    this.options.log.error({ pid: running.worker.process.pid, how }, 'a worker has ended; starting another one')
    // It may not have told the others about its last change.
    this.#broadcast({ kind: 'notice', notice: undefined })
    const now = performance.now()
    this.#ends = [...this.#ends.filter((time) => now - time < 60_000), now]
    if (this.#ends.length >= maxEnds) {
      this.#isStopping = true
      this.options.onFailed()
      return
    }
    setTimeout(() => {
      if (!this.#isStopping) this.#fork().catch(() => undefined)
    }, restartDelay)
  }
}
