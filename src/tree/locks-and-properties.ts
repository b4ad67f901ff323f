/**
 * The records of WebDAV about a path: locks and dead properties (RFC 4918 §4). `path` is the principal's own, `at` and
 * `folder` are paths of the whole tree.
 */
import type { Principal } from '../accounts/principal.js'
import { GatewayError, isGatewayError } from '../base/errors.js'
import { childOf, nameOf, type Path } from '../base/path.js'
import type { Property, PropertyChange } from '../database/tables/files.js'
import type { Lock, LockRequest } from '../database/tables/locks.js'
import { isHeldBy } from '../locks/webdav-locks.js'
import type { Access } from './access.js'
import { reserve } from './file-content.js'
import { assertPreconditionsAt, type OnePath } from './change.js'
import type { AccessOptions, ChangeOptions } from './operation-options.js'
import { draftOf, recordDone } from './recording.js'
import { redactedLock } from './redaction.js'
import { isVisitorChange, isVisitorProperty } from './visitor-properties.js'
import { authorizeBelow } from './whole-trees.js'

export interface LockResult {
  readonly lock: Lock
  /** Nothing existed at the path, so an empty file was created. */
  readonly created: boolean
}

/** Maximum total size of the properties of one file or folder, as `PropertyLimits` measures it. */
export const maxPropertiesSize = 256 * 1024

/**
 * Maximum total size of the properties that one user has stored. A client that sets three short ones for each file, as
 * Windows does, reaches it at a million files.
 */
export const maxUserPropertiesSize = 1024 * 1024 * 1024

/** Maximum characters of the properties of all members of a folder that are returned together. */
const maxMemberPropertiesSize = 4 * 1024 * 1024

// Locks, as a principal takes, sees and releases them

/** See `VirtualFs.lock`. */
export async function lock(
  access: Access,
  path: Path,
  request: LockRequest,
  options: ChangeOptions,
): Promise<LockResult> {
  const locking = access.change<OnePath>({
    ...access.resolving('lock', path, options),
    named: undefined,
    require: ({ at, entry }) => {
      if (request.deep && entry?.kind === 'folder') authorizeBelow(access, 'lock', at, options)
    },
    tree: request.deep,
    touches: () => [],
  })
  // Under the path lock: a change that is being published would take effect after the lock was granted.
  const { lock, at, entry } = await locking.perform(async ({ at, entry }) => {
    const isDangling = entry?.kind === 'symlink'
    if ((!entry || isDangling) && options.makesFile === false) throw new GatewayError('not_found')
    // The storage does not tell where the symlink leads, or it leads to itself.
    if (isDangling) throw new GatewayError('denied', { detail: 'dangling_symlink' })
    return { lock: await access.dependencies.locks.grant(at, request, access.principal), at, entry }
  })
  const created = !entry && (await makeFile(access, path, at, lock, options))
  return { lock: redactedLock(access, lock, at), created }
}

/** Creates the empty file that was locked. Returns false if another request has created it in the meantime. */
async function makeFile(
  access: Access,
  path: Path,
  at: Path,
  { token }: Lock,
  options: ChangeOptions,
): Promise<boolean> {
  const { signal, password } = options
  const lockTokens = [...(options.lockTokens ?? []), token]
  try {
    const event = draftOf(access, 'file.stored', path)
    await reserve(access, path, { signal, password, lockTokens }, event)
    await recordDone(access, event)
    return true
  } catch (error) {
    // Another client has made the file meanwhile. The lock is for that file, unless its name differs in case.
    const now = isGatewayError(error, 'exists') && (await resolveIfPossible(access, path, options))
    if (now === at) return false
    await access.dependencies.locks.break(token)
    throw error
  }
}

/** See `VirtualFs.refreshLock`. */
export async function refresh(
  access: Access,
  path: Path,
  token: string,
  seconds: number,
  options: ChangeOptions,
): Promise<Lock> {
  const at = await ofLock(access, path, options)
  await assertPreconditionsAt(access, at, options)
  return redactedLock(access, await access.dependencies.locks.refresh(at, token, seconds, access.principal), at)
}

/** See `VirtualFs.unlock`. */
export async function unlock(access: Access, path: Path, token: string, options: AccessOptions): Promise<void> {
  const at = await ofLock(access, path, options)
  await access.dependencies.locks.release(at, token, access.principal)
}

/**
 * Returns the path of an existing lock. A path that the principal does not see has none, as a path where nothing
 * exists.
 */
async function ofLock(access: Access, path: Path, options: ChangeOptions): Promise<Path> {
  const { at, principal } = await access.resolve(path, options)
  if (access.decisions.refusalOf('lock', at, { ...options, makesFile: false }, principal)?.code === 'not_found') {
    // The lock token that a refresh names in its precondition is of no lock here.
    throw new GatewayError('precondition_failed', { reason: options.if ? 'If does not hold' : 'no such lock' })
  }
  return (await access.resolveAndAuthorize('lock', path, options)).at
}

/**
 * The locks that cover the path, and those on these direct members of it that the principal sees. Visitors of a share
 * see the locks of the share only.
 */
export function covering(access: Access, at: Path, members: readonly string[]): readonly Lock[] {
  const { dependencies, principal } = access
  const { locks } = dependencies
  const onMembers = locks.onMembers(at, members).filter(({ path }) => !access.decisions.isOmitted(path))
  const all = [...locks.covering(at), ...onMembers]
  const shown = principal.share === undefined ? all : all.filter((lock) => isHeldBy(lock, principal))
  return shown.map((lock) => redactedLock(access, lock, at))
}

// Dead properties

/** See `VirtualFs.memberProperties`. */
export async function memberProperties(
  access: Access,
  folder: Path,
  names: readonly string[] | undefined,
): Promise<ReadonlyMap<string, readonly Property[]> | undefined> {
  const { properties } = access.dependencies.store
  if (names === undefined && (await properties.sizeOfChildren(folder)) > maxMemberPropertiesSize) return undefined
  const paths = names?.map((name) => childOf(folder, name))
  const found = [...(await properties.ofChildren(folder, paths))]
  return new Map(found.map(([child, kept]) => [nameOf(child), shownProperties(access, kept)]))
}

/** The kept properties of one path that the principal sees. */
export function shownProperties({ principal }: Access, kept: readonly Property[]): readonly Property[] {
  return principal.share === undefined ? kept : kept.filter(isVisitorProperty)
}

/** Makes all of the changes, or none. They are as durable as the storage of the target. */
export function setProperties(
  access: Access,
  path: Path,
  changes: readonly PropertyChange[],
  options: ChangeOptions,
): Promise<void> {
  const { mounts, store } = access.dependencies
  if (!changes.every((change) => mayChangeProperty(access.principal, change))) throw new GatewayError('denied')
  const setting = access.change<OnePath>({
    ...access.resolving('properties', path, options),
    require: ({ existing }) => existing,
    touches: ({ at }) => [{ path: at }],
  })
  return setting.perform(async (target) => {
    const { properties } = mounts.isMountFolder(target.at) ? store : target.storage.records
    const limits = { ofPath: maxPropertiesSize, ofUser: maxUserPropertiesSize }
    await properties.change(target.at, changes, access.principal.userId, limits)
  })
}

/** Whether this property can be changed by the principal at all. */
export function mayChangeProperty({ share }: Principal, change: PropertyChange): boolean {
  return share === undefined || isVisitorChange(change)
}

async function resolveIfPossible(access: Access, path: Path, options: AccessOptions): Promise<Path | undefined> {
  try {
    return (await access.resolve(path, options)).at
  } catch {
    return undefined
  }
}
