/**
 * Locks of the tree (RFC 4918 §6 and §7): kept in the store, honoured by every door. A mirror in memory answers who is in
 * the way; grants are decided in a transaction of the store. Paths are of the whole tree.
 */
import { randomUUID } from 'node:crypto'
import { GatewayError } from './errors.js'
import { isWithin, parentOf, upwardFrom, type Path } from './path.js'
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

/** Milliseconds between extensions of a lock whose holder is at work. */
const longestPause = 60_000

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
  /** The same locks by their roots, oldest first. */
  #byPath = new Map<Path, readonly Lock[]>()
  /** Roots of locks by the folder that holds them. */
  #rootsIn = new Map<Path, Set<Path>>()
  /** Until then no lock runs out. */
  #firstEnd = Number.POSITIVE_INFINITY
  /** Counts what this process changed, so that a reading that overlaps is done again. */
  #changes = 0

  private constructor(readonly store: Store['locks']) {}

  static async load(store: Store['locks']): Promise<Locks> {
    const locks = new Locks(store)
    await store.sweep(new Date())
    await locks.reload()
    return locks
  }

  async reload(): Promise<void> {
    for (;;) {
      const before = this.#changes
      const locks = await this.store.all()
      if (before !== this.#changes) continue
      this.#byToken = new Map()
      this.#byPath = new Map()
      this.#rootsIn = new Map()
      for (const lock of locks) this.#put(lock)
      return
    }
  }

  #put(lock: Lock): void {
    this.#changes++
    this.#byToken.set(lock.token, lock)
    this.#firstEnd = Math.min(this.#firstEnd, lock.expires.getTime())
    const others = (this.#byPath.get(lock.path) ?? []).filter(({ token }) => token !== lock.token)
    this.#byPath.set(lock.path, [...others, lock])
    const folder = parentOf(lock.path)
    const roots = this.#rootsIn.get(folder)
    if (roots) roots.add(lock.path)
    else this.#rootsIn.set(folder, new Set([lock.path]))
  }

  #drop(token: string): void {
    this.#changes++
    const lock = this.#byToken.get(token)
    if (!lock) return
    this.#byToken.delete(token)
    const others = (this.#byPath.get(lock.path) ?? []).filter((other) => other.token !== token)
    if (others.length > 0) {
      this.#byPath.set(lock.path, others)
      return
    }
    this.#byPath.delete(lock.path)
    const folder = parentOf(lock.path)
    const roots = this.#rootsIn.get(folder)
    roots?.delete(lock.path)
    if (roots?.size === 0) this.#rootsIn.delete(folder)
  }

  /** Those that stand. */
  list(): readonly Lock[] {
    return [...this.#byToken.values()].filter(stands)
  }

  /** Those that cover `path`: rooted there, or deep and rooted above. */
  covering(path: Path): readonly Lock[] {
    if (this.#byToken.size === 0) return []
    const found: Lock[] = []
    for (const root of upwardFrom(path)) {
      for (const lock of this.#byPath.get(root) ?? []) if (stands(lock) && covers(lock, path)) found.push(lock)
    }
    return found
  }

  /** Those rooted at a direct member of `folder`. */
  onMembers(folder: Path): readonly Lock[] {
    const roots = [...(this.#rootsIn.get(folder) ?? [])]
    return roots.flatMap((root) => (root === folder ? [] : (this.#byPath.get(root) ?? []).filter(stands)))
  }

  /** The first lock that keeps `principal` (nobody: the program itself), who presents these tokens, from the change. */
  blocking(touch: Touch, principal: Principal | undefined, tokens: readonly string[]): Lock | undefined {
    if (this.#byToken.size === 0) return undefined
    const presented = (lock: Lock) => lock.userId === principal?.userId && tokens.includes(lock.token)
    const inTheWay = (locks: readonly Lock[]) => (locks.some(presented) ? undefined : locks[0])
    const blocked = inTheWay(this.covering(touch.path))
    if (blocked) return blocked
    if (touch.membership === true && touch.path !== '/') {
      const folder = parentOf(touch.path)
      const onFolder = inTheWay(this.covering(folder))
      if (onFolder) return onFolder
    }
    if (touch.tree !== true) return undefined
    // Each resource below has to be answered for by itself: shared locks of one root by any of their tokens.
    for (const [root, locks] of this.#byPath) {
      if (root === touch.path || !isWithin(touch.path, root)) continue
      const lock = inTheWay(locks.filter(stands))
      if (lock) return lock
    }
    return undefined
  }

  /** Rejects with LockedError where another lock does not go together with it. */
  async grant(path: Path, request: LockRequest, principal: Principal): Promise<Lock> {
    await this.#sweep()
    this.#assertRoom(principal)
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
      stands(other) &&
      (covers(other, path) || (deep && isWithin(path, other.path))) &&
      (scope === 'exclusive' || other.scope === 'exclusive')
    const standing = await this.store.grant(lock, (others) => others.find(conflicts))
    if (standing) throw new LockedError(standing)
    this.#put(lock)
    return lock
  }

  #assertRoom({ userId }: Principal): void {
    // Nobody holds more than there are.
    if (this.#byToken.size < locksPerUser) return
    const own = this.list().filter((lock) => lock.userId === userId)
    if (own.length >= locksPerUser) throw new GatewayError('too_large', { reason: 'this account holds too many locks' })
  }

  /** Locks that ran out are forgotten when the next one is granted. */
  async #sweep(): Promise<void> {
    if (this.#firstEnd > Date.now()) return
    const ended = [...this.#byToken.values()].filter((lock) => !stands(lock))
    for (const lock of ended) this.#drop(lock.token)
    const ends = [...this.#byToken.values()].map((lock) => lock.expires.getTime())
    this.#firstEnd = ends.reduce((first, end) => Math.min(first, end), Number.POSITIVE_INFINITY)
    if (ended.length === 0) return
    await this.store.sweep(new Date())
  }

  /** `precondition_failed` unless the principal holds a lock of this token that covers `path`. */
  async refresh(path: Path, token: string, seconds: number, principal: Principal): Promise<Lock> {
    const lock = this.#held(path, token, principal)
    const expires = expiry(seconds)
    if (!(await this.store.refresh(token, expires)))
      throw new GatewayError('precondition_failed', { reason: 'no such lock' })
    const refreshed = { ...lock, expires }
    this.#put(refreshed)
    return refreshed
  }

  /**
   * While a principal who presents the tokens of locks over `path` is at work on it, these keep the time they have left now.
   * Returns what ends that.
   */
  keep(path: Path, tokens: readonly string[], principal: Principal): () => void {
    if (tokens.length === 0 || this.#byToken.size === 0) return () => undefined
    const held = this.covering(path).filter((lock) => lock.userId === principal.userId && tokens.includes(lock.token))
    if (held.length === 0) return () => undefined
    const left = new Map(held.map((lock) => [lock.token, lock.expires.getTime() - Date.now()]))
    const extend = async ([token, time]: readonly [string, number]): Promise<void> => {
      const expires = new Date(Date.now() + time)
      const lock = this.#byToken.get(token)
      if (!lock || !stands(lock) || lock.expires >= expires) return
      // A lock that cannot be extended runs out: whoever writes is then told so.
      if (await this.store.refresh(token, expires).catch(() => false)) this.#put({ ...lock, expires })
    }
    const pause = Math.min(Math.min(...left.values()) / 3, longestPause)
    const timer = setInterval(() => void Promise.all([...left].map(extend)), pause)
    return () => clearInterval(timer)
  }

  /** `precondition_failed` unless the principal holds a lock of this token that covers `path`. */
  async release(path: Path, token: string, principal: Principal): Promise<void> {
    this.#held(path, token, principal)
    await this.break(token)
  }

  /** Ends a lock, whoever holds it. */
  async break(token: string): Promise<void> {
    await this.store.delete(token)
    this.#drop(token)
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
    if (!lock || !stands(lock) || !covers(lock, path)) {
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

function stands(lock: Lock): boolean {
  return lock.expires.getTime() > Date.now()
}

function expiry(seconds: number): Date {
  return new Date(Date.now() + Math.min(Math.max(seconds, 1), longestLock) * 1000)
}
