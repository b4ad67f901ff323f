/**
 * One copy or move item by item, as `src/transfer/` performs it for a principal: each member is authorized and locked
 * like any other change. It is made when all checks of the whole have passed.
 */
import type { Entry } from '../contract/entry.js'
import { GatewayError, type MemberFailure } from '../base/errors.js'
import { Failures } from '../base/failures.js'
import { failureDetails, logInternal } from '../base/log.js'
import { childOf, parentOf, root, under, within, type Path } from '../base/path.js'
import { HeldPathLocks } from '../locks/path-locks.js'
import type { LockedPath } from '../locks/webdav-locks.js'
import type { SkippedNames } from '../storage/listable-names.js'
import type { CopyJob, CopyJournal, PublishOptions, RemovedPart, Transfer } from '../transfer/copy-job.js'
import type { Access } from './access.js'
import { refuse } from './decisions.js'
import { assertUnlocked } from './change.js'
import type { TreeDependencies } from './dependencies.js'
import type { ChangeOptions } from './operation-options.js'
import type { PolicyRefusal } from './policy/one-path.js'
import { memberError } from './redaction.js'
import { assertNoSymlink, authorizeMovedSymlink, followSymlinks } from './symlinks.js'
import { assertAllVisible, authorizeBelow } from './whole-trees.js'

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
  /** Called when all checks have passed, before anything is transferred item by item. A rejection changes nothing. */
  readonly beforeItems?: (() => Promise<void>) | undefined
  /** Called with the number of bytes that are done; negative for bytes of an item that failed. */
  readonly advance?: ((bytes: number) => void) | undefined
  /** Called for each source folder with names that are omitted because no path can hold them. */
  readonly onSkippedNames?: ((folder: Path, skipped: SkippedNames) => void) | undefined
  /** Called for each source folder whose time and mode could not be set on its copy. */
  readonly onAttributesLost?: ((folder: Path, error: GatewayError) => void) | undefined
}

/** The results of the checks of a transfer. Paths are of the whole tree. */
export interface CheckedTransfer extends Pick<Transfer, 'kind' | 'from' | 'to' | 'entry' | 'continues' | 'signal'> {
  readonly source: Path
  readonly target: Path
  /** The target is another spelling of the source. */
  readonly respells: boolean
  /** The entry at the target; undefined also if that is the source itself. */
  readonly old: Entry | undefined
  /** The target is a folder that must be empty, as for rename(2). */
  readonly replacesEmptyFolder: boolean
  readonly options: TransferOptions
}

export class TransferJob implements CopyJob {
  /** One warning for each transfer: a backend that refuses one folder may refuse them all. */
  #isLossLogged = false
  #hasExcluded = false
  readonly failures = new Failures()

  constructor(
    private readonly access: Access,
    readonly transfer: CheckedTransfer & Transfer,
  ) {}

  get dependencies(): TreeDependencies {
    return this.access.dependencies
  }

  // Checks

  async assertTargetSeen(inner: Path): Promise<void> {
    const refusal = await this.#targetRefusal(inner)
    // A path whose change is denied may be known to exist: only other refusals are thrown.
    if (refusal?.code !== 'denied') refuse(refusal)
  }

  async mayChange(inner: Path): Promise<boolean> {
    return (await this.#targetRefusal(inner)) === undefined
  }

  async #targetRefusal(inner: Path): Promise<PolicyRefusal | undefined> {
    const { to, options } = this.transfer
    return this.access.decisions.refusalOf(
      'receive',
      await this.access.spelled(to.storage.treePath(inner), options),
      options,
    )
  }

  newLocks(): HeldPathLocks {
    return new HeldPathLocks(this.dependencies.pathLocks, this.transfer.signal)
  }

  /** See `CopyJob`. Rejects with `busy` if a folder on the way has become a symlink. */
  async refusedNames(
    locks: HeldPathLocks,
    targets: readonly Path[],
    { replaces, isNew }: PublishOptions,
  ): Promise<ReadonlyMap<Path, unknown>> {
    const { kind, source, target, options, signal } = this.transfer
    const { access } = this
    const paths = await Promise.all(targets.map((to) => access.tree.canonicalPath(to, { signal })))
    await locks.take(paths.map((path) => ({ path, tree: false })))
    for (const folder of new Set(paths.map(parentOf)))
      await assertNoSymlink(access, 'receive', access.place(folder), options, { last: true })
    const refused = new Map<Path, unknown>()
    for (const [index, path] of paths.entries()) {
      try {
        const from = under(source, within(target, path) ?? root)
        if (kind === 'copy') access.decisions.assertCopyGranted(from)
        else access.decisions.assertMayLand([], from, path, false)
        access.decisions.authorize('receive', path, options)
        await this.#assertUnlocked({ path, membership: isNew })
        if (!replaces) continue
        // A write to a symlink replaces its target.
        const { at: real } = await followSymlinks(access, 'receive', access.place(path), options, { last: true })
        if (real !== path) await this.#assertUnlocked({ path: real })
      } catch (error) {
        refused.set(targets[index] ?? path, error)
      }
    }
    return refused
  }

  async assertRemovable(locks: HeldPathLocks, what: RemovedPart, inner: Path, tree: boolean): Promise<void> {
    const { source, target, from, to, options, signal } = this.transfer
    const { storage } = what === 'source' ? from : to
    const path = storage.treePath(inner)
    if (what === 'replaced' && tree && options.overwrite === 'same kind') throw new GatewayError('is_folder')
    const moving = parentOf(source) === parentOf(target) ? 'rename' : 'move'
    // The replacement of a file counts as overwriting it.
    const action = what === 'source' ? moving : what === 'extraneous' || tree ? 'remove' : 'write'
    await locks.take([{ path, tree }])
    this.access.decisions.authorize(action, path, options)
    if (tree) authorizeBelow(this.access, action, path, options)
    await this.#assertUnlocked({ path, tree, membership: true })
    if (tree) await assertAllVisible(this.access, storage, inner, signal)
    const isSource = what === 'source' && inner === from.inner
    await this.dependencies.intents.beforeRemoval({ storage, inner }, isSource ? 'moved' : 'removed')
  }

  async #assertUnlocked(touch: LockedPath): Promise<void> {
    await assertUnlocked(this.dependencies.locks, this.access.principal, touch, this.transfer.options)
  }

  async assertReadable(source: Path): Promise<void> {
    await followSymlinks(this.access, 'read', this.access.place(source), this.transfer.options)
  }

  async assertSymlinkAllowed(target: Path, text: string): Promise<void> {
    const { to, options } = this.transfer
    await authorizeMovedSymlink(this.access, to.storage.mountPoint, target, text, options)
  }

  /** The principal copies only what it can see. */
  excludes(path: Path): boolean {
    const isExcluded = path !== this.transfer.source && this.access.decisions.isOmitted(path)
    if (isExcluded) this.#hasExcluded = true
    return isExcluded
  }

  /** Whether a member of the source was left out. */
  get hasExcluded(): boolean {
    return this.#hasExcluded
  }

  // Reports

  async failed(failure: MemberFailure): Promise<void> {
    this.failures.add(failure)
    const { path, from = path, error } = failure
    const { reason, detail, code } = memberError(this.access, error)
    await this.transfer.journal.fail(from, reason, detail ?? code)
  }

  advance(bytes: number): void {
    this.transfer.options.advance?.(bytes)
  }

  namesSkipped(folder: Path, { count, names }: SkippedNames): void {
    const seen = names.filter((name) => !this.access.decisions.isOmitted(childOf(folder, name)))
    const seenCount = count - (names.length - seen.length)
    if (seenCount <= 0) return
    this.transfer.options.onSkippedNames?.(this.access.ownPath(folder), { count: seenCount, names: seen })
  }

  attributesLost(folder: Path, error: GatewayError): void {
    const { log } = this.dependencies
    logInternal(log, error, { path: folder })
    if (!this.#isLossLogged && error.code !== 'internal')
      log.warn({ ...failureDetails(error), path: folder }, 'time and mode of a folder not copied')
    this.#isLossLogged = true
    this.transfer.options.onAttributesLost?.(this.access.ownPath(folder), error)
  }
}
