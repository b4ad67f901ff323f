/**
 * Moves and copies within the tree. All checks are made first. A move is then one call of the backend under path locks,
 * if the backend can; everything else is done item by item. Properties, rules and locks follow.
 */
import { isSymlink, isRealFolder, type Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError, nameTaken } from '../base/errors.js'
import { failureDetails, logInternal } from '../base/log.js'
import { checkName, childOf, isWithin, nameOf, parentOf, root, under, within, type Path } from '../base/path.js'
import type { SkippedNames } from '../storage/listable-names.js'
import type { EntryOptions, MountedTree, ResolvedPath } from '../mounts/mounted-tree.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { Storage } from '../storage/storage.js'
import type { TransferMeter } from '../storage/transfer-meter.js'
import { MemoryJournal, type CopyJob, type CopyJournal, type PublishOptions } from '../transfer/copy-job.js'
import { copyTree, moveTree } from '../transfer/copy.js'
import type { Access } from './access.js'
import type { TreeDependencies } from './dependencies.js'
import { renameByBackend } from './follow-up.js'
import { HeldPathLocks, type PathClaim } from '../locks/path-locks.js'
import type { LockedPath } from '../locks/webdav-locks.js'
import { areSamePaths, assertPreconditionsOf, assertUnlocked, symlinkChanged, type ChangeScope } from './change.js'
import type { AccessOptions, ChangeOptions, TransferResult } from './operation-options.js'

export interface TransferOptions extends ChangeOptions {
  /**
   * false: rejects with `exists` if the target exists. 'same kind': as rename(2), a folder replaces only an empty
   * folder, and anything else only what is no folder. Both must hold when the target is replaced.
   */
  readonly overwrite: boolean | 'same kind'
  /** false: copies a folder without its members (Depth 0 of WebDAV). */
  readonly deep?: boolean | undefined
  /** Enters existing target folders, and leaves existing files in them unchanged. */
  readonly merge?: boolean | undefined
  /** For a task: the transfer may have been started by an earlier run. */
  readonly journal?: CopyJournal | undefined
  /** Called with the number of bytes that are done; negative for bytes of an item that failed. */
  readonly advance?: ((bytes: number) => void) | undefined
  /** Called for each source folder with names that are omitted because no path can hold them. */
  readonly onSkippedNames?: ((folder: Path, skipped: SkippedNames) => void) | undefined
  /** Called for each source folder whose time and mode could not be set on its copy. */
  readonly onAttributesLost?: ((folder: Path, error: GatewayError) => void) | undefined
}

type Kind = 'move' | 'copy'

/** A transfer that has passed its checks. Paths are of the whole tree. */
interface Transfer {
  readonly kind: Kind
  readonly source: Path
  readonly target: Path
  readonly from: MountedPath
  readonly to: MountedPath
  /** The source; of a symlink itself. */
  readonly entry: Entry
  /** The target is another spelling of the source. */
  readonly respells: boolean
  /** The entry at the target; undefined also if that is the source itself. */
  readonly old: Entry | undefined
  /** An earlier move has made the target, and was not completed. */
  readonly continues: boolean
  readonly options: TransferOptions & { readonly signal: AbortSignal }
}

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
    options: TransferOptions & { readonly signal: AbortSignal },
    named?: () => readonly [source: Path, target: Path] | undefined,
  ): Promise<TransferResult> {
    const expected = named?.()
    if (expected && this.#mayMoveByBackend(...expected, options)) {
      const transfer = await this.#moveByBackend(expected, resolve, options)
      if (transfer) return this.#complete(...transfer)
    }
    const [source, target] = await resolve()
    if (kind === 'copy' || !this.#mayMoveByBackend(source, target.at, options)) {
      return this.#complete(await this.#check(kind, source, target, options), false)
    }
    const transfer = await this.#moveByBackend([source, target.at], resolve, options)
    if (!transfer) throw symlinkChanged()
    return this.#complete(...transfer)
  }

  /**
   * Checks a move and lets the backend make it, under the path locks of `paths`. Resolves to the move and whether it is
   * done; to undefined if symlinks lead from these paths to others.
   */
  async #moveByBackend(
    paths: readonly [source: Path, target: Path],
    resolve: () => Promise<readonly [source: Path, target: ResolvedPath]>,
    options: TransferOptions & { readonly signal: AbortSignal },
  ): Promise<readonly [CheckedTransfer, isDone: boolean] | undefined> {
    const claims = paths.map((path) => ({ path, tree: true }))
    const locks = new HeldPathLocks(this.scope.pathLocks, options.signal)
    return locks.during(async () => {
      await locks.take(claims)
      const [source, target] = await resolve()
      if (!areSamePaths(paths, [source, target.at])) return undefined
      const checked = await this.#check('move', source, target, options)
      return [
        checked,
        !('done' in checked) && (await this.#moveAtOnce(checked, locks.signal ?? options.signal)),
      ] as const
    })
  }

  /** Copies or moves item by item, unless the backend has done it. */
  async #complete(checked: CheckedTransfer, isDone: boolean): Promise<TransferResult> {
    if ('done' in checked) return checked.done
    const { old, respells, options } = checked
    if (!isDone && respells) {
      throw new GatewayError('unsupported', { reason: 'this storage cannot change the spelling of a name' })
    }
    if (!isDone) await this.#itemByItem(checked, options.signal)
    return { created: !old }
  }

  /** Whether both paths are on one storage, and no earlier run has started to copy item by item. */
  #mayMoveByBackend(source: Path, target: Path, { merge, journal }: TransferOptions): boolean {
    const { mounts } = this.dependencies
    if (merge === true || journal?.resumes === true || mounts.isMountFolder(source) || mounts.isMountFolder(target))
      return false
    const { storage } = mounts.find(source)
    return mounts.find(target, storage).storage === storage
  }

  /** One check of source and target. */
  async #check(
    kind: Kind,
    source: Path,
    { at: target, look }: ResolvedPath,
    options: TransferOptions & { readonly signal: AbortSignal },
  ): Promise<CheckedTransfer> {
    // A transfer that an earlier run started must not continue on the storage that is mounted above.
    if (options.journal?.resumes === true && this.dependencies.mounts.isDisabled(target)) {
      throw new GatewayError('unavailable', { reason: 'the storage is disabled' })
    }
    if (nameOf(source) !== nameOf(target)) this.access.assertAllowedName(target)
    if (kind === 'move') this.access.assertMovable(source, 'mount_moved')
    const from = this.dependencies.mounts.find(source)
    const entry = await from.storage
      .stat(from.inner, { signal: options.signal, ofSymlink: true })
      .catch(async (error: unknown) => {
        if (kind === 'move' && (await this.#wasMoved(source, options, error))) return undefined
        throw error
      })
    if (!entry) {
      await this.#followWhole(source, target, 'move', true)
      return { done: { created: true } }
    }
    if (source === target) return { done: { created: false } }
    const respells = (await this.tree.canonicalPath(target, { signal: options.signal })) === source
    const place = this.tree.locateIfRunning(target, from.storage)
    const seen = { signal: options.signal, preferred: place?.storage }
    // In another case, the name is that of the source itself.
    const old = respells ? undefined : look ? look.entry : await this.tree.entryOrUndefined(target, seen)
    const continues = kind === 'move' && (await this.#continues(from, place, entry, old, options))
    this.#assertReplaceable(source, target, entry, old, continues, options, kind)
    if (parentOf(target) !== parentOf(source)) await this.#assertFolder(parentOf(target), seen)
    const to = place ?? this.dependencies.mounts.find(target, from.storage)
    const touches: LockedPath[] = [{ path: target, tree: old?.kind === 'folder', membership: !old }]
    if (kind === 'move') touches.unshift({ path: source, tree: isRealFolder(entry), membership: true })
    const transfer: Transfer = { kind, source, target, from, to, entry, old, respells, continues, options }
    await this.#assertSymlinkMayMove(transfer)
    await assertPreconditionsOf(this.scope, source, entry, options)
    for (const touch of touches) await assertUnlocked(this.scope, touch, options)
    if (old && isRealFolder(old) && options.overwrite !== false && options.merge !== true) {
      await this.access.assertAllVisible(to.storage, to.inner, options.signal)
    }
    if (replacesEmptyFolder(transfer)) await assertEmpty(to, options.signal)
    return transfer
  }

  /** Only within one storage: at the path of a target elsewhere, another storage may be mounted now. */
  async #continues(
    from: MountedPath,
    to: MountedPath | undefined,
    entry: Entry,
    old: Entry | undefined,
    { merge, journal, signal }: TransferOptions & { readonly signal: AbortSignal },
  ): Promise<boolean> {
    if (from.storage !== to?.storage || merge === true || journal?.resumes === true) return false
    if (!isRealFolder(entry) || !old || !isRealFolder(old)) return false
    return this.dependencies.intents.continues(from, to, signal)
  }

  async #assertFolder(at: Path, options: EntryOptions): Promise<void> {
    const entry = await this.tree.entryOrUndefined(at, options)
    if (!entry) throw new GatewayError('parent_missing')
    if (entry.kind !== 'folder') throw new GatewayError('not_folder')
  }

  // Checks

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

  /** A relative symlink has another target in another folder. */
  async #assertSymlinkMayMove({ kind, source, target, from, to, entry, options }: Transfer): Promise<void> {
    if (!isSymlink(entry) || parentOf(source) === parentOf(target)) return
    const text = await from.storage.readSymlink(from.inner, { signal: options.signal })
    if (text.startsWith('/')) return
    const { mountPoint } = to.storage
    if (kind === 'move' || mountPoint === from.storage.mountPoint)
      await this.access.symlinks.authorizeNew(mountPoint, this.access.place(target), text, options)
  }

  /**
   * As `#assertSymlinkMayMove`, for all symlinks in a folder. Skipped for a principal who may read the whole storage.
   */
  async #assertSymlinksMayMove({ storage, inner }: MountedPath, target: Path, options: AccessOptions): Promise<void> {
    const { mountPoint } = storage
    if (this.access.movesAnySymlink(mountPoint)) return
    for await (const page of storage.pages(inner, { signal: options.signal })) {
      for (const member of page) {
        const [from, to] = [childOf(inner, member.name), childOf(target, member.name)]
        if (isSymlink(member)) {
          const text = await storage.readSymlink(from, { signal: options.signal })
          if (!text.startsWith('/'))
            await this.access.symlinks.authorizeNew(mountPoint, this.access.place(to), text, options)
        } else if (member.kind === 'folder') {
          await this.#assertSymlinksMayMove({ storage, inner: from }, to, options)
        }
      }
    }
  }

  // In one step

  /**
   * Renames by one call of the backend, while the path locks of both paths are held. An old target that the backend
   * cannot replace is moved to a backup during the call. Resolves to false if the backend cannot rename.
   */
  async #moveAtOnce(transfer: Transfer, signal: AbortSignal): Promise<boolean> {
    const { source, target, from, to, entry, old, continues, options } = transfer
    if (from.storage !== to.storage || continues) return false
    if (isRealFolder(entry) && parentOf(source) !== parentOf(target)) {
      await this.#assertSymlinksMayMove(from, target, { ...options, signal })
    }
    // A file replaces a file in one call. For everything else the name must be free.
    const replaces = old !== undefined && (old.kind === 'folder' || entry.kind === 'folder')
    if (replaces) await this.dependencies.intents.beforeReplacement(to)
    if (replacesEmptyFolder(transfer)) return this.#moveOverEmptyFolder(transfer, signal)
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

  /** Whether an earlier run had moved everything, but was interrupted before it reported that. */
  async #wasMoved(source: Path, { journal }: TransferOptions, error: unknown): Promise<boolean> {
    return (
      journal?.resumes === true && isGatewayError(error, 'not_found') && (await journal.copied(source)) !== undefined
    )
  }

  async #itemByItem(transfer: Transfer, signal: AbortSignal): Promise<void> {
    const { kind, source, target, from, to, old, continues, options } = transfer
    const { intents, store } = this.dependencies
    const { properties } = store
    if (kind === 'copy' && (await properties.hasWithin(source))) {
      await properties.assertRoom(this.access.principal.userId)
    }
    const job = this.#job(transfer, signal)
    let whole = false
    try {
      if (continues) await intents.beginRemoval(from, to)
      else if (old && options.overwrite !== false && options.merge !== true) await intents.beforeReplacement(to)
      await (kind === 'copy' ? copyTree(job) : intents.whileMoving(from, to, () => moveTree(job)))
      whole = !job.merge
    } finally {
      if (whole) await this.#followWhole(source, target, kind, options.deep !== false)
      else await this.#followItems(transfer, job)
    }
  }

  #job(transfer: Transfer, signal: AbortSignal): CopyJob {
    const { kind, source, target, from, to, entry, old, continues, options } = transfer
    const { transferSlots, inPlaceHandles, intents, log } = this.dependencies
    // One warning for each transfer: a backend that refuses one folder may refuse them all.
    let isLossLogged = false
    const moving = parentOf(source) === parentOf(target) ? 'rename' : 'move'
    return {
      from,
      to,
      signal,
      deep: options.deep !== false,
      // What others add to the empty folder meanwhile is not removed.
      merge: options.merge === true || replacesEmptyFolder(transfer),
      // As 'same kind' does not replace a folder with members, it replaces nothing in one.
      overwrite: options.overwrite === 'same kind' ? !(old && isRealFolder(old)) : options.overwrite,
      slots: transferSlots,
      holder: this.access.principal.holder,
      meter: this.meter,
      journal: options.journal ?? new MemoryJournal(),
      advance: (bytes) => options.advance?.(bytes),
      // The principal copies only what it can see.
      excludes: (path) => path !== source && this.access.isOmitted(path),
      onSkippedNames: (folder, { count, names }) => {
        const seen = names.filter((name) => !this.access.isOmitted(childOf(folder, name)))
        const seenCount = count - (names.length - seen.length)
        if (seenCount > 0)
          options.onSkippedNames?.(this.access.redaction.path(folder), { count: seenCount, names: seen })
      },
      onAttributesLost: (folder, error) => {
        logInternal(log, error, { path: folder })
        if (!isLossLogged && error.code !== 'internal')
          log.warn({ ...failureDetails(error), path: folder }, 'time and mode of a folder not copied')
        isLossLogged = true
        options.onAttributesLost?.(this.access.redaction.path(folder), error)
      },
      pauseHandles: (place) => inPlaceHandles.pause(place, signal),
      moveToBackup: (place) => intents.moveToBackup(place, signal),
      reserveBackup: (place) => intents.reserveBackup(place),
      remainders: () => intents.remaindersOn(from.storage),
      continues,
      makeTarget: (make) =>
        kind === 'move' && from.storage === to.storage ? intents.makeTarget(from, to, make) : make(),
      beginRemoval: async () => {
        if (isRealFolder(entry)) await intents.beginRemoval(from, to)
      },
      endRemoval: async () => {
        if (isRealFolder(entry)) await intents.endRemoval(from)
      },
      assertReadable: async (path) => {
        await this.access.symlinks.follow('read', this.access.place(path), options)
      },
      assertSymlinkAllowed: async (path, text) => {
        if (!text.startsWith('/'))
          await this.access.symlinks.authorizeNew(to.storage.mountPoint, this.access.place(path), text, options)
      },
      beforePublish: async (targets, asked) => {
        const paths = await Promise.all(targets.map((to) => this.tree.canonicalPath(to, { signal })))
        const claims = paths.map((path) => ({ path, tree: false }))
        const { result, release } = await this.#locked(claims, signal, () =>
          this.#refused(targets, paths, asked, { ...options, signal }),
        )
        return { refused: result, release }
      },
      beforeRemove: async (what, inner, tree) => {
        const { storage } = what === 'source' ? from : to
        // To replace a file is to overwrite it.
        const action = what === 'source' ? moving : what === 'extraneous' || tree ? 'remove' : 'write'
        const path = storage.treePath(inner)
        if (what === 'replaced' && tree && options.overwrite === 'same kind') throw new GatewayError('is_folder')
        const { release } = await this.#locked([{ path, tree }], signal, async () => {
          this.access.authorize(action, path, options)
          if (tree) this.access.authorizeBelow(action, path, options)
          await assertUnlocked(this.scope, { path, tree, membership: true }, options)
          if (tree) await this.access.assertAllVisible(storage, inner, signal)
          const isSource = what === 'source' && inner === from.inner
          await intents.beforeRemoval({ storage, inner }, isSource ? 'moved' : 'removed')
        })
        return release
      },
    }
  }

  /**
   * The errors of those `targets` that must not be published. `paths`: the targets in the storages' spelling. Rejects
   * with `busy` if a folder on the way has become a symlink.
   */
  async #refused(
    targets: readonly Path[],
    paths: readonly Path[],
    { replaces, isNew }: PublishOptions,
    options: TransferOptions,
  ): Promise<ReadonlyMap<Path, unknown>> {
    for (const folder of new Set(paths.map(parentOf)))
      await this.access.symlinks.assertNone('receive', this.access.place(folder), options, { last: true })
    const refused = new Map<Path, unknown>()
    for (const [index, path] of paths.entries()) {
      try {
        this.access.authorize('receive', path, options)
        await assertUnlocked(this.scope, { path, membership: isNew }, options)
        // A write to a symlink replaces its target.
        const named = this.access.place(path)
        const { at: real } = replaces
          ? await this.access.symlinks.follow('receive', named, options, { last: true })
          : named
        if (real !== path) await assertUnlocked(this.scope, { path: real }, options)
      } catch (error) {
        refused.set(targets[index] ?? path, error)
      }
    }
    return refused
  }

  /** Runs `check` under path locks. Resolves to what releases them, with its result. A rejection releases them. */
  async #locked<Result>(
    claims: readonly PathClaim[],
    signal: AbortSignal | undefined,
    check: () => Promise<Result>,
  ): Promise<{ readonly result: Result; readonly release: () => void }> {
    const release = await this.scope.pathLocks.acquire(claims, signal)
    try {
      return { result: await check(), release }
    } catch (error) {
      release()
      throw error
    }
  }

  /** Properties, rules and locks after a complete copy or move item by item: nothing of the old target remains. */
  async #followWhole(source: Path, target: Path, kind: Kind, deep: boolean): Promise<void> {
    const { store, locks } = this.dependencies
    if (!deep) await store.properties.delete(target)
    await this.#follow(source, target, kind, deep)
    await locks.dropWithin(target, false)
  }

  /** Properties; for a move, also rules and locks. `deep`: of everything below too. */
  async #follow(source: Path, target: Path, kind: Kind, deep: boolean): Promise<void> {
    const { store, locks, rules } = this.dependencies
    if (kind === 'copy') {
      await store.properties.copy(source, target, deep, this.access.principal.userId)
      return
    }
    await rules.updateSpelling(source)
    // Attributes are not moved: the write of the target has set them, the removal of the source has deleted them.
    await store.properties.move(source, target)
    await store.rules.move(source, target)
    await rules.reload()
    await locks.dropWithin(source, true)
  }

  /** As `#followWhole`, after an incomplete copy or move: for every path with records, on either side. */
  async #followItems({ kind, source, target, from }: Transfer, { journal }: CopyJob): Promise<void> {
    const { store, rules, locks } = this.dependencies
    const isDone = async (path: Path) => {
      if (!(await journal.copied(path))) return false
      return kind === 'copy' || (await isThere(from.storage, within(from.storage.mountPoint, path) ?? path)) === false
    }
    const targetFor = (path: Path) => under(target, within(source, path) ?? root)
    // The target first: records of its old files are deleted where the source has none.
    const sides = [
      [target, (path: Path) => under(source, within(target, path) ?? root)],
      [source, (path: Path) => path],
    ] as const
    for (const [top, sourceFor] of sides) {
      for await (const paths of store.properties.within(top)) {
        const done: [Path, Path][] = []
        for (const path of paths.map(sourceFor)) if (await isDone(path)) done.push([path, targetFor(path)])
        await store.properties.transfer(done, kind === 'copy', this.access.principal.userId)
      }
    }
    if (kind === 'copy') return
    await rules.updateSpelling(source)
    for (const { path } of rules.list()) {
      if (isWithin(source, path) && (await isDone(path))) await store.rules.move(path, targetFor(path))
    }
    await rules.reload()
    for (const { path } of locks.list()) {
      if (isWithin(source, path) && (await isDone(path))) await locks.dropWithin(path, true)
    }
  }
}

function assertSameKind(entry: Entry, old: Entry): void {
  if (isRealFolder(entry) && !isRealFolder(old))
    throw new GatewayError('not_folder', { reason: 'a folder can replace only a folder' })
  if (!isRealFolder(entry) && isRealFolder(old))
    throw new GatewayError('is_folder', { reason: 'only a folder can replace a folder' })
}

function replacesEmptyFolder({ old, continues, options }: Pick<Transfer, 'old' | 'continues' | 'options'>): boolean {
  return options.overwrite === 'same kind' && old !== undefined && isRealFolder(old) && !continues
}

async function assertEmpty({ storage, inner }: MountedPath, signal: AbortSignal): Promise<void> {
  for await (const page of storage.pages(inner, { signal, refresh: true })) {
    if (page.length > 0) throw new GatewayError('not_empty', { reason: 'the folder to be replaced is not empty' })
  }
}

/** Whether an entry of this name exists; undefined if the storage cannot be read. */
async function isThere(storage: Storage, path: Path): Promise<boolean | undefined> {
  return storage.has(path).catch(() => undefined)
}
