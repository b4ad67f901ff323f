/** PostgreSQL 13 or newer: a server that the processes of several machines share. */
import { setTimeout as delay } from 'node:timers/promises'
import knex, { type Knex } from 'knex'
import pg from 'pg'
import { GatewayError } from '../base/errors.js'
import { AdvisoryLocks } from './advisory-locks.js'
import { changeChannel, fileChannel } from './change-notices.js'
import { Database, type Runner } from './database.js'
import type { Engine, ForeignCommits } from './engine.js'
import { isConnectionError, isRolledBack, isUnsent, retried } from './errors.js'
import { isTopic, topics, type Topic } from './topics.js'

/** The oldest supported version, as `server_version_num`. */
const oldestServer = 13_00_00

/** Milliseconds that one attempt to connect may take. */
const connectTimeout = 5000
/** Milliseconds that a statement waits for a free connection. */
const poolTimeout = 10_000

/** Connections for the tables that are written once per file. */
const relaxedConnections = 2
/** One more listens, and three are those of the search index. */
const otherConnections = relaxedConnections + 1 + 3
/** Milliseconds that a change waits for its locks. */
const lockTimeout = 10_000
interface PostgresOptions {
  /** `postgres://USER@HOST:PORT/DATABASE`. libpq's variables PGPASSWORD and PGPASSFILE give the password. */
  readonly url: string
  /** Identifies the sessions of this process, at most 63 bytes: their `application_name`. */
  readonly session: string
  /**
   * The largest number of connections of this process, with those of the search index: at least `connectionLimits.min`.
   */
  readonly connections: number
}

/** Connects to the server. Rejects with its error, or with `unsupported` if it is too old. */
export async function openPostgres(
  options: PostgresOptions,
  migrate: (connection: Knex) => Promise<void>,
): Promise<Engine> {
  // A change that runs holds its locks by one of these connections, so their number limits concurrent changes.
  const lockConnections = Math.round((options.connections - otherConnections) * 0.75)
  const durable = connectPostgres(options, options.connections - otherConnections - lockConnections)
  const relaxed = connectPostgres(options, relaxedConnections, '-c synchronous_commit=off')
  const locks = new AdvisoryLocks(connectionOf(options.url, options.session), lockConnections, lockTimeout)
  const close = async () => {
    await Promise.all([durable.destroy(), relaxed.destroy(), locks.close()])
  }
  try {
    await retried(() => checkServer(durable), isUnsent)
    await migrate(durable)
    const listening = await ListeningConnection.open(options)
    return {
      durable: new Database(durable, runner),
      relaxed: new Database(relaxed, runner),
      shared: {
        spansMachines: true,
        acquire: (claims, options) => locks.acquire(claims, options),
        notify: (notices) => locks.notify(notices),
        onNotice: (listener) => listening.onNotice(listener),
      },
      foreignCommits: listening,
      close: async () => {
        await listening.stop()
        await close()
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** Up to this number of connections to the server, with further options of libpq. */
export function connectPostgres(
  { url, session }: Omit<PostgresOptions, 'connections'>,
  connections: number,
  options?: string,
): Knex {
  return knex({
    client: 'pg',
    connection: { ...connectionOf(url, session), ...(options !== undefined && { options }) },
    acquireConnectionTimeout: poolTimeout,
    pool: { min: 0, max: connections },
    log: { warn: () => undefined },
  })
}

function connectionOf(url: string, session: string) {
  return {
    connectionString: url,
    application_name: session,
    connectionTimeoutMillis: connectTimeout,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  }
}

async function checkServer(connection: Knex): Promise<void> {
  const { rows } = await connection.raw<{ rows: readonly { version: string; encoding: string }[] }>(
    "select current_setting('server_version_num') as version, current_setting('server_encoding') as encoding",
  )
  const [{ version, encoding } = { version: '0', encoding: '' }] = rows
  if (Number(version) < oldestServer) {
    throw new GatewayError('unsupported', { reason: `it runs PostgreSQL ${version}, but 13 or newer is needed` })
  }
  if (encoding !== 'UTF8') {
    throw new GatewayError('unsupported', { reason: `its encoding is ${encoding}, but UTF8 is needed` })
  }
}

/**
 * Repeats what a restart of the server or a deadlock has undone. A statement whose connection was lost while it ran is
 * repeated only if it reads: it may have been committed.
 */
const runner: Runner = {
  read: (work) => retried(work, (error) => isConnectionError(error) || isRolledBack(error)),
  write: (work) => retried(work, (error) => isUnsent(error) || isRolledBack(error)),
}

/**
 * A connection that the triggers of change-notices.ts notify. A lost connection is opened again, and all topics are
 * then reported as changed.
 */
class ListeningConnection implements ForeignCommits {
  #client: pg.Client | undefined
  #changed: ((topics: ReadonlySet<Topic>) => void) | undefined
  /** Topics that changed before `start`. */
  #missed = new Set<Topic>()
  #reconnecting: Promise<void> | undefined
  readonly #stopped = new AbortController()
  #noticed: (notice: string | undefined) => void = () => undefined

  private constructor(private readonly options: PostgresOptions) {}

  static async open(options: PostgresOptions): Promise<ListeningConnection> {
    const connection = new ListeningConnection(options)
    await connection.#connect()
    return connection
  }

  start(changed: (topics: ReadonlySet<Topic>) => void): void {
    this.#changed = changed
    this.#report(new Set())
  }

  onNotice(listener: (notice: string | undefined) => void): void {
    this.#noticed = listener
  }

  async stop(): Promise<void> {
    this.#changed = undefined
    this.#stopped.abort()
    await this.#client?.end().catch(() => undefined)
    await this.#reconnecting
  }

  async #connect(): Promise<void> {
    const { url, session } = this.options
    const client = new pg.Client(connectionOf(url, session))
    client.on('notification', ({ channel, payload = '' }) => {
      // This process knows its own changes already.
      if (channel === fileChannel) {
        const [origin, notice] = splitAt(payload, payload.indexOf(' '))
        if (origin !== session) this.#noticed(notice)
      } else {
        const [topic, origin] = splitAt(payload, payload.indexOf(' '))
        if (isTopic(topic) && origin !== session) this.#report(new Set([topic]))
      }
    })
    // The error is followed by `end`.
    client.on('error', () => undefined)
    try {
      await client.connect()
      await client.query(`listen ${changeChannel}; listen ${fileChannel}`)
    } catch (error) {
      await client.end().catch(() => undefined)
      throw error
    }
    this.#client = client
    client.once('end', () => {
      if (!this.#isStopped) this.#reconnecting = this.#reconnect()
    })
  }

  async #reconnect(): Promise<void> {
    for (let pause = 50; !this.#isStopped; pause = Math.min(2 * pause, 1000)) {
      try {
        await this.#connect()
        break
      } catch {
        await delay(pause, undefined, { signal: this.#stopped.signal, ref: false }).catch(() => undefined)
      }
    }
    // Stopped while it connected.
    if (this.#isStopped) {
      await this.#client?.end()
      return
    }
    this.#report(topics)
    this.#noticed(undefined)
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted
  }

  #report(changed: ReadonlySet<Topic>): void {
    for (const topic of changed) this.#missed.add(topic)
    if (this.#changed === undefined || this.#missed.size === 0) return
    const reported = this.#missed
    this.#missed = new Set()
    this.#changed(reported)
  }
}

/** The text before and after the character at `index`. */
function splitAt(text: string, index: number): readonly [before: string, after: string] {
  return [text.slice(0, index), text.slice(index + 1)]
}
