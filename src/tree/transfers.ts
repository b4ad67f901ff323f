/**
 * Moves and copies within the tree. All checks are made first. A move is then one call of the backend under path locks,
 * if the backend can; everything else is done item by item. Properties, rules and locks follow.
 */
import { isSymlink, isRealFolder, type Entry } from '../contract/entry.js'
import { GatewayError, nameTaken } from '../base/errors.js'
import { checkName, nameOf, parentOf, type Path } from '../base/path.js'
import type { EntryOptions, MountedTree, ResolvedPath } from '../mounts/mounted-tree.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { TransferMeter } from '../storage/transfer-meter.js'
import { copyTree, moveTree } from '../transfer/copy.js'
import type { Access } from './access.js'
import { Change, type ChangeScope, type Target, type TwoPaths } from './change.js'
import type { TreeDependencies } from './dependencies.js'
import { followItems, followWhole, renameByBackend } from './follow-up.js'
import type { LockedPath } from '../locks/webdav-locks.js'
import type { TransferResult } from './operation-options.js'
import { TransferJob, type Transfer, type TransferOptions } from './transfer-job.js'

type Kind = Transfer['kind']

/** `done`: there is nothing to copy or move. */
type CheckedTransfer = Transfer | { readonly done: TransferResult }

export class Transfers {
  constructor(
    private readonly dependencies: Pick<
      TreeDependencies,
      'mounts' | 'rules' | 'locks' | 'store' | 'transferSlots' | 'inPlaceHandles' | 'intents' | 'log'
    >,
    private readonly access: Access,
    private readonly tree: MountedTree,
    private readonly scope: ChangeScope,
    private readonly meter: TransferMeter,
  ) {}

  /**
   * `resolve` authorizes source and target and follows their symlinks; it is called for each check. `named`: as in
   * `ChangePlan`. Rejects with TreeError if only a part could be copied or moved.
   */
  async transfer(
    kind: Kind,
    resolve: () => Promise<readonly [source: Path, target: ResolvedPath]>,
    options: Transfer['options'],
    named?: () => readonly [source: Path, target: Path] | undefined,
  ): Promise<TransferResult> {
    const paths = kind === 'move' ? await this.#pathsOnOneStorage(named?.(), resolve, options) : undefined
    let checked = { done: { created: false } } as CheckedTransfer
    const change = new Change<TwoPaths>(this.scope, {
      options,
      resolve: async () => {
        const [source, target] = await resolve()
        this.#assertPaths(kind, source, target.at, options)
        return [{ at: source, look: undefined }, target]
      },
      named: () => paths,
      tree: true,
      load: ['symlink', 'target'],
      subject: 'first',
      require: async (source, target) => {
        checked = await this.#check(kind, source, target, options)
      },
      touches: () => ('done' in checked ? [] : touchedBy(checked)),
    })
    if (paths) {
      const isDone = await change.underLocks(() => this.#moveAtOnce(checked, change.signal ?? options.signal))
      return this.#complete(checked, isDone)
    }
    await change.check()
    await this.#assertReplaced(checked)
    return this.#complete(checked, false)
  }

  /** The paths of a move that the backend may make: `named`, or as they are resolved. Undefined for all other moves. */
  async #pathsOnOneStorage(
    named: readonly [source: Path, target: Path] | undefined,
    resolve: () => Promise<readonly [source: Path, target: ResolvedPath]>,
    options: TransferOptions,
  ): Promise<readonly [source: Path, target: Path] | undefined> {
    if (named && this.#mayMoveByBackend(...named, options)) return named
    const [source, { at: target }] = await resolve()
    return this.#mayMoveByBackend(source, target, options) ? [source, target] : undefined
  }

  /** Whether both paths are on one storage, and no earlier run has started to copy item by item. */
  #mayMoveByBackend(source: Path, target: Path, { merge, journal }: TransferOptions): boolean {
    const { mounts } = this.dependencies
    if (merge === true || journal?.resumes === true || mounts.isMountFolder(source) || mounts.isMountFolder(target))
      return false
    const { storage } = mounts.find(source)
    return mounts.find(target, storage).storage === storage
  }

  /** Copies or moves item by item, unless the backend has done it. */
  async #complete(checked: CheckedTransfer, isDone: boolean): Promise<TransferResult> {
    if ('done' in checked) return checked.done
    const { old, respells } = checked
    if (!isDone && respells) {
      throw new GatewayError('unsupported', { reason: 'this storage cannot change the spelling of a name' })
    }
    if (!isDone) await this.#itemByItem(checked)
    return { created: !old }
  }

  // Checks

  /** What can be refused by the paths alone. */
  #assertPaths(kind: Kind, source: Path, target: Path, { journal }: TransferOptions): void {
    // A transfer that an earlier run started must not continue on the storage that is mounted above.
    if (journal?.resumes === true && this.dependencies.mounts.isDisabled(target)) {
      throw new GatewayError('unavailable', { reason: 'the storage is disabled' })
    }
    if (nameOf(source) !== nameOf(target)) this.access.assertAllowedName(target)
    if (kind === 'move') this.access.assertMovable(source, 'mount_moved')
  }

  /** One check of source and target. */
  async #check(kind: Kind, source: Target, target: Target, options: Transfer['options']): Promise<CheckedTransfer> {
    const { signal } = options
    const { entry } = source
    if (!entry) {
      if (kind === 'copy' || !(await this.#wasMoved(source.at, options))) throw new GatewayError('not_found')
      await followWhole(this.dependencies, { kind, source: source.at, target: target.at }, true, this.#userId)
      return { done: { created: true } }
    }
    if (source.at === target.at) return { done: { created: false } }
    const from = { storage: source.storage, inner: source.inner }
    const respells = (await this.tree.canonicalPath(target.at, { signal })) === source.at
    // In another case, the name is that of the source itself.
    const old = respells ? undefined : target.entry
    const continues = kind === 'move' && (await this.#continues(from, target, entry, old, options))
    this.#assertReplaceable(source.at, target.at, entry, old, continues, options, kind)
    if (parentOf(target.at) !== parentOf(source.at)) {
      await this.#assertFolder(parentOf(target.at), { signal, preferred: target.chosen })
    }
    const to = { storage: target.storage, inner: target.inner }
    const paths = { source: source.at, target: target.at }
    const replacesEmptyFolder =
      options.overwrite === 'same kind' && old !== undefined && isRealFolder(old) && !continues
    const found = { entry, old, respells, continues, replacesEmptyFolder }
    const transfer: Transfer = { kind, ...paths, from, to, ...found, options }
    await this.#assertSymlinkMayMove(transfer)
    return transfer
  }

  get #userId(): number {
    return this.access.principal.userId
  }

  /** Whether an earlier run had moved everything, but was interrupted before it reported that. */
  async #wasMoved(source: Path, { journal }: TransferOptions): Promise<boolean> {
    return journal?.resumes === true && (await journal.copied(source)) !== undefined
  }

  /** Only within one storage: at the path of a target elsewhere, another storage may be mounted now. */
  async #continues(
    from: MountedPath,
    to: Target,
    entry: Entry,
    old: Entry | undefined,
    { merge, journal, signal }: TransferOptions & { readonly signal: AbortSignal },
  ): Promise<boolean> {
    if (from.storage !== to.chosen || merge === true || journal?.resumes === true) return false
    if (!isRealFolder(entry) || !old || !isRealFolder(old)) return false
    return this.dependencies.intents.continues(from, to, signal)
  }

  async #assertFolder(at: Path, options: EntryOptions): Promise<void> {
    const entry = await this.tree.entryOrUndefined(at, options)
    if (!entry) throw new GatewayError('parent_missing')
    if (entry.kind !== 'folder') throw new GatewayError('not_folder')
  }

  /** `old`: the entry at the target. */
  #assertReplaceable(
    source: Path,
    target: Path,
    entry: Entry,
    old: Entry | undefined,
    continues: boolean,
    options: TransferOptions,
    kind: Kind,
  ): void {
    // The target may have been created by an earlier run: each item is checked.
    const isOwn = continues || options.journal?.resumes === true
    const isTaken = old && !options.overwrite && options.merge !== true && !isOwn
    if (isTaken === true) throw nameTaken(nameOf(target))
    if (old && options.overwrite === 'same kind') assertSameKind(entry, old)
    if (!old) checkName(nameOf(target))
    this.access.assertReplaceable(source, target, isRealFolder(entry))
    const replaced = options.overwrite !== false && options.merge !== true ? old : undefined
    if (replaced?.kind === 'folder') {
      this.access.authorize('remove', target, options)
      this.access.authorizeBelow('remove', target, options)
    }
    // To replace a file is to overwrite it.
    if (replaced && replaced.kind !== 'folder') this.access.authorize('write', target, options)
    if (isRealFolder(entry)) this.access.authorizeBelow(kind, source, options)
    // A rule above the source does not move with it.
    if (isRealFolder(entry) && kind === 'move') this.access.assertStaysHidden(source, target)
  }

  async #assertSymlinkMayMove({ kind, source, target, from, to, entry, options }: Transfer): Promise<void> {
    if (!isSymlink(entry) || parentOf(source) === parentOf(target)) return
    const text = await from.storage.readSymlink(from.inner, { signal: options.signal })
    const { mountPoint } = to.storage
    if (kind === 'move' || mountPoint === from.storage.mountPoint)
      await this.access.symlinks.authorizeMoved(mountPoint, target, text, options)
  }

  /** The last part of a check, which may list what is replaced. */
  async #assertReplaced(checked: CheckedTransfer): Promise<void> {
    if ('done' in checked) return
    const { to, old, options } = checked
    if (old && isRealFolder(old) && options.overwrite !== false && options.merge !== true) {
      await this.access.assertAllVisible(to.storage, to.inner, options.signal)
    }
    if (checked.replacesEmptyFolder) await assertEmpty(to, options.signal)
  }

  // In one step

  /**
   * Renames by one call of the backend, while the path locks of both paths are held. An old target that the backend
   * cannot replace is moved to a backup during the call. Resolves to false if the backend cannot rename.
   */
  async #moveAtOnce(transfer: CheckedTransfer, signal: AbortSignal): Promise<boolean> {
    if ('done' in transfer) return false
    await this.#assertReplaced(transfer)
    const { source, target, from, to, entry, old, continues, options } = transfer
    if (from.storage !== to.storage || continues) return false
    if (isRealFolder(entry) && parentOf(source) !== parentOf(target)) {
      await this.access.symlinks.authorizeAllMoved(from, target, { ...options, signal })
    }
    // A file replaces a file in one call. For everything else the name must be free.
    const replaces = old !== undefined && (old.kind === 'folder' || entry.kind === 'folder')
    if (replaces) await this.dependencies.intents.beforeReplacement(to)
    if (transfer.replacesEmptyFolder) return this.#moveOverEmptyFolder(transfer, signal)
    const backup = replaces ? await this.dependencies.intents.moveToBackup(to, signal) : undefined
    if (replaces && !backup) return false
    try {
      return await renameByBackend(this.dependencies, from, to, replaces, { signal })
    } finally {
      await backup?.restoreOrDiscard()
    }
  }

  /**
   * As `#moveAtOnce`. The backend removes the old folder only if it is empty, so no backup is needed. What is recorded
   * about the old folder is replaced with the rename.
   */
  async #moveOverEmptyFolder({ from, to }: Transfer, signal: AbortSignal): Promise<boolean> {
    await to.storage.remove(to.inner, { signal })
    let isRenamed = false
    try {
      isRenamed = await renameByBackend(this.dependencies, from, to, true, { signal })
      return isRenamed
    } finally {
      // Best effort. If the rename has taken effect although it was rejected, the name is taken.
      if (!isRenamed) await to.storage.mkdir(to.inner).catch(() => undefined)
    }
  }

  // Item by item

  async #itemByItem(transfer: Transfer): Promise<void> {
    const { kind, source, from, to, old, continues, options } = transfer
    const { intents, store } = this.dependencies
    const { properties } = store
    if (kind === 'copy' && (await properties.hasWithin(source))) await properties.assertRoom(this.#userId)
    const job = new TransferJob(this.dependencies, this.access, this.scope, this.meter, transfer)
    let whole = false
    try {
      if (continues) await intents.beginRemoval(from, to)
      else if (old && options.overwrite !== false && options.merge !== true) await intents.beforeReplacement(to)
      await (kind === 'copy' ? copyTree(job) : intents.whileMoving(from, to, () => moveTree(job)))
      whole = !job.merge
    } finally {
      if (whole) await followWhole(this.dependencies, transfer, options.deep !== false, this.#userId)
      else await followItems(this.dependencies, transfer, job.journal, this.#userId)
    }
  }
}

/** The names that a transfer changes. */
function touchedBy({ kind, source, target, entry, old }: Transfer): readonly LockedPath[] {
  const replaced = { path: target, tree: old?.kind === 'folder', membership: !old }
  return kind === 'copy' ? [replaced] : [{ path: source, tree: isRealFolder(entry), membership: true }, replaced]
}

function assertSameKind(entry: Entry, old: Entry): void {
  if (isRealFolder(entry) && !isRealFolder(old))
    throw new GatewayError('not_folder', { reason: 'a folder can replace only a folder' })
  if (!isRealFolder(entry) && isRealFolder(old))
    throw new GatewayError('is_folder', { reason: 'only a folder can replace a folder' })
}

async function assertEmpty({ storage, inner }: MountedPath, signal: AbortSignal): Promise<void> {
  for await (const page of storage.pages(inner, { signal, refresh: true })) {
    if (page.length > 0) throw new GatewayError('not_empty', { reason: 'the folder to be replaced is not empty' })
  }
}
