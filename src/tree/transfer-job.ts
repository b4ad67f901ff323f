/**
 * One copy or move item by item, as `src/transfer/` performs it for a principal: each member is authorized and locked
 * like any other change. `Transfers` makes it when all checks of the whole have passed.
 */
import { isRealFolder, type Entry } from '../contract/entry.js'
import { GatewayError } from '../base/errors.js'
import { failureDetails, logInternal } from '../base/log.js'
import { childOf, parentOf, type Path } from '../base/path.js'
import { HeldPathLocks } from '../locks/path-locks.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { SkippedNames } from '../storage/listable-names.js'
import type { TransferMeter } from '../storage/transfer-meter.js'
import {
  MemoryJournal,
  type CopyJob,
  type CopyJournal,
  type PublishOptions,
  type RemovedPart,
} from '../transfer/copy-job.js'
import type { Access } from './access.js'
import { assertUnlocked, type ChangeScope } from './change.js'
import type { TreeDependencies } from './dependencies.js'
import type { ChangeOptions } from './operation-options.js'

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

/** A transfer that has passed its checks. Paths are of the whole tree. */
export interface Transfer {
  readonly kind: 'copy' | 'move'
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
  /** The target is a folder that must be empty, as for rename(2). */
  readonly replacesEmptyFolder: boolean
  readonly options: TransferOptions & { readonly signal: AbortSignal }
}

export class TransferJob implements CopyJob {
  readonly kind: 'copy' | 'move'
  readonly from: MountedPath
  readonly to: MountedPath
  readonly entry: Entry
  readonly signal: AbortSignal
  readonly deep: boolean
  readonly merge: boolean
  readonly overwrite: boolean
  readonly continues: boolean
  readonly slots: CopyJob['slots']
  readonly holder: CopyJob['holder']
  readonly journal: CopyJournal
  readonly intents: CopyJob['intents']
  readonly inPlaceHandles: CopyJob['inPlaceHandles']
  /** One warning for each transfer: a backend that refuses one folder may refuse them all. */
  #isLossLogged = false

  constructor(
    private readonly dependencies: Pick<
      TreeDependencies,
      'mounts' | 'rules' | 'transferSlots' | 'inPlaceHandles' | 'intents' | 'log'
    >,
    private readonly access: Access,
    private readonly scope: ChangeScope,
    readonly meter: TransferMeter,
    private readonly transfer: Transfer,
  ) {
    const { kind, from, to, entry, old, continues, options } = transfer
    this.kind = kind
    this.from = from
    this.to = to
    this.entry = entry
    this.signal = options.signal
    this.deep = kind === 'move' || options.deep !== false
    // What others add to the empty folder meanwhile is not removed.
    this.merge = options.merge === true || transfer.replacesEmptyFolder
    // As 'same kind' does not replace a folder with members, it replaces nothing in one.
    this.overwrite = options.overwrite === 'same kind' ? !(old && isRealFolder(old)) : options.overwrite
    this.continues = continues
    this.slots = dependencies.transferSlots
    this.holder = access.principal.holder
    this.journal = options.journal ?? new MemoryJournal()
    this.intents = dependencies.intents
    this.inPlaceHandles = dependencies.inPlaceHandles
  }

  // Checks

  newLocks(): HeldPathLocks {
    return new HeldPathLocks(this.scope.pathLocks, this.signal)
  }

  /** Also rejects with `busy` if a folder on the way has become a symlink. */
  async refusedNames(
    locks: HeldPathLocks,
    targets: readonly Path[],
    { replaces, isNew }: PublishOptions,
  ): Promise<ReadonlyMap<Path, unknown>> {
    const { options } = this.transfer
    const { access, scope, signal } = this
    const paths = await Promise.all(targets.map((to) => scope.tree.canonicalPath(to, { signal })))
    await locks.take(paths.map((path) => ({ path, tree: false })))
    for (const folder of new Set(paths.map(parentOf)))
      await access.symlinks.assertNone('receive', access.place(folder), options, { last: true })
    const refused = new Map<Path, unknown>()
    for (const [index, path] of paths.entries()) {
      try {
        access.authorize('receive', path, options)
        await assertUnlocked(scope, { path, membership: isNew }, options)
        if (!replaces) continue
        // A write to a symlink replaces its target.
        const { at: real } = await access.symlinks.follow('receive', access.place(path), options, { last: true })
        if (real !== path) await assertUnlocked(scope, { path: real }, options)
      } catch (error) {
        refused.set(targets[index] ?? path, error)
      }
    }
    return refused
  }

  async assertRemovable(locks: HeldPathLocks, what: RemovedPart, inner: Path, tree: boolean): Promise<void> {
    const { source, target, options } = this.transfer
    const { storage } = what === 'source' ? this.from : this.to
    const path = storage.treePath(inner)
    if (what === 'replaced' && tree && options.overwrite === 'same kind') throw new GatewayError('is_folder')
    const moving = parentOf(source) === parentOf(target) ? 'rename' : 'move'
    // To replace a file is to overwrite it.
    const action = what === 'source' ? moving : what === 'extraneous' || tree ? 'remove' : 'write'
    await locks.take([{ path, tree }])
    this.access.authorize(action, path, options)
    if (tree) this.access.authorizeBelow(action, path, options)
    await assertUnlocked(this.scope, { path, tree, membership: true }, options)
    if (tree) await this.access.assertAllVisible(storage, inner, this.signal)
    const isSource = what === 'source' && inner === this.from.inner
    await this.intents.beforeRemoval({ storage, inner }, isSource ? 'moved' : 'removed')
  }

  async assertReadable(source: Path): Promise<void> {
    await this.access.symlinks.follow('read', this.access.place(source), this.transfer.options)
  }

  async assertSymlinkAllowed(target: Path, text: string): Promise<void> {
    const { access, to, transfer } = this
    await access.symlinks.authorizeMoved(to.storage.mountPoint, target, text, transfer.options)
  }

  /** The principal copies only what it can see. */
  excludes(path: Path): boolean {
    return path !== this.transfer.source && this.access.isOmitted(path)
  }

  // Reports

  advance(bytes: number): void {
    this.transfer.options.advance?.(bytes)
  }

  namesSkipped(folder: Path, { count, names }: SkippedNames): void {
    const seen = names.filter((name) => !this.access.isOmitted(childOf(folder, name)))
    const seenCount = count - (names.length - seen.length)
    if (seenCount <= 0) return
    this.transfer.options.onSkippedNames?.(this.access.redaction.path(folder), { count: seenCount, names: seen })
  }

  attributesLost(folder: Path, error: GatewayError): void {
    const { log } = this.dependencies
    logInternal(log, error, { path: folder })
    if (!this.#isLossLogged && error.code !== 'internal')
      log.warn({ ...failureDetails(error), path: folder }, 'time and mode of a folder not copied')
    this.#isLossLogged = true
    this.transfer.options.onAttributesLost?.(this.access.redaction.path(folder), error)
  }
}
