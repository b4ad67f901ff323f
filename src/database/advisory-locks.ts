/**
 * Locks that exclude the other nodes: transactions of PostgreSQL that hold advisory locks, on connections of their own.
 * Locks of a session would be re-entrant, and a lock that waits blocks everything else on its connection.
 */
import { createHash } from 'node:crypto'
import pg from 'pg'
import { GatewayError } from '../base/errors.js'
import { foldCase, parentOf, root, truncateTo, type Path } from '../base/path.js'
import { isConnectionError, isRolledBack, retried, toStoreError } from './errors.js'
import { countsOf, fileChannel, type ChangeCount } from './change-notices.js'
import type { HeldLocks, ClaimOptions, PathClaim } from './engine.js'

type LockMode = 'shared' | 'exclusive'

/** Claims below a deeper path are claims of this depth: the database limits the locks of one transaction. */
const maxDepth = 64

/**
 * Storages can be based on others, three deep; each level may need one more lock.
 */
const reservedSlots = 3

export class AdvisoryLocks {
  readonly #pool: pg.Pool
  readonly #slots: NestedSlots

  /** `connections`: the number of changes that can hold locks at a time. `timeout`: milliseconds to wait for locks. */
  constructor(connection: pg.ClientConfig, connections: number, timeout: number) {
    // The limit of a statement is that of all locks of a change together.
    const options = `-c statement_timeout=${timeout} -c idle_in_transaction_session_timeout=0`
    this.#pool = new pg.Pool({ ...connection, options, max: connections, connectionTimeoutMillis: timeout })
    this.#slots = new NestedSlots(connections, timeout)
    // A lost connection: the pool opens another one, and the next statement of a client that holds it fails.
    this.#pool.on('error', () => undefined)
    this.#pool.on('connect', (client) => client.on('error', () => undefined))
  }

  /** Like `SharedEngine.acquire`: in one message, which is repeated while the server restarts. */
  async acquire(claims: readonly PathClaim[], { onLost, level = 0 }: ClaimOptions = {}): Promise<HeldLocks> {
    // All nodes lock in the same order, so that two of them do not wait for each other.
    const keys = [...modesOf(claims)].sort(([one], [other]) => (one < other ? -1 : 1))
    const calls = keys.map(([key, mode]) => `pg_advisory_xact_lock${mode === 'shared' ? '_shared' : ''}(${key})`)
    const message = `begin isolation level read committed; select ${calls.join(', ')}; select topic, count from change_counts`
    const freeSlot = await this.#slots.take(level)
    try {
      const isRepeatable = (error: unknown) => isConnectionError(error) || isRolledBack(error)
      const { client, counts } = await retried(() => this.#begin(message), isRepeatable)
      const lost = () => onLost?.()
      client.once('end', lost)
      return {
        counts,
        release: (notices) => {
          client.off('end', lost)
          return release(client, notices).finally(freeSlot)
        },
      }
    } catch (error) {
      freeSlot()
      throw toStoreError(error)
    }
  }

  /** Sends the message, which begins a transaction and reads the counts last. */
  async #begin(message: string): Promise<{ readonly client: pg.PoolClient; readonly counts: HeldLocks['counts'] }> {
    const client = await this.#pool.connect()
    try {
      // The result of a message with several statements is an array, which the types of pg lack.
      const results = (await client.query(message)) as unknown as readonly pg.QueryResult<ChangeCount>[]
      return { client, counts: countsOf(results.at(-1)?.rows ?? []) }
    } catch (error) {
      // Closing the connection ends its transaction.
      client.release(true)
      throw error
    }
  }

  /** Sends notices to the other nodes. */
  async notify(notices: readonly string[]): Promise<void> {
    await this.#pool.query(notify(notices))
  }

  close(): Promise<void> {
    return this.#pool.end()
  }
}

async function release(client: pg.PoolClient, notices: readonly string[]): Promise<boolean> {
  try {
    await client.query(`${notify(notices)}commit`)
    client.release()
    return true
  } catch {
    client.release(true)
    return false
  }
}

function notify(notices: readonly string[]): string {
  const payloads = notices.map((notice) => `current_setting('application_name') || ' ' || ${pg.escapeLiteral(notice)}`)
  return payloads.map((payload) => `select pg_notify('${fileChannel}', ${payload});`).join('')
}

/**
 * The locks of the claims. A claim of a name excludes other claims of that name, and claims of trees that contain it:
 * it locks the name exclusively, and the trees of its path and of all ancestors in shared mode. A claim of a tree locks
 * that tree exclusively, and those of its ancestors in shared mode.
 */
function modesOf(claims: readonly PathClaim[]): ReadonlyMap<bigint, LockMode> {
  const modes = new Map<bigint, LockMode>()
  const lock = (key: bigint, mode: LockMode) => {
    if (modes.get(key) !== 'exclusive') modes.set(key, mode)
  }
  for (const claim of claims) {
    const path = foldCase(claim.path)
    const reachable = truncateTo(path, maxDepth)
    const tree = claim.tree || reachable !== path
    if (!tree) lock(keyOf('name', path), 'exclusive')
    lock(keyOf('tree', reachable), tree ? 'exclusive' : 'shared')
    for (let at = reachable; at !== root; at = parentOf(at)) lock(keyOf('tree', parentOf(at)), 'shared')
  }
  return modes
}

/** A 64-bit number. Two paths with the same number exclude each other needlessly, which is unlikely and harmless. */
function keyOf(kind: 'name' | 'tree', path: Path): bigint {
  return createHash('sha1').update(`${kind} ${path}`).digest().readBigInt64BE()
}

interface Waiting {
  readonly level: number
  readonly grant: () => void
}

/**
 * Limits how many locks this process holds, because each of them needs a connection. Work may take another slot, of the
 * next level, while it holds some. The last slots are for deeper levels only, so that work which holds a slot does not
 * wait for others that do the same. `p-queue` cannot reserve places for work that holds some.
 */
export class NestedSlots {
  readonly #reserved: number
  #taken = 0
  readonly #waiting = new Set<Waiting>()

  /** `timeout`: milliseconds to wait for a slot. */
  constructor(
    private readonly count: number,
    private readonly timeout: number,
  ) {
    this.#reserved = Math.min(reservedSlots, count - 1)
  }

  /** Resolves to a function that frees the slot. Rejects with `busy` after the timeout. */
  async take(level: number): Promise<() => void> {
    if (!this.#isFree(level)) await this.#wait(level)
    else this.#taken++
    return () => {
      this.#taken--
      // Deeper levels first: they hold slots.
      const waiting = [...this.#waiting].sort((one, other) => other.level - one.level)
      for (const each of waiting) if (this.#isFree(each.level)) each.grant()
    }
  }

  #isFree(level: number): boolean {
    return this.#taken < this.count - this.#reserved + Math.min(level, this.#reserved)
  }

  #wait(level: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer)
        this.#waiting.delete(waiting)
      }
      const waiting = {
        level,
        grant: () => {
          end()
          this.#taken++
          resolve()
        },
      }
      const timer = setTimeout(() => {
        end()
        reject(new GatewayError('busy', { reason: 'too many changes wait for the database', retryAfter: 1 }))
      }, this.timeout)
      this.#waiting.add(waiting)
    })
  }
}
