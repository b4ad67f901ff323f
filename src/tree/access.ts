/**
 * Authorizes every operation of `VirtualFs` for one principal, and translates its paths to paths of the whole tree; the
 * way back is in `redaction.ts`. Two other callers authorize without an operation: `BaseFolders`
 * before it creates a base folder, and `VisibleNames` for search results.
 */
import type { Principal } from '../accounts/principal.js'
import { joinSignals } from '../base/cancellation.js'
import type { Attributes, OpenFile, WritableFile } from '../contract/capabilities.js'
import type { StatOptions, Awaitable } from '../contract/call-options.js'
import { isRealFolder } from '../contract/entry.js'
import { GatewayError, isGatewayError, isWithoutStorage, type ErrorDetail } from '../base/errors.js'
import {
  childOf,
  isWithin,
  nameOf,
  parentOf,
  reservedPrefix,
  resolvePath,
  root,
  under,
  selfAndAncestors,
  within,
  type Path,
} from '../base/path.js'
import { withHooks, type FileHooks } from '../storage/file-hooks.js'
import type { MountedTree, ResolvedPath } from '../mounts/mounted-tree.js'
import type { Storage } from '../storage/storage.js'
import type { Lock } from '../database/rows.js'
import { hidesNames, isOmitted, judge, judgeMembers, judgeTarget, readsAll } from './authorizer.js'
import type { TreeDependencies } from './dependencies.js'
import type { LockedError } from '../locks/webdav-locks.js'
import { symlinkChanged, type Authority, type OnePath } from './change.js'
import type { Action, Verdict } from './policy.js'
import type { AccessOptions } from './operation-options.js'
import { Redaction } from './redaction.js'

/** Actions on a symlink that apply to its target. All others apply to the symlink itself. */
const symlinkFollowingActions: ReadonlySet<Action> = new Set<Action>([
  'list',
  'read',
  'refresh',
  'write',
  'attributes',
  'lock',
  'properties',
])

/** Actions that report a missing parent folder. */
const creatingActions: ReadonlySet<Action> = new Set<Action>(['write', 'mkdir', 'receive', 'lock'])

/** Names of files that operating systems create automatically. macOS also creates names with the prefix `._`. */
const systemFiles: ReadonlySet<string> = new Set(['.DS_Store', 'desktop.ini', 'Thumbs.db', '@eaDir'])

/** A path of the whole tree, as it was named, and with its symlinks resolved. */
export interface NamedPath {
  readonly named: Path
  readonly at: Path
}

type Dependencies = Pick<TreeDependencies, 'membership' | 'mounts' | 'bases' | 'rules' | 'settings' | 'log'>

export class Access implements Authority {
  readonly redaction: Redaction
  readonly #dependencies: Dependencies
  readonly #tree: MountedTree
  /** As stored in the account. */
  readonly #account: Principal
  /** The same principal with paths in the backends' spelling, as far as they have been resolved. */
  #canonical: Principal

  constructor(dependencies: Dependencies, tree: MountedTree, principal: Principal) {
    this.#dependencies = dependencies
    this.#tree = tree
    this.#account = principal
    this.#canonical = principal
    this.redaction = new Redaction(dependencies, principal, (at) => this.isOmitted(at))
  }

  get principal(): Principal {
    return this.#canonical
  }

  // Authorization. `resolve…` translates a path of the principal. `authorize…` throws or rejects if rules or
  // permissions do not allow an action. `followSymlinks…` resolves symlinks and authorizes the action on their targets.
  // `assert…` checks a condition that does not depend on the action's permission.

  /**
   * Returns the path in the whole tree, in the backends' spelling: at once if no backend has to be asked. Throws
   * `not_found` for names reserved by the core.
   */
  resolve(path: Path, options: AccessOptions): Awaitable<Path> {
    const { mounts } = this.#dependencies
    const requested = this.#underBase(path)
    const starting = mounts.whenStarted(requested, options)
    if (starting) return starting.then(() => this.#canonicalPath(requested, options))
    if (mounts.caseInsensitivePath(requested) !== undefined) return this.#canonicalPath(requested, options)
    this.#canonical = this.#account
    return requested
  }

  /** As `resolve`; undefined if a backend has to be asked, or its storage is starting. */
  resolveAtOnce(path: Path): Path | undefined {
    const { mounts } = this.#dependencies
    const requested = this.#underBase(path)
    if (mounts.startOf(requested) || mounts.caseInsensitivePath(requested) !== undefined) return undefined
    this.#canonical = this.#account
    return requested
  }

  async #canonicalPath(requested: Path, { signal }: AccessOptions): Promise<Path> {
    const at = await this.#tree.canonicalPath(requested, { signal })
    this.#canonical = this.#account.respelled(requested, at)
    return at
  }

  /** As `resolve`, for the target of a move of `source`, a path of the whole tree. */
  async resolveMoveTarget(path: Path, source: Path, options: AccessOptions): Promise<Path> {
    const requested = this.#underBase(path)
    await this.#dependencies.mounts.whenStarted(requested, options)
    return this.#tree.canonicalTarget(requested, source, { signal: options.signal })
  }

  #underBase(path: Path): Path {
    this.#dependencies.membership.assertCurrent()
    const at = under(this.#account.base, path)
    if (at.toLowerCase().includes(`/${reservedPrefix}`)) throw new GatewayError('not_found')
    return at
  }

  /** `resolve`, `authorize` and `followSymlinks`, in this order. Returns a path of the whole tree. */
  async resolveAndAuthorize(
    action: Action,
    path: Path,
    options: AccessOptions,
    last = symlinkFollowingActions.has(action),
  ): Promise<Path> {
    const at = await this.resolve(path, options)
    this.authorize(action, at, options)
    return this.followSymlinks(action, at, options, last)
  }

  /**
   * As `resolveAndAuthorize` for `read`, of what is known about an entry besides its content. A rule without a `…Sub`
   * flag protects files only: whoever may list a subfolder may read its entry.
   */
  async resolveAndAuthorizeEntry(path: Path, options: AccessOptions & StatOptions): Promise<Path> {
    const at = await this.resolve(path, options)
    const refusal = this.#refusalOf('read', at, options)
    if (!refusal) return this.followSymlinks('read', at, options, options.ofSymlink !== true)
    if (this.#refusalOf('list', at, options)) throw refusal
    try {
      const folder = await this.followSymlinks('list', at, options, options.ofSymlink !== true)
      if ((await this.#tree.entry(folder, options)).kind === 'folder') return folder
    } catch (error) {
      // Whatever it is: the answer must not tell whether a file of this name exists.
      if (isGatewayError(error, 'aborted')) throw error
    }
    throw refusal
  }

  /** As `resolveAndAuthorize` for `list`, with both paths of the folder. */
  async resolveAndAuthorizeListing(path: Path, options: AccessOptions): Promise<NamedPath> {
    const named = await this.resolve(path, options)
    this.authorize('list', named, options)
    return { named, at: await this.followSymlinks('list', named, options) }
  }

  /**
   * Resolves the symlinks in `at`, and authorizes the action on the real path too: the rules and locks of the symlink's
   * target apply. Rejects with `denied` if the target is outside the principal's base. `last`: also resolves a symlink
   * in the last segment. For `read`, that target is authorized, and the returned path still ends with the symlink's own
   * name. Returns at once if no symlink has to be looked for.
   */
  followSymlinks(
    action: Action,
    at: Path,
    options: AccessOptions,
    last = symlinkFollowingActions.has(action),
  ): Awaitable<Path> {
    if (this.#isUnrestrictedRead(action)) return at
    // The base is a folder to the principal, even if the storage has a symlink there.
    if (at === this.principal.base && !last) return at
    return this.#realPath(action, at, options, last)
  }

  async #realPath(action: Action, at: Path, options: AccessOptions, last: boolean): Promise<Path> {
    const resolved = await this.#tree.realPath(at, { signal: options.signal, last })
    if (resolved === at) return at
    const real = await this.#tree.canonicalPath(resolved, { signal: options.signal })
    await this.#authorizeRealPath(action, at, real, options)
    if (action !== 'read' || !last) return real
    const symlinkPath = await this.#tree.realPath(at, { signal: options.signal })
    if (symlinkPath !== at && symlinkPath !== real) await this.#authorizeRealPath(action, at, symlinkPath, options)
    return symlinkPath
  }

  /**
   * Returns the function by which a `Change` resolves its path: as `resolveAndAuthorize`, with the entry if
   * resolving the path has loaded it.
   */
  resolver(
    action: Action,
    path: Path,
    options: AccessOptions,
    last = symlinkFollowingActions.has(action),
  ): () => Promise<OnePath> {
    return async () => {
      const at = await this.resolve(path, options)
      this.authorize(action, at, options)
      if (last) return [await this.followSymlinksWithEntry(action, at, options)]
      return [{ at: await this.followSymlinks(action, at, options, false), look: undefined }]
    }
  }

  /** Returns the function `named` of a `ChangePlan` for one path. */
  naming(action: Action, path: Path, options: AccessOptions): () => readonly Path[] | undefined {
    return () => {
      const at = this.resolveAtOnce(path)
      return at === undefined || this.#refusalOf(action, at, options) ? undefined : [at]
    }
  }

  /** As `followSymlinks` with its default of `last`, with the entry if resolving has loaded it. */
  async followSymlinksWithEntry(action: Action, at: Path, options: AccessOptions): Promise<ResolvedPath> {
    if (this.#isUnrestrictedRead(action)) return { at, look: undefined }
    const look = await this.#tree.look(at, { signal: options.signal })
    return look?.path === at ? { at, look } : { at: await this.followSymlinks(action, at, options), look: undefined }
  }

  /** `authorize` and `followSymlinks` for `read`: `at` is a path of the whole tree. */
  authorizeRead(at: Path, options: AccessOptions): Awaitable<Path> {
    this.authorize('read', at, options)
    return this.followSymlinks('read', at, options)
  }

  /**
   * Rejects with `busy` if a symlink has replaced a segment of `at`, a path returned by `followSymlinks` with the same
   * arguments.
   */
  async assertNoSymlink(
    action: Action,
    at: Path,
    options: AccessOptions,
    last = symlinkFollowingActions.has(action),
  ): Promise<void> {
    if ((await this.followSymlinks(action, at, options, last)) !== at) throw symlinkChanged()
  }

  /**
   * Whether the principal may read the whole tree, so that no symlink target needs authorization. Locks do not affect
   * reads.
   */
  #isUnrestrictedRead(action: Action): boolean {
    return (action === 'read' || action === 'list') && readsAll(this.#dependencies.rules, this.principal, root)
  }

  async #authorizeRealPath(action: Action, at: Path, real: Path, options: AccessOptions): Promise<void> {
    const { base } = this.principal
    const realBase = isWithin(base, real) ? base : await this.#realBase()
    this.#authorizeTarget(action, [at, real, realBase], options, 'a symlink that leads out of your folder')
  }

  /** Authorizes an action at the target of a symlink. `reason`: of the error for a target that is outside the base. */
  #authorizeTarget(
    action: Action,
    paths: readonly [symlink: Path, target: Path, realBase: Path],
    options: AccessOptions,
    reason?: string,
  ): void {
    const verdict = judgeTarget(this.#dependencies.rules, this.principal, action, paths, options.password)
    if (verdict === 'outside') throw new GatewayError('denied', { reason })
    this.#enforce(verdict, action, paths[1], options)
  }

  /**
   * Throws the verdict as an error unless the action is allowed at `at` itself, without a look at symlinks. `at` is a
   * path of the whole tree, here and below.
   */
  authorize(action: Action, at: Path, options: AccessOptions): void {
    this.#enforce(judge(this.#dependencies.rules, this.principal, action, at, options.password), action, at, options)
  }

  /** As `authorize`, for those members of `folder` that no rule hides. */
  authorizeMembers(action: Action, folder: Path, options: AccessOptions): void {
    const verdict = judgeMembers(this.#dependencies.rules, this.principal, action, folder, options.password)
    if (verdict !== 'allow') throw new GatewayError(verdict)
  }

  #enforce(verdict: Verdict, action: Action, at: Path, options: AccessOptions): void {
    if (verdict !== 'allow') throw this.#refusal(verdict, action, at, options)
    if (action === 'write' || action === 'mkdir') this.assertAllowedName(nameOf(at))
  }

  /** The error for an action that is not allowed at `at`; undefined if it is. */
  #refusalOf(action: Action, at: Path, options: AccessOptions): GatewayError | undefined {
    const verdict = judge(this.#dependencies.rules, this.principal, action, at, options.password)
    return verdict === 'allow' ? undefined : this.#refusal(verdict, action, at, options)
  }

  #refusal(verdict: Exclude<Verdict, 'allow'>, action: Action, at: Path, options: AccessOptions): GatewayError {
    return new GatewayError(verdict, { detail: this.#detailOf(verdict, action, at, options) })
  }

  #detailOf(verdict: Verdict, action: Action, at: Path, options: AccessOptions): ErrorDetail | undefined {
    if (verdict === 'denied' && action === 'refresh') return 'refresh_denied'
    if (verdict !== 'hidden' || !creatingActions.has(action)) return undefined
    const { rules } = this.#dependencies
    const isParentHidden = judge(rules, this.principal, 'read', parentOf(at), options.password) === 'hidden'
    return isParentHidden ? 'parent_hidden' : undefined
  }

  /** Rejects with `denied` for the name of a system file if the setting `ignore_system_files` is on. */
  assertAllowedName(name: string): void {
    const isSystemFile = systemFiles.has(name) || name.startsWith('._')
    if (isSystemFile && this.#dependencies.settings.bool('ignore_system_files')) {
      throw new GatewayError('denied', { detail: 'system_file' })
    }
  }

  /**
   * Authorizes a change of a whole tree on every folder below `at` that has a rule. A copy skips what the principal
   * cannot see, so rules on invisible folders do not refuse it.
   */
  authorizeBelow(action: Action, at: Path, options: AccessOptions): void {
    const { rules } = this.#dependencies
    const nearest = rules.nearest(at)
    // The direct members of a copied folder are authorized one by one, as reads.
    const own = nearest?.path === at && action !== 'copy' ? [nearest] : []
    const below = rules.below(at).filter((rule) => action !== 'copy' || !this.#isInvisibleBelow(at, rule.path))
    for (const rule of [...own, ...below]) {
      const verdict = judgeMembers(rules, this.principal, action, rule.path, options.password)
      if (verdict !== 'allow') throw new GatewayError(verdict, { reason: 'permission denied below this folder' })
    }
  }

  /**
   * Rejects if the principal must not list a folder below `at` that listings show and that exists, or a storage mounted
   * there does not run. Looks only for folders that have a rule of their own.
   */
  async assertListableBelow(at: Path, options: AccessOptions): Promise<void> {
    this.#assertMountsRun(at)
    for (const { path } of this.#dependencies.rules.below(at)) {
      if (this.#isInvisibleBelow(at, path)) continue
      const refusal = this.#refusalOf('list', path, options)
      if (refusal && (await this.#exists(path, options))) throw refusal
    }
  }

  #assertMountsRun(at: Path): void {
    const { mounts } = this.#dependencies
    for (const { name } of mounts.foldersIn(at)) {
      const member = childOf(at, name)
      if (this.isOmitted(member)) continue
      if (mounts.isMountPoint(member)) mounts.find(member)
      this.#assertMountsRun(member)
    }
  }

  async #exists(at: Path, { signal }: AccessOptions): Promise<boolean> {
    try {
      return (await this.#tree.entryOrUndefined(at, { signal })) !== undefined
    } catch (error) {
      if (isWithoutStorage(error) || isGatewayError(error, 'not_folder')) return false
      throw error
    }
  }

  /** Whether `at` or a folder between `top` and `at` is invisible to the principal. */
  #isInvisibleBelow(top: Path, at: Path): boolean {
    for (const path of selfAndAncestors(at)) {
      if (path === top) return false
      if (this.isOmitted(path)) return true
    }
    return false
  }

  /**
   * Rejects with `denied` if a folder contains, at any depth, an entry that a rule hides from the principal: a
   * principal cannot remove what it cannot see. Lists the folder only if a rule hides names there.
   */
  async assertAllVisible(storage: Storage, folder: Path, signal: AbortSignal | undefined): Promise<void> {
    const { rules } = this.#dependencies
    const at = storage.treePath(folder)
    if (!hidesNames(rules, this.principal, at)) return
    for await (const page of storage.pages(folder, { signal })) {
      for (const entry of page) {
        const member = childOf(folder, entry.name)
        if (isOmitted(rules, this.principal, storage.treePath(member))) {
          throw new GatewayError('denied', { reason: 'permission denied below this folder' })
        }
        if (isRealFolder(entry)) await this.assertAllVisible(storage, member, signal)
      }
    }
  }

  /** Rejects with `denied` for mount points, the folders above them, and the principal's base: they cannot be moved. */
  assertMovable(at: Path, detail: 'mount_moved' | 'mount_removed'): void {
    if (this.#isFixed(at)) throw new GatewayError('denied', { detail })
  }

  #isFixed(at: Path): boolean {
    return at === this.principal.base || this.#dependencies.mounts.isMountFolder(at)
  }

  /**
   * The attributes that an entry gets where these are asked for. Mount points, the folders above them and the
   * principal's base keep their mode: another one could lock everybody out. It is ignored and not refused, because
   * clients that copy a folder with its attributes (rsync on sshfs, `put -pr`) set it for the folder that they copy
   * into too.
   */
  async settableAttributes(at: Path, { modified, mode }: Attributes): Promise<Attributes> {
    const isFixed = mode !== undefined && (this.#isFixed(at) || at === (await this.#realBase()))
    return { modified, mode: isFixed ? undefined : mode }
  }

  #realBase(): Promise<Path> {
    return this.#tree.realPath(this.principal.base, { last: true })
  }

  /**
   * Authorizes reading the target of a new symlink at `at`. Rejects with `denied` if it is outside the storage mounted
   * at `mountPoint` or outside the principal's base, and with the verdict if the principal must not read it. Returns
   * its path within the storage.
   */
  async authorizeSymlinkTarget(mountPoint: Path, at: Path, target: string, options: AccessOptions): Promise<Path> {
    const isRelative = !target.startsWith('/')
    // After another symlink, `..` would mean the parent of that symlink's target.
    const names = target.split('/').filter((name) => name !== '' && name !== '.')
    const first = names.findIndex((name) => name !== '..')
    if (isRelative && first >= 0 && names.includes('..', first)) {
      throw new GatewayError('denied', { reason: 'the target of a symlink may have .. at its start only' })
    }
    const leadsTo = isRelative
      ? await this.#tree.canonicalPath(resolvePath(parentOf(at), target), { signal: options.signal })
      : await this.resolve(resolvePath(root, target), options)
    const inner = within(mountPoint, leadsTo)
    if (inner === undefined)
      throw new GatewayError('denied', { reason: 'the target of a symlink must be in the same storage' })
    this.#authorizeTarget('read', [at, leadsTo, this.principal.base], options)
    return inner
  }

  /** Authorizes searching in general, by permissions alone. `VisibleNames` authorizes each result. */
  authorizeSearch(): void {
    const noRules = { own: undefined, folder: undefined }
    const verdict = judge(this.#dependencies.rules, this.principal, 'list', this.principal.base, undefined, noRules)
    if (verdict !== 'allow') throw new GatewayError(verdict)
  }

  /** Throws `unauthenticated` once the principal's session is revoked. */
  assertNotRevoked(): void {
    if (this.principal.signal.aborted) throw new GatewayError('unauthenticated')
  }

  /** Runs work whose signal aborts when the caller's does, and when the principal's session is revoked. */
  async untilRevoked<Result>(
    { signal }: AccessOptions,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const joined = joinSignals(signal, this.principal.signal)
    try {
      return await work(joined.signal)
    } finally {
      joined.release()
    }
  }

  /**
   * Wraps a handle: every call rejects with `unauthenticated` once the principal is revoked, and errors are redacted.
   * `hooks`: further ones; the result of `failed` is ignored.
   */
  guardHandle(path: Path, file: WritableFile, hooks: Omit<FileHooks, 'before'>): WritableFile
  guardHandle(path: Path, file: OpenFile, hooks: Omit<FileHooks, 'before'>): OpenFile
  guardHandle(path: Path, file: OpenFile, hooks: Omit<FileHooks, 'before'>): OpenFile {
    const { reading, writing, didRead, didWrite, changing, committing, committed, closed, ended } = hooks
    const before = () => this.assertNotRevoked()
    const failed: FileHooks['failed'] = (error, op) => {
      hooks.failed?.(error, op)
      return this.redaction.error(error, op, path)
    }
    const own = { before, reading, writing, didRead, didWrite, changing, committing, committed, failed, closed, ended }
    return withHooks(file, own)
  }

  /** Whether listings of the parent folder omit `at`. */
  isOmitted(at: Path): boolean {
    return isOmitted(this.#dependencies.rules, this.principal, at)
  }

  /** The error for a lock that blocks a change of `asked`. */
  lockedError(lock: Lock, asked: Path): LockedError {
    return this.redaction.lockedError(lock, asked)
  }
}
