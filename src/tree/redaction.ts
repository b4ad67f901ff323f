/**
 * What one principal is told: errors with the operation and the path that it has asked for, and locks, in its own paths
 * and without names that it must not see. Without a comment, a path is one of the whole tree.
 */
import type { Principal } from '../accounts/principal.js'
import { GatewayError, toGatewayError, TreeError, type OperationName } from '../base/errors.js'
import { logInternal } from '../base/log.js'
import { isWithin, parentOf, root, selfAndAncestors, under, within, type Path } from '../base/path.js'
import type { Lock } from '../database/rows.js'
import { LockedError } from '../locks/webdav-locks.js'
import type { Access } from './access.js'
import type { TreeDependencies } from './dependencies.js'

export class Redaction {
  /** Locks whose path is already the principal's own. Few requests see any. */
  #redacted: WeakSet<Lock> | undefined

  constructor(
    private readonly dependencies: Pick<TreeDependencies, 'bases' | 'log'>,
    private readonly principal: Principal,
    private readonly access: Pick<Access, 'isOmitted' | 'mayFill'>,
  ) {}

  /**
   * Runs an operation on the principal's own `path`, after its base folder was made if it was missing. Adds both names
   * to its errors, and redacts them.
   */
  async during<T>(op: OperationName, path: Path, work: () => Promise<T>): Promise<T> {
    try {
      const missing = this.#baseMade()
      if (missing) await missing
      return await work()
    } catch (error) {
      throw this.error(error, op, path)
    }
  }

  /** As `during`, for an operation that yields its results. */
  async *yielding<T>(op: OperationName, path: Path, work: () => AsyncGenerator<T>): AsyncGenerator<T> {
    try {
      await this.#baseMade()
      yield* work()
    } catch (error) {
      throw this.error(error, op, path)
    }
  }

  /** Resolves when the base folder exists, or cannot be made. Undefined if it is known to exist. */
  #baseMade(): Promise<void> | undefined {
    const { base } = this.principal
    if (base === root) return undefined
    return this.dependencies.bases.ensure(this.principal, () => this.access.mayFill(base))
  }

  /**
   * The error that the principal receives for an operation on its own `path`: redacted, with both. Logs an internal
   * error. If the error means that the base is missing, forgets that it exists.
   */
  error(error: unknown, op: OperationName, path: Path): GatewayError {
    const redacted = this.#redact(error, path)
    const isBaseMissing = redacted.code === 'parent_missing' || (redacted.code === 'not_found' && path === root)
    if (isBaseMissing) this.dependencies.bases.forget(this.principal.base)
    const reported = this.#atOwnPaths(redacted).at(op, path)
    const { username, protocol } = this.principal
    logInternal(this.dependencies.log, reported, { user: username, protocol: protocol.name })
    return reported
  }

  /** The error of a tree, with the principal's own paths. Other errors are returned unchanged. */
  #atOwnPaths(error: GatewayError): GatewayError {
    if (!(error instanceof TreeError)) return error
    return error.converted(
      (at) => this.path(at),
      (failure) => this.#redact(failure, root),
    )
  }

  /**
   * Removes what the principal must not see. An operation canceled because its principal was revoked is
   * `unauthenticated`. `path`: the principal's own.
   */
  #redact(error: unknown, path: Path): GatewayError {
    const converted = toGatewayError(error)
    if (converted instanceof LockedError) {
      const { lock, op, path: lockedAt } = converted
      const asked = under(this.principal.baseIn(lock.path), path)
      return new LockedError(this.lock(lock, asked), { op, path: lockedAt, cause: converted })
    }
    const isRevoked = converted.code === 'aborted' && this.principal.signal.aborted
    return isRevoked ? new GatewayError('unauthenticated', { cause: converted }) : converted
  }

  /** The principal's own path for a path of the whole tree. Paths outside the base are shown as the base. */
  path(at: Path): Path {
    return within(this.principal.baseIn(at), at) ?? root
  }

  /** The error for a lock that blocks a change of `asked`, with the lock as `lock` returns it. */
  lockedError(lock: Lock, asked: Path): LockedError {
    return new LockedError(this.lock(lock, asked))
  }

  /**
   * The lock with the principal's own path: that of the nearest folder of the lock which the principal sees, or which
   * `asked` names, the path of the request.
   */
  lock(lock: Lock, asked: Path): Lock {
    if (this.#redacted?.has(lock) === true) return lock
    const redacted = { ...lock, path: this.path(this.#nearestVisible(lock.path, asked)) }
    this.#redacted = (this.#redacted ?? new WeakSet()).add(redacted)
    return redacted
  }

  /** The path without its part that is invisible to the principal, who has named `asked` and the folders above it. */
  #nearestVisible(at: Path, asked: Path): Path {
    const base = this.principal.baseIn(at)
    let visible = at
    for (const path of selfAndAncestors(at)) {
      if (isWithin(path, asked) || isWithin(path, base)) break
      if (this.access.isOmitted(path)) visible = parentOf(path)
    }
    return visible
  }
}
