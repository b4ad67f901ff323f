/** The locks of WebDAV. */
import type { Path } from '../../base/path.js'

export interface LockRequest {
  readonly scope: 'exclusive' | 'shared'
  /** true: the lock covers everything below the path too. */
  readonly deep: boolean
  /** The `owner` element as the client sent it, XML text; empty for none. */
  readonly owner: string
  /** Requested timeout in seconds; capped at `maxLockSeconds`. */
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

export interface LockRows {
  /** An owner of more than `maxOwner` characters is read as empty. */
  all(maxOwner?: number): Promise<Lock[]>
  /** Undefined if no lock has this token. `maxOwner` as in `all`. */
  get(token: string, maxOwner?: number): Promise<Lock | undefined>
  /**
   * In one transaction: passes to `conflict` every lock above, at or below the path that has not expired at `now`, by
   * default the current time. Stores `lock` if that returns undefined; otherwise resolves to the conflicting lock.
   */
  grant(lock: Lock, conflict: (active: readonly Lock[]) => Lock | undefined, now?: number): Promise<Lock | undefined>
  refresh(token: string, expires: Date): Promise<boolean>
  delete(token: string): Promise<boolean>
  sweep(now: Date): Promise<void>
}
