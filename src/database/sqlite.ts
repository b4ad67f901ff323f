/** SQLite: one file, which several processes of one machine may open. */
import { chmod, open, stat } from 'node:fs/promises'
import knex, { type Knex } from 'knex'
import PQueue from 'p-queue'
import { countsOf, type ChangeCount } from './change-notices.js'
import { Database, type Runner } from './database.js'
import type { Engine, ForeignCommits, ProcessChannel } from './engine.js'
import type { Topic } from './topics.js'

/** Milliseconds between two looks for commits of other processes. */
const pollInterval = 250

/**
 * Opens the file, and creates it if it is missing. Only its owner can read it. `channel`: to the other processes that
 * use it for the same tree. Rejects with the error of SQLite.
 */
export async function openSqlite(
  file: string,
  migrate: (connection: Knex) => Promise<void>,
  channel?: ProcessChannel,
): Promise<Engine> {
  await ensurePrivate(file)
  const connection = connectSqlite(file)
  try {
    await migrate(connection)
    const commits = new Commits(connection)
    return {
      durable: new Database(
        connection,
        channel ? reported(connection, commits.at('FULL'), channel) : commits.at('FULL'),
      ),
      relaxed: new Database(connection, commits.at('NORMAL')),
      shared: channel,
      foreignCommits: await PolledCommits.open({
        version: () => dataVersion(connection),
        counts: () => changeCounts(connection),
      }),
      close: () => connection.destroy(),
    }
  } catch (error) {
    await connection.destroy()
    throw error
  }
}

/**
 * Creates the file with mode 0600, or removes the permissions of group and others from it. Must be called before SQLite
 * opens the file: the `-wal` and `-shm` files get the same mode. An existing file is not opened, because closing it
 * would release the POSIX locks that this process may hold on it (fcntl(2), sqlite.org/howtocorrupt.html §2.2).
 */
export async function ensurePrivate(file: string): Promise<void> {
  try {
    const handle = await open(file, 'ax', 0o600)
    await handle.close()
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  }
  for (const name of [file, `${file}-wal`, `${file}-shm`]) {
    try {
      if (((await stat(name)).mode & 0o077) !== 0) await chmod(name, 0o600)
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
    }
  }
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

/** Milliseconds for which a connection waits for the locks of others. */
const busyTimeout = 10_000

interface SqliteConnection {
  exec(sql: string, done: (error: Error | null) => void): void
}

/**
 * Sets the pragmas of a new connection. WAL: other processes can read during a write. FULL: a completed write survives
 * a power failure; otherwise a revoked token or an old password could work again after one. FULL syncs every commit, so
 * the tables that are written for every file are in `Store.relaxed`, which does not.
 */
function prepare(sqlite: SqliteConnection, done: (error: Error | null) => void, until: number): void {
  const pragmas =
    `PRAGMA busy_timeout = ${busyTimeout}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; ` +
    'PRAGMA foreign_keys = ON;'
  sqlite.exec(pragmas, (error) => {
    // SQLite does not wait where two connections switch a new file to WAL at once: it would be a deadlock.
    if (hasCode(error, 'SQLITE_BUSY') && performance.now() < until) setTimeout(() => prepare(sqlite, done, until), 20)
    else done(error)
  })
}

/** A connection to the file, or to a new database in memory (`:memory:`). */
export function connectSqlite(file: string): Knex {
  return knex({
    client: 'sqlite3',
    connection: { filename: file },
    useNullAsDefault: true,
    pool: {
      // A single permanent connection: `data_version` values are comparable only within one connection.
      min: 1,
      max: 1,
      afterCreate: (sqlite: SqliteConnection, done: (error: Error | null) => void) => {
        prepare(sqlite, done, performance.now() + busyTimeout)
      },
    },
    log: { warn: () => undefined },
  })
}

/**
 * FULL: a commit is on disk when it resolves. NORMAL: a power failure may lose the last commits, the newest first and
 * each as a whole; the end of the process loses none. A FULL commit also flushes all earlier commits.
 */
type Synchronous = 'FULL' | 'NORMAL'

/**
 * Sets how the commits of a single connection, opened with FULL, are synced. SQLite cannot change that within a
 * transaction (SQLite: src/pragma.c), so writes are serialized.
 */
class Commits {
  readonly #queue = new PQueue({ concurrency: 1 })
  #synchronous: Synchronous = 'FULL'

  constructor(private readonly connection: Knex) {}

  /** Returns a runner whose commits are synced this way. */
  at(synchronous: Synchronous): Runner {
    return {
      read: (work) => work(),
      write: (work) =>
        this.#queue.add(async () => {
          if (synchronous !== this.#synchronous) {
            await this.connection.raw(`PRAGMA synchronous = ${synchronous}`)
            this.#synchronous = synchronous
          }
          return work()
        }),
    }
  }
}

/** Writes as `runner`, and resolves when the other processes of the channel know of the changes of topics. */
function reported(connection: Knex, runner: Runner, channel: ProcessChannel): Runner {
  let last: ReadonlyMap<Topic, number> = new Map()
  let reporting = Promise.resolve()
  const report = async () => {
    const counts = await changeCounts(connection)
    if ([...counts].some(([topic, count]) => last.get(topic) !== count)) {
      last = counts
      reporting = channel.changed(counts)
    }
    await reporting
  }
  return {
    read: (work) => runner.read(work),
    write: async (work) => {
      try {
        return await runner.write(work)
      } finally {
        await report()
      }
    },
  }
}

/** A number that changes when another connection commits. Commits of this connection do not change it. */
async function dataVersion(connection: Knex): Promise<number> {
  const rows: readonly { data_version: number }[] = await connection.raw('PRAGMA data_version')
  return rows[0]?.data_version ?? 0
}

/** The number of changes of each topic, by any process. */
async function changeCounts(connection: Knex): Promise<ReadonlyMap<Topic, number>> {
  return countsOf(await connection<ChangeCount>('change_counts').select())
}

interface ChangeState {
  /** A number that changes when another process commits, and is unaffected by commits of this connection. */
  version(): Promise<number>
  /** The number of changes of each topic, by any process. */
  counts(): Promise<ReadonlyMap<Topic, number>>
}

/** Detects commits of other processes by polling, because SQLite does not notify of them. */
export class PolledCommits implements ForeignCommits {
  #timer: NodeJS.Timeout | undefined
  #polling: Promise<void> | undefined

  private constructor(
    private readonly state: ChangeState,
    private lastVersion: number,
    private lastCounts: ReadonlyMap<Topic, number>,
  ) {}

  /** Detects changes that are committed from now on. */
  static async open(state: ChangeState): Promise<PolledCommits> {
    return new PolledCommits(state, await state.version(), await state.counts())
  }

  start(changed: (topics: ReadonlySet<Topic>) => void): void {
    this.#timer = setInterval(() => {
      // A poll that fails is repeated by the next one.
      this.#polling ??= this.#poll(changed)
        .catch(() => undefined)
        .finally(() => (this.#polling = undefined))
    }, pollInterval).unref()
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#polling
  }

  async #poll(changed: (topics: ReadonlySet<Topic>) => void): Promise<void> {
    const version = await this.state.version()
    if (version === this.lastVersion) return
    // Read after the version: a commit in between is included here, and its new version then changes no count.
    const counts = await this.state.counts()
    const topics = [...counts.keys()].filter((topic) => counts.get(topic) !== this.lastCounts.get(topic))
    this.lastVersion = version
    this.lastCounts = counts
    if (topics.length > 0) changed(new Set(topics))
  }
}
