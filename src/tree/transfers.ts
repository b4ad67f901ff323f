/**
 * Moves and copies within the tree, both alike: what may stand in the way is asked first, then it is done in one step of the
 * backend under a reservation, else item by item. Properties, rules and locks follow. Callers have judged the source.
 */
import { hasPermission } from '../accounts/principal.js'
import { isLink, isRealFolder, type Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError, nameTaken } from '../contract/errors.js'
import { checkName, childOf, isWithin, nameOf, parentOf, root, under, within, type Path } from '../contract/path.js'
import { canonicalPath } from '../storage/canonical-case.js'
import type { SkippedNames } from '../storage/listable-names.js'
import type { MountedTree, ResolvedPath } from '../storage/mounted-tree.js'
import type { MountedPath } from '../storage/mounts.js'
import type { Storage } from '../storage/storage.js'
import type { TransferMeter } from '../storage/transfer-meter.js'
import type { CopyJob, CopyJournal } from '../transfer/copy-job.js'
import { copyTree, moveTree } from '../transfer/copy.js'
import { MemoryJournal } from '../transfer/memory-journal.js'
import type { Access } from './access.js'
import type { TreeDependencies } from './dependencies.js'
import { covers } from './folder-rules.js'
import { renameByBackend } from './follow-up.js'
import type { LockedPath } from './locks.js'
import { assertSamePaths, type Operations } from './operation.js'
import type { AccessOptions, ChangeOptions, WriteResult } from './preconditions.js'
import { isInvisible } from './visibility.js'

export interface TransferOptions extends ChangeOptions {
  /** false: `exists` if the target is there. */
  readonly overwrite: boolean
  /** false: a folder without its members (WebDAV's Depth 0). */
  readonly deep?: boolean | undefined
  /** Existing target folders are entered, existing files in them are left alone. */
  readonly merge?: boolean | undefined
  /** Of work that outlives the request, and may have begun before. */
  readonly journal?: CopyJournal | undefined
  /** Told how many bytes more are done, or fewer, of what failed. */
  readonly advance?: ((bytes: number) => void) | undefined
  /** Called for each folder of the source of which names are left out, because no path can hold them. */
  readonly leftOut?: ((folder: Path, leftOut: SkippedNames) => void) | undefined
}

type Kind = 'move' | 'copy'

/** One that nothing was found to stand in the way of. Paths are of the whole tree. */
interface Transfer {
  readonly kind: Kind
  readonly source: Path
  readonly target: Path
  readonly from: MountedPath
  readonly to: MountedPath
  /** The source, of a link itself. */
  readonly entry: Entry
  /** The target is another spelling of the source. */
  readonly respells: boolean
  /** What exists at the target; undefined also where that is the source itself. */
  readonly old: Entry | undefined
  readonly ask: TransferOptions & { readonly signal: AbortSignal }
}

/** `done`: there is nothing to copy or move. */
type Checked = Transfer | { readonly done: WriteResult }

export class Transfers {
  constructor(
    private readonly parts: Pick<
      TreeDependencies,
      'mounts' | 'rules' | 'locks' | 'store' | 'transferSlots' | 'intents'
    >,
    private readonly access: Access,
    private readonly tree: MountedTree,
    private readonly operations: Operations,
    private readonly meter: TransferMeter,
  ) {}

  /**
   * `resolve` authorizes source and target and follows their symlinks; it is called for each check. Rejects with TreeError where only
   * a part could be copied or moved.
   */
  async transfer(
    kind: Kind,
    resolve: () => Promise<readonly [source: Path, target: ResolvedPath]>,
    ask: TransferOptions & { readonly signal: AbortSignal },
  ): Promise<WriteResult> {
    const [source, target] = await resolve()
    if (kind === 'copy' || !this.#mayMoveByBackend(source, target.at, ask)) {
      return this.#complete(await this.#check(kind, source, target, ask), false)
    }
    const paths = [source, target.at]
    const claims = paths.map((path) => ({ path, tree: true }))
    const { result, release } = await this.operations.locked(claims, ask.signal, async () => {
      const [sourceNow, targetNow] = await resolve()
      assertSamePaths(paths, [sourceNow, targetNow.at])
      return this.#check(kind, sourceNow, targetNow, ask)
    })
    let moved: boolean
    try {
      moved = !('done' in result) && (await this.#moveAtOnce(result, ask.signal))
    } finally {
      release()
    }
    return this.#complete(result, moved)
  }

  /** Copies or moves item by item what is not yet at its target. */
  async #complete(checked: Checked, isDone: boolean): Promise<WriteResult> {
    if ('done' in checked) return checked.done
    const { to, old, respells, ask } = checked
    if (!isDone && respells) {
      throw new GatewayError('unsupported', { reason: 'this storage cannot change the spelling of a name' })
    }
    if (!isDone) await this.#itemByItem(checked, ask.signal)
    return { entry: await to.storage.stat(to.inner, { signal: ask.signal }), created: !old }
  }

  /** Whether both paths are on one storage, and no earlier run has begun to copy item by item. */
  #mayMoveByBackend(source: Path, target: Path, { merge, journal }: TransferOptions): boolean {
    const { mounts } = this.parts
    if (merge === true || journal?.resumes === true || mounts.isVirtual(source) || mounts.isVirtual(target))
      return false
    const { storage } = mounts.find(source)
    return mounts.find(target, storage).storage === storage
  }

  /** One check of source and target. */
  async #check(
    kind: Kind,
    source: Path,
    { at: target, look }: ResolvedPath,
    ask: TransferOptions & { readonly signal: AbortSignal },
  ): Promise<Checked> {
    // What an earlier run began on this storage must not continue on whatever is mounted above it.
    if (ask.journal?.resumes === true && this.parts.mounts.isDisabled(target)) {
      throw new GatewayError('unavailable', { reason: 'the storage is disabled' })
    }
    if (nameOf(source) !== nameOf(target)) this.access.assertAllowedName(nameOf(target))
    if (kind === 'move') this.access.assertMovable(source, 'mount_moved')
    const from = this.parts.mounts.find(source)
    const entry = await from.storage
      .stat(from.inner, { signal: ask.signal, link: true })
      .catch(async (error: unknown) => {
        if (kind === 'move' && (await this.#wasMoved(source, ask, error))) return undefined
        throw error
      })
    if (!entry) return { done: await this.#followMoved(source, target, ask) }
    if (source === target) return { done: { entry, created: false } }
    const respells = (await canonicalPath(this.parts.mounts, target, ask)) === source
    // In another case, the name is taken by the source itself.
    const old = respells ? undefined : look ? look.entry : await this.tree.entryOrUndefined(target, ask)
    this.#assertReplaceable(source, target, entry, old, ask, kind)
    if (parentOf(target) !== parentOf(source)) await this.#assertFolder(parentOf(target), ask)
    const to = this.parts.mounts.find(target, from.storage)
    const touches: LockedPath[] = [{ path: target, tree: old?.kind === 'folder', membership: !old }]
    if (kind === 'move') touches.unshift({ path: source, tree: isRealFolder(entry), membership: true })
    const transfer: Transfer = { kind, source, target, from, to, entry, old, respells, ask }
    await this.#assertLinkMayMove(transfer)
    await this.operations.assertPreconditions(source, entry, ask)
    for (const touch of touches) this.operations.assertUnlocked(touch, ask)
    if (old && isRealFolder(old) && ask.overwrite && ask.merge !== true) {
      await this.access.assertAllVisible(to.storage, to.inner, ask.signal)
    }
    return transfer
  }

  async #assertFolder(at: Path, options: AccessOptions): Promise<void> {
    const entry = await this.tree.entryOrUndefined(at, options)
    if (!entry) throw new GatewayError('parent_missing')
    if (entry.kind !== 'folder') throw new GatewayError('not_dir')
  }

  // What may stand in the way

  /** `old` is what stands at the target. */
  #assertReplaceable(
    source: Path,
    target: Path,
    entry: Entry,
    old: Entry | undefined,
    ask: TransferOptions,
    kind: Kind,
  ): void {
    // What stands there may be what an earlier run made: that is looked at item by item.
    const isTaken = old && !ask.overwrite && ask.merge !== true && ask.journal?.resumes !== true
    if (isTaken === true) throw nameTaken(nameOf(target))
    if (!old) checkName(nameOf(target))
    if (isRealFolder(entry) && isWithin(source, target)) {
      throw new GatewayError('invalid', { detail: 'into_itself' })
    }
    if (isWithin(target, source))
      throw new GatewayError('invalid', { reason: 'a folder cannot be replaced by what is in it' })
    if (this.parts.mounts.isVirtual(target))
      throw new GatewayError('denied', { reason: 'a mount point cannot be replaced' })
    const replaced = ask.overwrite && ask.merge !== true ? old : undefined
    if (replaced?.kind === 'folder') {
      this.access.authorize('remove', target, ask)
      this.access.authorizeBelow('remove', target, ask)
    }
    // Taking the place of a file is overwriting it, by whatever name.
    if (replaced && replaced.kind !== 'folder') this.access.authorize('write', target, ask)
    if (isRealFolder(entry)) this.access.authorizeBelow(kind, source, ask)
    if (isRealFolder(entry) && kind === 'move') this.#assertStaysHidden(source, target)
  }

  /** A rule above the source does not go along: what it hides in there must not come to light in another place. */
  #assertStaysHidden(source: Path, target: Path): void {
    const { rules } = this.parts
    const rule = rules.nearest(source)
    const seesHidden = hasPermission(this.access.principal, 'seeHidden')
    if (!rule || rule.path === source || rule.hide === '' || !rule.hideSub || seesHidden) return
    const there = rules.nearest(parentOf(target))
    if (there?.hide === rule.hide && covers(there, there.hideSub, target)) return
    throw new GatewayError('denied', { reason: 'a folder rule hides things here that would be seen there' })
  }

  /** A relative link means something else in another folder. */
  async #assertLinkMayMove({ kind, source, target, from, to, entry, ask }: Transfer): Promise<void> {
    if (!isLink(entry) || parentOf(source) === parentOf(target)) return
    const text = await from.storage.readLink(from.inner, { signal: ask.signal })
    if (text.startsWith('/')) return
    const { mount } = to.storage
    if (kind === 'move' || mount === from.storage.mount)
      await this.access.resolveSymlinkTarget(mount, target, text, ask)
  }

  /** The same for the links in a folder. Whoever could read all that a link may lead to is not kept waiting for a look. */
  async #assertLinksMayMove({ storage, inner }: MountedPath, target: Path, ask: AccessOptions): Promise<void> {
    const { mount } = storage
    const { base, role } = this.access.principal
    if (role === 'admin' || (isWithin(base, mount) && this.parts.rules.list().length === 0)) return
    for await (const page of storage.list(inner, { signal: ask.signal })) {
      for (const member of page) {
        const [from, to] = [childOf(inner, member.name), childOf(target, member.name)]
        if (isLink(member)) {
          const text = await storage.readLink(from, { signal: ask.signal })
          if (!text.startsWith('/')) await this.access.resolveSymlinkTarget(mount, to, text, ask)
        } else if (member.kind === 'folder') {
          await this.#assertLinksMayMove({ storage, inner: from }, to, ask)
        }
      }
    }
  }

  // In one step

  /**
   * By one call of the backend, while path locks of both paths are held. An old target that the backend cannot replace is moved to a
   * backup meanwhile. False where the backend has no such call.
   */
  async #moveAtOnce(transfer: Transfer, signal: AbortSignal): Promise<boolean> {
    const { source, target, from, to, entry, old, ask } = transfer
    if (from.storage !== to.storage) return false
    if (isRealFolder(entry) && parentOf(source) !== parentOf(target)) {
      await this.#assertLinksMayMove(from, target, { ...ask, signal })
    }
    // A file replaces a file by itself. For everything else the name has to be free.
    const replaces = old !== undefined && (old.kind === 'folder' || entry.kind === 'folder')
    const backup = replaces ? await this.parts.intents.moveToBackup(to, signal) : undefined
    if (replaces && !backup) return false
    try {
      return await renameByBackend(this.parts, from, to, replaces, { signal })
    } finally {
      await backup?.restoreOrDiscard()
    }
  }

  // Item by item

  /** Whether an earlier run copied all of it and removed it, and had only to say so. */
  async #wasMoved(source: Path, { journal }: TransferOptions, error: unknown): Promise<boolean> {
    return (
      journal?.resumes === true && isGatewayError(error, 'not_found') && (await journal.copied(source)) !== undefined
    )
  }

  async #followMoved(source: Path, target: Path, ask: TransferOptions): Promise<WriteResult> {
    const { storage, inner } = this.parts.mounts.find(target)
    const entry = await storage.stat(inner, { signal: ask.signal, link: true })
    await this.#followWhole(source, target, 'move', true)
    return { entry, created: true }
  }

  async #itemByItem(transfer: Transfer, signal: AbortSignal): Promise<void> {
    const { kind, source, target, ask } = transfer
    const job = this.#job(transfer, signal)
    let whole = false
    try {
      await (kind === 'copy' ? copyTree(job) : moveTree(job))
      whole = ask.merge !== true
    } finally {
      if (whole) await this.#followWhole(source, target, kind, ask.deep !== false)
      else await this.#followItems(transfer, job)
    }
  }

  #job({ source, target, from, to, ask }: Transfer, signal: AbortSignal): CopyJob {
    const { mounts, rules, transferSlots, intents } = this.parts
    const moving = parentOf(source) === parentOf(target) ? 'rename' : 'move'
    return {
      from,
      to,
      signal,
      deep: ask.deep !== false,
      merge: ask.merge === true,
      overwrite: ask.overwrite,
      slots: transferSlots,
      meter: this.meter,
      journal: ask.journal ?? new MemoryJournal(),
      advance: (bytes) => ask.advance?.(bytes),
      // What the principal cannot see is not copied for them.
      excludes: (path) => path !== source && isInvisible(rules, this.access.principal, path),
      onSkipped: (folder, { count, names }) => {
        const seen = names.filter((name) => !isInvisible(rules, this.access.principal, childOf(folder, name)))
        const seenCount = count - (names.length - seen.length)
        if (seenCount > 0) ask.leftOut?.(this.access.principalPath(folder), { count: seenCount, names: seen })
      },
      moveToBackup: (place) => intents.moveToBackup(place, signal),
      reserveBackup: (place) => intents.reserveBackup(place),
      assertReadable: async (path) => {
        await this.access.resolveLinks('read', path, ask)
      },
      assertSymlinkAllowed: async (path, text) => {
        if (!text.startsWith('/')) await this.access.resolveSymlinkTarget(to.storage.mount, path, text, ask)
      },
      beforePublish: async (targets, replaces) => {
        const paths = await Promise.all(targets.map((to) => canonicalPath(mounts, to, { signal })))
        const claims = paths.map((path) => ({ path, tree: false }))
        const { result, release } = await this.operations.locked(claims, signal, () =>
          this.#refused(targets, paths, replaces, { ...ask, signal }),
        )
        return { refused: result, release }
      },
      beforeRemove: async (what, inner, tree) => {
        const { storage } = what === 'source' ? from : to
        // Taking the place of a file is overwriting it.
        const action = what === 'source' ? moving : what === 'surplus' || tree ? 'remove' : 'write'
        const path = storage.treePath(inner)
        const { release } = await this.operations.locked([{ path, tree }], signal, async () => {
          this.access.authorize(action, path, ask)
          if (tree) this.access.authorizeBelow(action, path, ask)
          this.operations.assertUnlocked({ path, tree, membership: true }, ask)
          if (tree) await this.access.assertAllVisible(storage, inner, signal)
        })
        return release
      },
    }
  }

  /** Why some of these names cannot be taken, by `targets`, of which `paths` are the spellings. Rejects with `busy` where a link leads there. */
  async #refused(
    targets: readonly Path[],
    paths: readonly Path[],
    replaces: boolean,
    ask: TransferOptions,
  ): Promise<ReadonlyMap<Path, unknown>> {
    for (const folder of new Set(paths.map(parentOf))) await this.access.assertNoLink('receive', folder, ask)
    const refused = new Map<Path, unknown>()
    for (const [index, path] of paths.entries()) {
      try {
        this.access.authorize('receive', path, ask)
        this.operations.assertUnlocked({ path }, ask)
        // A link that is written to is not replaced: what it leads to is.
        const real = replaces ? await this.access.resolveLinks('receive', path, ask, true) : path
        if (real !== path) this.operations.assertUnlocked({ path: real }, ask)
      } catch (error) {
        refused.set(targets[index] ?? path, error)
      }
    }
    return refused
  }

  /** Properties, rules and locks after a copy or a move that went item by item, all of it: nothing is left of the old target. */
  async #followWhole(source: Path, target: Path, kind: Kind, deep: boolean): Promise<void> {
    const { store, locks } = this.parts
    if (!deep) await store.properties.delete(target)
    await this.#follow(source, target, kind, deep)
    await locks.dropWithin(target, false)
  }

  /** Properties and rules, and of a move the locks. `deep`: with all that is below. */
  async #follow(source: Path, target: Path, kind: Kind, deep: boolean): Promise<void> {
    const { store, locks, rules } = this.parts
    if (kind === 'copy') {
      await store.properties.copy(source, target, deep)
      return
    }
    await rules.updateSpelling(source)
    // Attributes are not moved: those of the source went with it, those of the target came with its writing.
    await store.properties.move(source, target)
    await store.rules.move(source, target)
    await rules.reload()
    await locks.dropWithin(source, true)
  }

  /** The same where only some of it was copied or moved: of every path that anything is kept of, on either side. */
  async #followItems({ kind, source, target, from }: Transfer, { journal }: CopyJob): Promise<void> {
    const { store, rules, locks } = this.parts
    const isDone = async (path: Path) => {
      if (!(await journal.copied(path))) return false
      return kind === 'copy' || (await isThere(from.storage, within(from.storage.mount, path) ?? path)) === false
    }
    const targetFor = (path: Path) => under(target, within(source, path) ?? root)
    // The target first: what its old files had goes where the source has nothing in its stead.
    const sides = [
      [target, (path: Path) => under(source, within(target, path) ?? root)],
      [source, (path: Path) => path],
    ] as const
    for (const [top, sourceFor] of sides) {
      for await (const paths of store.properties.within(top)) {
        const done: [Path, Path][] = []
        for (const path of paths.map(sourceFor)) if (await isDone(path)) done.push([path, targetFor(path)])
        await store.properties.transfer(done, kind === 'copy')
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

/** Whether something of this name stands there; undefined where the storage does not tell. */
async function isThere(storage: Storage, path: Path): Promise<boolean | undefined> {
  return storage.has(path).catch(() => undefined)
}
