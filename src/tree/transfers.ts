/**
 * Moves and copies within the tree. All checks are made first. A move is then one call of the backend under path locks,
 * if the backend can; everything else is done item by item. Properties, rules and locks follow.
 */
import { isRealFolder } from '../contract/entry.js'
import { GatewayError } from '../base/errors.js'
import { parentOf, type Path } from '../base/path.js'
import { TransferMeter } from '../storage/transfer-meter.js'
import { copyTree, moveTree } from '../transfer/copy.js'
import { MemoryJournal, type CopyJournal } from '../transfer/copy-job.js'
import type { Access } from './access.js'
import type { ResolvedPath, TwoPaths } from './change.js'
import { followItems, followWhole, renameByBackend } from './follow-up.js'
import type { LockedPath } from '../locks/webdav-locks.js'
import { maxUserPropertiesSize } from './locks-and-properties.js'
import type { AccessOptions, TransferResult } from './operation-options.js'
import type { EventDraft } from './recording.js'
import { authorizeMovedSymlinks, followSymlinks } from './symlinks.js'
import { TransferJob, type CheckedTransfer, type TransferOptions } from './transfer-job.js'
import {
  arrivingAction,
  assertTransferPaths,
  assertReplaced,
  checkTransfer,
  type TransferCheck,
  isFolder,
  type TransferKind,
  leavingActions,
  type UntilRevoked,
} from './transfer-checks.js'

/** The request for a transfer. */
interface Asked {
  readonly kind: TransferKind
  /** Authorizes source and target and follows their symlinks; called for each check. */
  readonly resolve: () => Promise<readonly [source: Path, target: ResolvedPath]>
  /** Returns the requested paths if they can be locked before they are resolved, as in `ChangePlan`. */
  readonly named?: () => readonly [source: Path, target: Path] | undefined
}

/** See `VirtualFs.move`. */
export function move(
  access: Access,
  from: Path,
  to: Path,
  options: TransferOptions,
  event: EventDraft,
): Promise<TransferResult> {
  const authorize = (source: Path, target: Path) => {
    for (const action of leavingActions(source, target)) access.decisions.authorize(action, source, options)
    access.decisions.authorize(arrivingAction(source, target), target, options)
  }
  const resolve = async () => {
    const { at: source } = await followSymlinks(access, 'move', await access.resolve(from, options), options)
    const place = await access.resolveMoveTarget(to, source, options)
    const target = await followSymlinks(access, 'receive', place, options, { entry: true })
    authorize(source, target.at)
    return [source, target] as const
  }
  const named = () => {
    const [source, target] = [access.resolveAtOnce(from)?.at, access.resolveAtOnce(to)?.at]
    if (source === undefined || target === undefined) return undefined
    try {
      authorize(source, target)
      return [source, target] as const
    } catch {
      // A symlink may lead to where it is allowed.
      return undefined
    }
  }
  return access.untilRevoked(options, (signal) =>
    transfer(access, { kind: 'move', resolve, named }, { ...options, signal }, event),
  )
}

/** See `VirtualFs.copy`. */
export function copy(
  access: Access,
  from: Path,
  to: Path,
  options: TransferOptions,
  event: EventDraft,
): Promise<TransferResult> {
  const resolve = async () => {
    const { at: source } = await access.resolveAndAuthorize('read', from, options)
    access.decisions.authorize('copy', source, options)
    const place = await access.resolve(to, options)
    const target = await followSymlinks(access, 'receive', place, options, { entry: true })
    access.decisions.authorize('receive', target.at, options)
    return [source, target] as const
  }
  return access.untilRevoked(options, (signal) =>
    transfer(access, { kind: 'copy', resolve }, { ...options, signal }, event),
  )
}

/** See `VirtualFs.isBetweenStorages`. */
export async function isBetweenStorages(
  access: Access,
  kind: TransferKind,
  from: Path,
  to: Path,
  options: AccessOptions,
): Promise<boolean> {
  const { mounts } = access.dependencies
  const { at: source } = await access.resolveAndAuthorize(kind === 'copy' ? 'read' : 'move', from, options)
  access.decisions.authorize(kind, source, options)
  if (kind === 'move') access.decisions.assertMovable(source, 'mount_moved')
  const { at: target } = await followSymlinks(access, 'receive', await access.resolve(to, options), options)
  access.decisions.authorize('receive', target, options)
  const { storage } = mounts.find(source)
  return mounts.find(target, storage).storage !== storage
}

async function transfer(
  access: Access,
  asked: Asked,
  options: UntilRevoked,
  event: EventDraft,
): Promise<TransferResult> {
  const { kind, resolve } = asked
  const paths = kind === 'move' ? await pathsOnOneStorage(access, asked, options) : undefined
  let checked = { done: { created: false } } as TransferCheck
  const change = access.change<TwoPaths>({
    options,
    resolve: async () => {
      const [source, target] = await resolve()
      assertTransferPaths(access, kind, source, target.at, options)
      return [{ at: source }, target]
    },
    named: () => paths,
    tree: true,
    load: ['symlink', 'target'],
    subject: 'first',
    require: async (source, target) => {
      checked = await checkTransfer(access, kind, source, target, options)
      isAbout(event, checked)
    },
    touches: () => ('done' in checked ? [] : touchedBy(checked)),
  })
  if (paths) {
    const isDone = await change.perform(() => moveAtOnce(access, checked, change.signal ?? options.signal))
    return complete(access, checked, isDone)
  }
  await change.check()
  await assertReplaced(access, checked)
  return complete(access, checked, false)
}

/** The event of a transfer. */
function isAbout(event: EventDraft, checked: TransferCheck): void {
  if ('done' in checked) {
    event.changesNothing = checked.moved === undefined
    return
  }
  const { source, target, entry, to } = checked
  event.changesNothing = false
  event.path = source
  event.target = target
  event.entry = entry.kind
  event.size = entry.kind === 'file' ? entry.size : undefined
  event.storage = to.storage.mountPoint
}

/** The paths of a move that the backend may make: `named`, or as they are resolved. Undefined for all other moves. */
async function pathsOnOneStorage(access: Access, { resolve, named }: Asked, options: TransferOptions) {
  const paths = named?.()
  if (paths && mayMoveByBackend(access, ...paths, options)) return paths
  const [source, { at: target }] = await resolve()
  return mayMoveByBackend(access, source, target, options) ? ([source, target] as const) : undefined
}

/** Whether both paths are on one storage, and no earlier run has started to copy item by item. */
function mayMoveByBackend(access: Access, source: Path, target: Path, { merge, journal }: TransferOptions): boolean {
  const { mounts } = access.dependencies
  if (merge === true || journal?.resumes === true || mounts.isMountFolder(source) || mounts.isMountFolder(target))
    return false
  const { storage } = mounts.find(source)
  return mounts.find(target, storage).storage === storage
}

/** Copies or moves item by item, unless the backend has done it. */
async function complete(access: Access, checked: TransferCheck, isDone: boolean): Promise<TransferResult> {
  if ('done' in checked) {
    const { done, moved } = checked
    if (moved) {
      const [source, target] = moved
      await followWhole(access.dependencies, { kind: 'move', source, target }, true, access.principal.userId)
    }
    return done
  }
  const { old, respells } = checked
  if (!isDone && respells) {
    throw new GatewayError('unsupported', { reason: 'this storage cannot change the spelling of a name' })
  }
  if (!isDone) await itemByItem(access, checked)
  return { created: !old }
}

/**
 * Renames by one call of the backend, while the path locks of both paths are held. An old target that the backend
 * cannot replace is moved to a backup during the call. Resolves to false if the backend cannot rename.
 */
async function moveAtOnce(access: Access, transfer: TransferCheck, signal: AbortSignal): Promise<boolean> {
  if ('done' in transfer) return false
  await assertReplaced(access, transfer)
  const { source, target, from, to, entry, old, continues, options } = transfer
  if (from.storage !== to.storage || continues) return false
  if (isRealFolder(entry) && parentOf(source) !== parentOf(target)) {
    await authorizeMovedSymlinks(access, from, target, { ...options, signal })
  }
  // A file replaces a file in one call. For everything else the name must be free.
  const replaces = old !== undefined && (old.kind === 'folder' || entry.kind === 'folder')
  if (replaces) await access.dependencies.intents.beforeReplacement(to)
  if (transfer.replacesEmptyFolder) return moveOverEmptyFolder(access, transfer, signal)
  const backup = replaces ? await access.dependencies.intents.moveToBackup(to, signal) : undefined
  if (replaces && !backup) return false
  try {
    return await renameByBackend(access.dependencies, from, to, replaces, { signal })
  } finally {
    await backup?.restoreOrDiscard()
  }
}

/**
 * Moves a folder over an empty folder, as `moveAtOnce` does. The backend removes the old folder only if it is empty, so
 * no backup is needed. What is recorded about the old folder is replaced with the rename.
 */
async function moveOverEmptyFolder(
  access: Access,
  { from, to }: CheckedTransfer,
  signal: AbortSignal,
): Promise<boolean> {
  await to.storage.remove(to.inner, { signal })
  let isRenamed = false
  try {
    isRenamed = await renameByBackend(access.dependencies, from, to, true, { signal })
    return isRenamed
  } finally {
    // Best effort. If the rename has taken effect although it was rejected, the name is taken.
    if (!isRenamed) await to.storage.mkdir(to.inner).catch(() => undefined)
  }
}

async function itemByItem(access: Access, checked: CheckedTransfer): Promise<void> {
  const { kind, source, target, from, to, old, continues, options } = checked
  const { intents, store } = access.dependencies
  const { properties } = store
  const { userId } = access.principal
  await options.beforeItems?.()
  if (kind === 'copy' && (await properties.hasWithin(source)))
    await properties.assertRoom(userId, maxUserPropertiesSize)
  const transfer = {
    ...checked,
    deep: kind === 'move' || options.deep !== false,
    // A member that others add to the empty folder meanwhile is not removed.
    merge: options.merge === true || checked.replacesEmptyFolder,
    // As 'same kind' does not replace a folder with members, it replaces nothing in one.
    overwrite: options.overwrite === 'same kind' ? !isFolder(old) : options.overwrite,
    holder: access.principal.holder,
    meter: new TransferMeter(access.dependencies.events, access.principal.protocol.name),
    journal: options.journal ?? (await journalOf(access, checked)),
  }
  if (kind === 'move') access.decisions.assertMayMoveByItems(source, target)
  const moveId = Symbol('move')
  const job = new TransferJob(access.forMove(moveId), transfer)
  // The rules and grants of the source apply at the target too: each item is there before they are stored.
  const { followers } = access.dependencies
  const endMove =
    kind === 'move' ? await followers.duringMoveByItems(source, target, moveId, checked.signal) : undefined
  let whole = false
  let hasFollowed = false
  try {
    if (continues) await intents.beginRemoval(from, to)
    else if (old && options.overwrite !== false && options.merge !== true) await intents.beforeReplacement(to)
    await (kind === 'copy' ? copyTree(job) : intents.whileMoving(from, to, () => moveTree(job)))
    whole = !transfer.merge
  } finally {
    try {
      // The properties of what a copy leaves out are not copied either.
      const followsWhole = whole && !(kind === 'copy' && job.hasExcluded)
      if (followsWhole) await followWhole(access.dependencies, checked, options.deep !== false, userId)
      else await followItems(access.dependencies, checked, transfer.journal, userId)
      hasFollowed = true
      if (whole && !followsWhole) await access.dependencies.locks.dropWithin(checked.target, false)
    } finally {
      await endMove?.(whole && !hasFollowed)
    }
  }
}

/**
 * The journal of a transfer within a request. A move asks for the states of all sources before it removes them, a copy
 * only which members it has copied, to copy their properties (`followItems`).
 */
async function journalOf({ dependencies }: Access, { kind, source, target }: CheckedTransfer): Promise<CopyJournal> {
  if (kind === 'move') return new MemoryJournal('states')
  const hasProperties = await dependencies.store.properties.hasWithin(source, target)
  return new MemoryJournal(hasProperties ? 'members' : 'nothing')
}

/** The names that a transfer changes. */
function touchedBy({ kind, source, target, entry, old }: CheckedTransfer): readonly LockedPath[] {
  const replaced = { path: target, tree: old?.kind === 'folder', membership: !old }
  return kind === 'copy' ? [replaced] : [{ path: source, tree: isRealFolder(entry), membership: true }, replaced]
}
