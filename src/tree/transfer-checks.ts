/** The requirements of a move or a copy on its source and its target. Paths are of the whole tree. */
import { isSymlink, isRealFolder, type Entry } from '../contract/entry.js'
import { GatewayError, nameTaken } from '../base/errors.js'
import { checkName, nameOf, parentOf, type Path } from '../base/path.js'
import type { EntryOptions } from '../mounts/mounted-tree.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { Access } from './access.js'
import type { Target } from './change.js'
import type { TransferResult } from './operation-options.js'
import { authorizeMovedSymlink, followSymlinks } from './symlinks.js'
import type { CheckedTransfer, TransferOptions } from './transfer-job.js'
import { assertAllVisible, authorizeBelow } from './whole-trees.js'

export type TransferKind = CheckedTransfer['kind']

export type UntilRevoked = TransferOptions & { readonly signal: AbortSignal }

/**
 * `done`: there is nothing to copy or move. `moved`: an earlier run has moved this; only what follows a move is still
 * to be done.
 */
export type TransferCheck =
  CheckedTransfer | { readonly done: TransferResult; readonly moved?: readonly [source: Path, target: Path] }

/** Returns the actions of a move on its source. */
export function leavingActions(source: Path, target: Path): readonly ('move' | 'rename')[] {
  if (parentOf(source) === parentOf(target)) return ['rename']
  return nameOf(source) === nameOf(target) ? ['move'] : ['move', 'rename']
}

/** Returns the action of a move at its target. */
export function arrivingAction(source: Path, target: Path): 'rename to' | 'receive' {
  return parentOf(source) === parentOf(target) ? 'rename to' : 'receive'
}

/** Makes those checks of a move or a copy that depend on the paths alone. Throws if one fails. */
export function assertTransferPaths(
  access: Access,
  kind: TransferKind,
  source: Path,
  target: Path,
  { journal }: TransferOptions,
): void {
  // A transfer that an earlier run started must not continue on the storage that is mounted above.
  if (journal?.resumes === true && access.dependencies.mounts.isDisabled(target)) {
    throw new GatewayError('unavailable', { reason: 'the storage is disabled' })
  }
  if (nameOf(source) !== nameOf(target)) access.decisions.assertAllowedName(target)
  if (kind === 'move') access.decisions.assertMovable(source, 'mount_moved')
}

/** One check of source and target. Changes nothing. */
export async function checkTransfer(
  access: Access,
  kind: TransferKind,
  source: Target,
  target: Target,
  options: UntilRevoked,
): Promise<TransferCheck> {
  const { signal } = options
  const { entry } = source
  if (!entry) {
    const { journal } = options
    // An earlier run had moved everything, but was interrupted before it reported that.
    const wasMoved = kind === 'move' && journal?.resumes === true && (await journal.copied(source.at)) !== undefined
    if (!wasMoved) throw new GatewayError('not_found')
    return { done: { created: true }, moved: [source.at, target.at] }
  }
  if (source.at === target.at) return { done: { created: false } }
  const from = { storage: source.storage, inner: source.inner }
  const respells = (await access.tree.canonicalPath(target.at, { signal })) === source.at
  // In another case, the name is that of the source itself.
  const old = respells ? undefined : target.entry
  const continues = kind === 'move' && (await continuesEarlier(access, from, target, entry, old, options))
  const transfer: CheckedTransfer = {
    kind,
    source: source.at,
    target: target.at,
    from,
    to: { storage: target.storage, inner: target.inner },
    entry,
    old,
    respells,
    continues,
    replacesEmptyFolder: options.overwrite === 'same kind' && isFolder(old) && !continues,
    options,
    signal,
  }
  // A copy to a symlink replaces its target. The answer must not depend on what is there.
  if (kind === 'copy' && old && isSymlink(old) && !isSymlink(entry)) {
    await followSymlinks(access, 'receive', access.place(target.at), options, { last: true })
  }
  assertReplaceable(access, transfer)
  if (parentOf(target.at) !== parentOf(source.at)) {
    await assertFolder(access, parentOf(target.at), { signal, preferred: target.chosen })
  }
  await assertSymlinkMayMove(access, transfer)
  return transfer
}

/**
 * Whether a move continues an earlier one, within one storage. At the path of a target elsewhere, another storage may
 * be mounted now.
 */
async function continuesEarlier(
  access: Access,
  from: MountedPath,
  to: Target,
  entry: Entry,
  old: Entry | undefined,
  { merge, journal, signal }: UntilRevoked,
): Promise<boolean> {
  if (from.storage !== to.chosen || merge === true || journal?.resumes === true) return false
  if (!isRealFolder(entry) || !old || !isRealFolder(old)) return false
  return access.dependencies.intents.continues(from, to, signal)
}

function assertReplaceable(access: Access, checked: CheckedTransfer): void {
  const { kind, source, target, entry, old, continues, options } = checked
  // The target may have been created by an earlier run: each item is checked.
  const isOwn = continues || options.journal?.resumes === true
  const isTaken = old && !options.overwrite && options.merge !== true && !isOwn
  if (isTaken === true) throw nameTaken(nameOf(target))
  if (old && options.overwrite === 'same kind') assertSameKind(entry, old)
  if (!old) checkName(nameOf(target))
  access.decisions.assertReplaceable(source, target, isRealFolder(entry))
  const replaced = options.overwrite !== false && options.merge !== true ? old : undefined
  if (replaced?.kind === 'folder') {
    access.decisions.authorize('remove', target, options)
    authorizeBelow(access, 'remove', target, options)
  }
  // The replacement of a file counts as overwriting it.
  if (replaced && replaced.kind !== 'folder') access.decisions.authorize('write', target, options)
  const actions = kind === 'copy' ? ([kind] as const) : leavingActions(source, target)
  if (isRealFolder(entry)) authorizeBelow(access, kind, source, options, actions)
  if (kind === 'copy') return
  access.decisions.assertMayLand(actions, source, target, isRealFolder(entry))
  // A rule above the source does not move with it.
  if (isRealFolder(entry)) access.decisions.assertStaysHidden(source, target)
}

async function assertSymlinkMayMove(
  access: Access,
  { kind, source, target, from, to, entry, options, signal }: CheckedTransfer,
): Promise<void> {
  if (!isSymlink(entry) || parentOf(source) === parentOf(target)) return
  const text = await from.storage.readSymlink(from.inner, { signal })
  const { mountPoint } = to.storage
  if (kind === 'move' || mountPoint === from.storage.mountPoint)
    await authorizeMovedSymlink(access, mountPoint, target, text, options)
}

async function assertFolder(access: Access, at: Path, options: EntryOptions): Promise<void> {
  const entry = await access.tree.entryOrUndefined(at, options)
  if (!entry) throw new GatewayError('parent_missing')
  if (entry.kind !== 'folder') throw new GatewayError('not_folder')
}

function assertSameKind(entry: Entry, old: Entry): void {
  if (isRealFolder(entry) && !isRealFolder(old))
    throw new GatewayError('not_folder', { reason: 'a folder can replace only a folder' })
  if (!isRealFolder(entry) && isRealFolder(old))
    throw new GatewayError('is_folder', { reason: 'only a folder can replace a folder' })
}

/** The last part of a check, which may list what is replaced. */
export async function assertReplaced(access: Access, checked: TransferCheck): Promise<void> {
  if ('done' in checked) return
  const { to, old, options, signal } = checked
  if (old && isRealFolder(old) && options.overwrite !== false && options.merge !== true) {
    await assertAllVisible(access, to.storage, to.inner, signal)
  }
  if (checked.replacesEmptyFolder) await assertEmpty(to, signal)
}

async function assertEmpty({ storage, inner }: MountedPath, signal: AbortSignal): Promise<void> {
  for await (const page of storage.pages(inner, { signal, refresh: true })) {
    if (page.length > 0) throw new GatewayError('not_empty', { reason: 'the folder to be replaced is not empty' })
  }
}

export function isFolder(entry: Entry | undefined): boolean {
  return entry !== undefined && isRealFolder(entry)
}
