/**
 * Locks of the tree (RFC 4918 §6 and §7), stored in the database and enforced for every protocol. Checks use a copy in
 * memory; a grant is decided in a transaction of the store. Paths are of the whole tree.
 */
import { randomUUID } from 'node:crypto'
import type { Principal } from '../accounts/principal.js'
import { GatewayError, type ErrorOrigin, type OperationName } from '../base/errors.js'
import { childOf, isWithin, parentOf, selfAndAncestors, type Path } from '../base/path.js'
import type { Lock, LockRequest } from '../database/tables/locks.js'
import type { OfOthers, Store } from '../database/tables.js'

export type { Lock, LockRequest } from '../database/tables/locks.js'

/** Maximum number of characters of the owner of a lock. */
export const maxOwnerSize = 4096

/** The maximum lifetime of a lock, in seconds. */
export const maxLockSeconds = 7 * 24 * 3600

/** Maximum milliseconds between two extensions of a lock in use. */
const maxTimer = 60_000

/** Minimum time by which a lock is extended while its holder sends a body, in milliseconds. */
const minExtension = 1000

/** Maximum number of locks per user. */
const locksPerUser = 10_000

/** Maximum number of characters of the paths and owners of a user's locks, which are held in memory. */
const lockSizePerUser = 2 * 1024 * 1024

/** Maximum number of locks of a share, all of whose visitors hold them together. */
export const locksPerShare = 100

/**
 * The maximum lifetime of a lock of a share, in seconds. Nobody can refresh it when the share has ended.
 */
export const maxShareLockSeconds = 3600

/** Begins the name of the holder of a lock that is a share. No user name has a colon. */
const shareHolder = 'share:'

/** A lock whose token was not presented refuses the change. Has the lock, which WebDAV reports. */
export class LockedError extends GatewayError {
  constructor(
    readonly lock: Lock,
    context: ErrorOrigin = {},
    /** The path of the whole tree that the principal wanted to change, where that is not the path of its request. */
    readonly asked?: Path,
  ) {
    super('locked', { ...context, reason: `locked by ${lock.username}` })
  }

  override at(op: OperationName | undefined, path: string): LockedError {
    return new LockedError(this.lock, { op, path, cause: this.cause ?? this }, this.asked)
  }
}

/** What a change affects: input for `Locks.blocking`. */
export interface LockedPath {
  readonly path: Path
  /** The change affects everything below too. */
  readonly tree?: boolean
  /** The name is created or removed, which also changes the parent folder (RFC 4918 §7.4). */
  readonly membership?: boolean
}

/** The other processes that grant locks too. */
interface LocksCluster {
  /** Milliseconds since 1970, by the clock of the database. */
  now(): number
  readonly ofOthers: OfOthers
}

/** Returns when a share ends, on which the locks of its visitors depend; undefined if it does not end. */
type EndOfShare = (id: string) => Date | undefined

export class Locks {
  #byToken = new Map<string, Lock>()
  /** The locks by lock root, oldest first. */
  #byPath = new Map<Path, readonly Lock[]>()
  /** Lock roots by their parent folder. */
  #rootsIn = new Map<Path, Set<Path>>()
  /** Milliseconds since the epoch: no lock expires before. */
  #nextExpiry = Number.POSITIVE_INFINITY
  /** Locks that are being granted, which have their room already. */
  readonly #granting = new Set<Lock>()
  /** Tokens of locks that are being removed because their share is over. They count no more. */
  readonly #over = new Set<string>()
  /** Number of changes of the copy in memory. A reload that overlaps with one is repeated. */
  #changes = 0
  /** Number of changes that this process has stored, and of those that it is storing. */
  #stored = 0
  #storing = 0

  private constructor(
    private readonly store: Store['locks'],
    private readonly cluster: LocksCluster,
    private readonly endOfShare: EndOfShare,
  ) {}

  /** Reads the stored locks. By default, no other process grants any, and no share has an end. */
  static async load(
    store: Store['locks'],
    cluster: LocksCluster = { now: Date.now, ofOthers: () => undefined },
    endOfShare: EndOfShare = () => undefined,
  ): Promise<Locks> {
    const locks = new Locks(store, cluster, endOfShare)
    await store.sweep(new Date(cluster.now()))
    await locks.reload()
    return locks
  }

  /** Reads the locks of unknown tokens: another node may just have granted them. */
  async know(tokens: readonly string[]): Promise<void> {
    for (const token of tokens) {
      if (!this.#byToken.has(token)) await this.cluster.ofOthers(() => this.#read(token))
    }
  }

  /** Whether the lock, which this process knows, still exists: another node may just have released it. */
  async confirm({ token }: Lock): Promise<boolean> {
    return (await this.cluster.ofOthers(() => this.#read(token))) ?? true
  }

  async #read(token: string): Promise<boolean> {
    const lock = await this.store.get(token, maxOwnerSize)
    if (lock) this.#put(lock)
    else this.#drop(token)
    return lock !== undefined
  }

  /**
   * The number of changes of stored locks by this process. Undefined while it makes one, which may be stored already.
   */
  get ownChanges(): number | undefined {
    return this.#storing > 0 ? undefined : this.#stored
  }

  /** Changes the stored locks. `apply` makes the same change in memory, and returns whether there was one. */
  async #store<Result>(change: () => Promise<Result>, apply: (result: Result) => boolean): Promise<Result> {
    this.#storing++
    try {
      const result = await change()
      if (apply(result)) this.#stored++
      return result
    } finally {
      this.#storing--
    }
  }

  /** Resolves to whether the lock still existed. */
  async #refresh(refreshed: Lock): Promise<boolean> {
    return this.#store(
      () => this.store.refresh(refreshed.token, refreshed.expires),
      (isStored) => {
        if (isStored) this.#put(refreshed)
        return isStored
      },
    )
  }

  async reload(): Promise<void> {
    for (;;) {
      const before = this.#changes
      const locks = await this.store.all(maxOwnerSize)
      if (before !== this.#changes) continue
      this.#changes++
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
    this.#nextExpiry = Math.min(this.#nextExpiry, lock.expires.getTime())
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

  /** The locks that have not expired. */
  list(): readonly Lock[] {
    return [...this.#byToken.values()].filter((lock) => this.#isActive(lock))
  }

  /** The locks that cover `path`: with that root, or deep with a root above it. */
  covering(path: Path): readonly Lock[] {
    if (this.#byToken.size === 0) return []
    const found: Lock[] = []
    for (const root of selfAndAncestors(path)) {
      for (const lock of this.#byPath.get(root) ?? []) if (this.#isActive(lock) && covers(lock, path)) found.push(lock)
    }
    return found
  }

  /** The locks whose root is one of these direct members of `folder`. */
  onMembers(folder: Path, names: readonly string[]): readonly Lock[] {
    const roots = this.#rootsIn.get(folder)
    if (!roots) return []
    const locked = names.map((name) => childOf(folder, name)).filter((path) => roots.has(path))
    return locked.flatMap((root) => (this.#byPath.get(root) ?? []).filter((lock) => this.#isActive(lock)))
  }

  /**
   * Returns the first lock that refuses the change to a principal who presents these tokens. Without a principal, the
   * change is made by the gateway itself, and every lock refuses it.
   */
  blocking(change: LockedPath, principal: Principal | undefined, tokens: readonly string[]): Lock | undefined {
    if (this.#byToken.size === 0) return undefined
    const known = new Set(tokens)
    const presented = (lock: Lock) => isHeldBy(lock, principal) && known.has(lock.token)
    const blockingOf = (locks: readonly Lock[]) => (locks.some(presented) ? undefined : locks[0])
    const onPath = blockingOf(this.covering(change.path))
    if (onPath) return onPath
    if (change.membership === true && change.path !== '/') {
      const folder = parentOf(change.path)
      const onFolder = blockingOf(this.covering(folder))
      if (onFolder) return onFolder
    }
    if (change.tree !== true) return undefined
    // Every locked resource below needs a token of its own. For shared locks with the same root, the token of any one
    // is enough.
    for (const [root, locks] of this.#byPath) {
      if (root === change.path || !isWithin(change.path, root)) continue
      const lock = blockingOf(locks.filter((lock) => this.#isActive(lock)))
      if (lock) return lock
    }
    return undefined
  }

  /**
   * Rejects with LockedError if the lock conflicts with another one, with `too_large` if the user, or the share, holds
   * too many locks, or their paths and owners are too long together, with `aborted` if the principal was revoked.
   */
  async grant(path: Path, request: LockRequest, principal: Principal): Promise<Lock> {
    await this.#sweep()
    const { scope, deep, owner } = request
    const lock: Lock = {
      token: `urn:uuid:${randomUUID()}`,
      path,
      scope,
      deep,
      owner,
      userId: principal.userId,
      username: principal.share === undefined ? principal.username : holderOfShare(principal.share.id),
      expires: this.#expiry(request.seconds, principal),
    }
    this.#assertRoom(lock)
    const conflicts = (other: Lock) =>
      this.#isActive(other) &&
      (covers(other, path) || (deep && isWithin(path, other.path))) &&
      (scope === 'exclusive' || other.scope === 'exclusive')
    this.#granting.add(lock)
    try {
      const conflict = await this.#store(
        () => this.store.grant(lock, (others) => others.find(conflicts), this.cluster.now()),
        (conflict) => {
          this.#granting.delete(lock)
          if (!conflict) this.#put(lock)
          return !conflict
        },
      )
      if (conflict) throw new LockedError(conflict)
      // Whoever was revoked meanwhile does not learn the token.
      if (principal.signal.aborted) {
        await this.break(lock.token)
        throw new GatewayError('aborted')
      }
      return lock
    } finally {
      this.#granting.delete(lock)
    }
  }

  /** A user has as much room for locks of its own as for those of all its shares. */
  #assertRoom(lock: Lock): void {
    const share = shareIdOf(lock)
    let count = 0
    let countOfShare = 0
    let size = sizeOf(lock)
    for (const other of [...this.#byToken.values(), ...this.#granting]) {
      if (other.userId !== lock.userId || !this.#isActive(other)) continue
      const holder = shareIdOf(other)
      if ((holder === undefined) !== (share === undefined)) continue
      count++
      size += sizeOf(other)
      if (holder === share) countOfShare++
    }
    if (share !== undefined && countOfShare >= locksPerShare) {
      throw new GatewayError('too_large', { reason: 'this share holds too many locks' })
    }
    if (count >= locksPerUser || size > lockSizePerUser) {
      throw new GatewayError('too_large', { reason: 'this account holds too many locks' })
    }
  }

  /** Deletes expired locks. Called before a lock is granted. */
  async #sweep(): Promise<void> {
    if (this.#nextExpiry > this.cluster.now()) return
    const expired = [...this.#byToken.values()].filter((lock) => !this.#isActive(lock))
    for (const lock of expired) this.#drop(lock.token)
    const expiries = [...this.#byToken.values()].map((lock) => lock.expires.getTime())
    this.#nextExpiry = expiries.reduce((first, each) => Math.min(first, each), Number.POSITIVE_INFINITY)
    if (expired.length === 0) return
    await this.store.sweep(new Date(this.cluster.now()))
  }

  /**
   * Sets a new lifetime. Rejects with `precondition_failed` if no lock with this token covers `path`, with `denied` if
   * somebody else holds it.
   */
  async refresh(path: Path, token: string, seconds: number, principal: Principal): Promise<Lock> {
    await this.know([token])
    const lock = this.#usable(path, token, (lock) => isHeldBy(lock, principal))
    const refreshed = { ...lock, expires: this.#expiry(seconds, principal) }
    if (!(await this.#refresh(refreshed))) throw new GatewayError('precondition_failed', { reason: 'no such lock' })
    return refreshed
  }

  /**
   * Extends the locks over `path` whose tokens the principal presents during an operation, so that their remaining time
   * does not fall below its current value. Returns a function that ends the extension.
   */
  extendDuring(path: Path, tokens: readonly string[], principal: Principal): () => void {
    if (tokens.length === 0 || this.#byToken.size === 0) return () => undefined
    const known = new Set(tokens)
    const held = this.covering(path).filter((lock) => isHeldBy(lock, principal) && known.has(lock.token))
    if (held.length === 0) return () => undefined
    const timeLeft = (lock: Lock) => lock.expires.getTime() - this.cluster.now()
    const remaining = new Map(held.map((lock) => [lock.token, Math.max(minExtension, timeLeft(lock))]))
    const extend = async ([token, time]: readonly [string, number]): Promise<void> => {
      const expires = this.#afterNow(time, principal)
      const lock = this.#byToken.get(token)
      if (!lock || !this.#isActive(lock) || lock.expires >= expires) return
      // A lock that cannot be extended expires, and the check before publishing reports that to the writer.
      await this.#refresh({ ...lock, expires }).catch(() => undefined)
    }
    const pause = Math.min(Math.min(...remaining.values()) / 3, maxTimer)
    const extendAll = () => void Promise.all([...remaining].map(extend))
    // A lock that is about to expire would not live until the first pause has passed.
    if (held.some((lock) => timeLeft(lock) < minExtension)) extendAll()
    const timer = setInterval(extendAll, pause)
    return () => clearInterval(timer)
  }

  /** Removes a lock: one that the principal holds, or one of a visitor of its share. Rejects as `refresh`. */
  async release(path: Path, token: string, principal: Principal): Promise<void> {
    await this.know([token])
    this.#usable(path, token, (lock) => isHeldBy(lock, principal) || isOfOwnShare(lock, principal))
    await this.break(token)
  }

  /** Removes a lock of any user. */
  async break(token: string): Promise<void> {
    await this.#store(
      () => this.store.delete(token),
      (isDeleted) => {
        this.#drop(token)
        return isDeleted
      },
    )
  }

  /** Removes the locks below a removed path. `itself`: also those on the path. */
  async dropWithin(path: Path, itself: boolean): Promise<void> {
    const dropped = [...this.#byToken.values()].filter(
      (lock) => isWithin(path, lock.path) && (itself || lock.path !== path),
    )
    for (const lock of dropped) await this.break(lock.token)
  }

  /** Removes the locks of visitors of the shares that are over, which count no more from now on. */
  async dropOfShares(isOver: (shareId: string) => boolean): Promise<void> {
    const dropped = [...this.#byToken.values()].filter((lock) => {
      const id = shareIdOf(lock)
      return id !== undefined && isOver(id)
    })
    for (const { token } of dropped) this.#over.add(token)
    try {
      for (const { token } of dropped) await this.break(token)
    } finally {
      for (const { token } of dropped) this.#over.delete(token)
    }
  }

  #usable(path: Path, token: string, isUsable: (lock: Lock) => boolean): Lock {
    const lock = this.#byToken.get(token)
    if (!lock || !this.#isActive(lock) || !covers(lock, path)) {
      throw new GatewayError('precondition_failed', { reason: 'no such lock' })
    }
    if (!isUsable(lock)) throw new GatewayError('denied', { reason: 'the lock belongs to another user' })
    return lock
  }

  #isActive(lock: Lock): boolean {
    return lock.expires.getTime() > this.cluster.now() && !this.#over.has(lock.token)
  }

  #expiry(seconds: number, principal: Principal): Date {
    const longest = principal.share === undefined ? maxLockSeconds : maxShareLockSeconds
    return this.#afterNow(Math.min(Math.max(seconds, 1), longest) * 1000, principal)
  }

  /** In so many milliseconds. No lock of a share outlives it. */
  #afterNow(time: number, { share }: Principal): Date {
    const end = share && this.endOfShare(share.id)
    return new Date(Math.min(this.cluster.now() + time, end?.getTime() ?? Infinity))
  }
}

/**
 * Whether the principal may present the lock: its user has taken it, or a visitor of its share. A user and the visitors
 * of its shares, who have the same id, hold nothing of each other.
 */
export function isHeldBy(lock: Lock, principal: Principal | undefined): boolean {
  return principal?.userId === lock.userId && shareIdOf(lock) === principal.share?.id
}

/** Whether visitors of a share hold the lock. */
export function isOfVisitors(lock: Lock): boolean {
  return shareIdOf(lock) !== undefined
}

/** Whether visitors of a share hold the lock whose creator the principal is. */
export function isOfOwnShare(lock: Lock, { userId, share }: Principal): boolean {
  return share === undefined && userId === lock.userId && isOfVisitors(lock)
}

/** The name by which the visitors of a share hold locks. */
export function holderOfShare(id: string): string {
  return shareHolder + id
}

/** The id of the share that holds the lock; undefined for a user's. */
function shareIdOf({ username }: Lock): string | undefined {
  return username.startsWith(shareHolder) ? username.slice(shareHolder.length) : undefined
}

function covers(lock: Lock, path: Path): boolean {
  return lock.path === path || (lock.deep && isWithin(lock.path, path))
}

/** Returns the size that a lock adds to `lockSizePerUser`. */
function sizeOf({ path, owner }: Lock): number {
  return path.length + owner.length
}
