/**
 * Locks of the tree (RFC 4918 §6 and §7): kept in the store, honoured by every door. A mirror in memory answers who is in
 * the way; grants are decided in a transaction of the store. Paths are of the whole tree.
 */
import { randomUUID } from 'node:crypto'
import { GatewayError } from './errors.js'
import { isWithin, parentOf, type Path } from './path.js'
import type { Principal } from './principal.js'
import type { Store } from './store/rows.js'

export interface LockRequest {
  readonly scope: 'exclusive' | 'shared'
  /** true: everything below is locked too. */
  readonly deep: boolean
  /** The `owner` element as the client sent it, XML text; empty for none. */
  readonly owner: string
  /** How long it shall stand; capped at `longestLock`. */
  readonly seconds: number
}

export interface Lock extends Omit<LockRequest, 'seconds'> {
  /** `urn:uuid:…` */
  readonly token: string
  /** The root of the lock. */
  readonly path: Path
  readonly userId: number
  readonly username: string
  readonly expires: Date
}

/** Seconds. */
export const longestLock = 7 * 24 * 3600

/** Locks that one user may hold at once. */
const locksPerUser = 10_000

/** A lock stands in the way whose token was not presented. */
export class LockedError extends GatewayError {
  constructor(readonly lock: Lock) {
    super('locked', { reason: `locked by ${lock.username}` })
  }

  override at(): this {
    return this
  }
}

/** What a change does to a name, as far as locks care. */
export interface Touch {
  readonly path: Path
  /** Everything below changes too. */
  readonly tree?: boolean
  /** The name comes or goes: that is a change of the folder that holds it (RFC 4918 §7.4). */
  readonly membership?: boolean
}

export class Locks {
  #byToken = new Map<string, Lock>()

  private constructor(readonly store: Store['locks']) {}

  static async load(store: Store['locks']): Promise<Locks> {
    const locks = new Locks(store)
    await store.sweep(new Date())
    await locks.reload()
    return locks
  }

  async reload(): Promise<void> {
    this.#byToken = new Map((await this.store.all()).map((lock) => [lock.token, lock]))
  }

  /** Those that stand, oldest first. */
  list(): readonly Lock[] {
    const now = Date.now()
    return [...this.#byToken.values()].filter((lock) => lock.expires.getTime() > now)
  }

  /** Those that cover `path`: rooted there, or deep and rooted above. */
  covering(path: Path): readonly Lock[] {
    if (this.#byToken.size === 0) return []
    return this.list().filter((lock) => covers(lock, path))
  }

  /** The first lock that keeps `principal` (nobody: the program itself), who presents these tokens, from the change. */
  blocking(touch: Touch, principal: Principal | undefined, tokens: readonly string[]): Lock | undefined {
    if (this.#byToken.size === 0) return undefined
    const standing = this.list()
    const presented = (lock: Lock) => lock.userId === principal?.userId && tokens.includes(lock.token)
    const inTheWay = (locks: readonly Lock[]) => (locks.some(presented) ? undefined : locks[0])
    const blocked = inTheWay(standing.filter((lock) => covers(lock, touch.path)))
    if (blocked) return blocked
    if (touch.membership === true && touch.path !== '/') {
      const folder = parentOf(touch.path)
      const onFolder = inTheWay(standing.filter((lock) => covers(lock, folder)))
      if (onFolder) return onFolder
    }
    if (touch.tree !== true) return undefined
    // Each resource below has to be answered for by itself: shared locks of one root by any of their tokens.
    const below = groupByPath(standing, touch.path)
    for (const locks of below.values()) {
      const lock = inTheWay(locks)
      if (lock) return lock
    }
    return undefined
  }

  /** Rejects with LockedError where another lock does not go together with it. */
  async grant(path: Path, request: LockRequest, principal: Principal): Promise<Lock> {
    const own = this.list().filter((lock) => lock.userId === principal.userId)
    if (own.length >= locksPerUser) throw new GatewayError('too_large', { reason: 'this account holds too many locks' })
    const { scope, deep, owner } = request
    const lock: Lock = {
      token: `urn:uuid:${randomUUID()}`,
      path,
      scope,
      deep,
      owner,
      userId: principal.userId,
      username: principal.username,
      expires: expiry(request.seconds),
    }
    const conflicts = (other: Lock) =>
      other.expires.getTime() > Date.now() &&
      (covers(other, path) || (deep && isWithin(path, other.path))) &&
      (scope === 'exclusive' || other.scope === 'exclusive')
    const standing = await this.store.grant(lock, (others) => others.find(conflicts))
    if (standing) throw new LockedError(standing)
    this.#byToken.set(lock.token, lock)
    return lock
  }

  /** `precondition_failed` unless the principal holds a lock of this token that covers `path`. */
  async refresh(path: Path, token: string, seconds: number, principal: Principal): Promise<Lock> {
    const lock = this.#held(path, token, principal)
    const expires = expiry(seconds)
    if (!(await this.store.refresh(token, expires)))
      throw new GatewayError('precondition_failed', { reason: 'no such lock' })
    const refreshed = { ...lock, expires }
    this.#byToken.set(token, refreshed)
    return refreshed
  }

  /** `precondition_failed` unless the principal holds a lock of this token that covers `path`. */
  async release(path: Path, token: string, principal: Principal): Promise<void> {
    this.#held(path, token, principal)
    await this.break(token)
  }

  /** Ends a lock, whoever holds it. */
  async break(token: string): Promise<void> {
    await this.store.delete(token)
    this.#byToken.delete(token)
  }

  /** What is gone is no longer locked. `itself`: the path too, not only what lies below. */
  async dropWithin(path: Path, itself: boolean): Promise<void> {
    const gone = [...this.#byToken.values()].filter(
      (lock) => isWithin(path, lock.path) && (itself || lock.path !== path),
    )
    for (const lock of gone) await this.break(lock.token)
  }

  #held(path: Path, token: string, principal: Principal): Lock {
    const lock = this.#byToken.get(token)
    if (!lock || lock.expires.getTime() <= Date.now() || !covers(lock, path)) {
      throw new GatewayError('precondition_failed', { reason: 'no such lock' })
    }
    if (lock.userId !== principal.userId)
      throw new GatewayError('denied', { reason: 'the lock is held by somebody else' })
    return lock
  }
}

function covers(lock: Lock, path: Path): boolean {
  return lock.path === path || (lock.deep && isWithin(lock.path, path))
}

function groupByPath(locks: readonly Lock[], root: Path): Map<Path, Lock[]> {
  const groups = new Map<Path, Lock[]>()
  for (const lock of locks) {
    if (lock.path === root || !isWithin(root, lock.path)) continue
    groups.set(lock.path, [...(groups.get(lock.path) ?? []), lock])
  }
  return groups
}

function expiry(seconds: number): Date {
  return new Date(Date.now() + Math.min(Math.max(seconds, 1), longestLock) * 1000)
}
