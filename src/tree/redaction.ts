/**
 * Errors and locks as one principal receives them, with its own paths and without names that it must not see. Errors
 * have the operation and the path of the request. Without a comment, a path is one of the whole tree.
 */
import { GatewayError, toGatewayError, TreeError, type OperationName } from '../base/errors.js'
import { logInternal } from '../base/log.js'
import { cleanPath, isWithin, parentOf, root, selfAndAncestors, under, type Path } from '../base/path.js'
import type { Lock } from '../database/tables/locks.js'
import { isHeldBy, isOfOwnShare, isOfVisitors, LockedError } from '../locks/webdav-locks.js'
import type { Access } from './access.js'

/**
 * Runs an operation on the principal's own `path`, after its base folder was made if it was missing. Adds both names to
 * its errors, and redacts them.
 */
export async function withOwnErrors<T>(
  access: Access,
  op: OperationName,
  path: Path,
  work: (access: Access) => Promise<T>,
): Promise<T> {
  try {
    const missing = baseMade(access)
    if (missing) await missing
    return await work(access)
  } catch (error) {
    throw redactedError(access, error, op, path)
  }
}

/** Replaces errors, as `withOwnErrors` does, for an operation that yields its results. */
export async function* yielding<T>(
  access: Access,
  op: OperationName,
  path: Path,
  work: () => Promise<AsyncGenerator<T>>,
): AsyncGenerator<T> {
  try {
    await baseMade(access)
    yield* await work()
  } catch (error) {
    throw redactedError(access, error, op, path)
  }
}

/** Resolves when the base folder exists, or cannot be made. Undefined if it is known to exist. */
function baseMade(access: Access): Promise<void> | undefined {
  const { base, accountBase, share } = access.principal
  // A folder that the user has chosen is missing like any other, and what was shared is not made again.
  if (base === root || base !== accountBase || share !== undefined) return undefined
  return access.dependencies.bases.ensure(access.principal, () => access.decisions.mayFill(base))
}

/**
 * The error that the principal receives for an operation on its own `path`: redacted, with both. Logs an internal
 * error. If the error means that the base is missing, forgets that it exists.
 */
export function redactedError(access: Access, error: unknown, op: OperationName, path: Path): GatewayError {
  const redacted = redact(access, error, path)
  const { bases, log } = access.dependencies
  const { base, username, protocol } = access.principal
  const isBaseMissing = redacted.code === 'parent_missing' || (redacted.code === 'not_found' && path === root)
  if (isBaseMissing) bases.forget(base)
  const reported = atOwnPaths(access, redacted).at(op, path)
  logInternal(log, reported, { user: username, protocol: protocol.name })
  return reported
}

/** The error of a tree, with the principal's own paths. Other errors are returned unchanged. */
function atOwnPaths(access: Access, error: GatewayError): GatewayError {
  if (!(error instanceof TreeError)) return error
  return error.converted(
    (at) => access.ownPath(at),
    (failure) => memberError(access, failure),
  )
}

/** The error of one member of a tree, as the principal receives it. */
export function memberError(access: Access, error: GatewayError): GatewayError {
  return redact(access, error, root)
}

/**
 * Removes what the principal must not see. An operation canceled because its principal was revoked is
 * `unauthenticated`. `path`: the principal's own.
 */
function redact(access: Access, error: unknown, path: Path): GatewayError {
  const converted = toGatewayError(error)
  if (converted instanceof LockedError) {
    const { lock, op, path: lockedAt } = converted
    const asked = converted.asked ?? under(access.principal.baseIn(lock.path), path)
    return new LockedError(redactedLock(access, lock, asked), { op, path: lockedAt, cause: converted })
  }
  // The members of a tree are redacted one by one.
  const isOfTree = converted instanceof TreeError
  if (!isOfTree && converted.detail === 'storage_failed' && converted.subject !== undefined) {
    const { code, detail, reason, subject } = converted
    return new GatewayError(code, { detail, reason, subject: access.ownPath(cleanPath(subject)), cause: converted })
  }
  const isRevoked = converted.code === 'aborted' && access.principal.signal.aborted
  return isRevoked ? new GatewayError('unauthenticated', { cause: converted }) : converted
}

/**
 * The lock with the principal's own path: that of the nearest folder of the lock which the principal sees, or which
 * `asked` names, the path of the request. For visitors of a share, other holders have no names. The id of a
 * share is known to its visitors, to its creator and to admins.
 */
export function redactedLock(access: Access, lock: Lock, asked: Path): Lock {
  const { principal } = access
  const shown = { ...lock, path: access.ownPath(nearestVisible(access, lock.path, asked)) }
  if (isHeldBy(lock, principal)) return shown
  if (principal.share !== undefined) return { ...shown, owner: '', username: 'somebody else', token: '' }
  const isSecret = isOfVisitors(lock) && !isOfOwnShare(lock, principal) && !principal.administersShares
  // Clients put the name of the user into `owner`, and that of a visitor is the secret id of the share.
  return isSecret ? { ...shown, owner: '', username: 'a visitor of a share' } : shown
}

/** The path without its part that is invisible to the principal, who has named `asked` and the folders above it. */
function nearestVisible(access: Access, at: Path, asked: Path): Path {
  const base = access.principal.baseIn(at)
  let visible = at
  for (const path of selfAndAncestors(at)) {
    if (isWithin(path, asked) || isWithin(path, base)) break
    if (access.decisions.isOmitted(path)) visible = parentOf(path)
  }
  return visible
}
