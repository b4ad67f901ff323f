/**
 * The tree as one principal sees it: the only way by which a protocol reaches files. Every method resolves its path
 * below the principal's base and authorizes it. Every change is a `Change`. Parameters and results
 * are paths of the principal; in this file, `at` is a path of the whole tree.
 */
import type { Readable } from 'node:stream'
import type { Principal } from '../accounts/principal.js'
import type {
  Attributes,
  DirectUrl,
  OpenFile,
  OpenMode,
  Thumbnail,
  ThumbnailKind,
  UrlClient,
  Usage,
} from '../contract/capabilities.js'
import type { ByteRange, Source, StatOptions } from '../contract/call-options.js'
import { isSymlink, isRealFolder, type Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError, isWithoutStorage, type OperationName } from '../base/errors.js'
import { nameOf, parentOf, root, under, type Path } from '../base/path.js'
import { MountedTree, type ResolvedPath } from '../mounts/mounted-tree.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { FreshStatOptions } from '../storage/storage.js'
import { TransferMeter } from '../storage/transfer-meter.js'
import type { Lock, LockRequest, Property, PropertyChange } from '../database/rows.js'
import { sameness } from '../transfer/same-file.js'
import type { DownloadRoute, DownloadRouteOptions } from '../download-urls/download-routing.js'
import { Access, type Place } from './access.js'
import type { Redaction } from './redaction.js'
import type { Action } from './policy.js'
import type { TreeDependencies } from './dependencies.js'
import {
  FileContent,
  type FileOpenOptions,
  type FileToSend,
  type FileWriteOptions,
  type SendingOptions,
  type WritableTreeFile,
} from './file-content.js'
import { findNames, VisibleNames, type SearchResult, type SearchOptions } from './search-results.js'
import {
  FolderContents,
  folderView,
  type FolderView,
  TreeMembers,
  type FolderListOptions,
  type Listing,
  type TreeMember,
} from './folder-contents.js'
import { removeEntry } from './follow-up.js'
import { makeMissingParents } from './missing-folders.js'
import {
  assertPreconditionsAt,
  Change,
  type ChangePlan,
  type ChangeScope,
  type OnePath,
  type Target,
  type Targets,
  type TwoPaths,
} from './change.js'
import { hasPreconditions, type Preconditions } from './preconditions.js'
import type {
  AccessOptions,
  ChangeOptions,
  TreeReadOptions,
  Reservation,
  TransferResult,
  WriteResult,
} from './operation-options.js'
import type { TransferOptions } from './transfer-job.js'
import { Transfers } from './transfers.js'
import type { SymlinkRules } from './symlinks.js'
import { PrincipalLocks, DeadProperties, type LockOptions, type LockResult } from './locks-and-properties.js'

export type { Property, PropertyChange, PropertyName } from '../database/rows.js'
export { maxPropertiesSize } from '../database/properties.js'

export type { SerializedParts } from '../storage/listing-cache.js'
export type {
  DownloadRoute,
  DownloadRouteOptions,
  FileToSend,
  FolderView,
  SendingOptions,
  TransferOptions,
  TreeDependencies,
  TreeMember,
  WritableTreeFile,
}

/** What `assertAllowed` checks, with the operation that its errors name. */
const checkedActions = { list: 'stat', lock: 'lock', properties: 'set properties' } as const

export class VirtualFs {
  readonly #dependencies: TreeDependencies
  readonly #access: Access
  readonly #redaction: Redaction
  readonly #symlinks: SymlinkRules
  readonly #tree: MountedTree
  readonly #scope: ChangeScope
  readonly #folders: FolderContents
  readonly #members: TreeMembers
  readonly #content: FileContent
  readonly #transfers: Transfers
  readonly #locks: PrincipalLocks
  readonly #properties: DeadProperties

  constructor(
    dependencies: TreeDependencies,
    readonly principal: Principal,
  ) {
    const tree = new MountedTree(dependencies.mounts, dependencies.log)
    const access = new Access(dependencies, tree, principal)
    const { mounts, locks, pathLocks } = dependencies
    const scope: ChangeScope = { mounts, locks, pathLocks, tree, authority: access }
    const meter = new TransferMeter(dependencies.events, principal.protocol.name)
    this.#dependencies = dependencies
    this.#access = access
    this.#redaction = access.redaction
    this.#symlinks = access.symlinks
    this.#tree = tree
    this.#scope = scope
    this.#folders = new FolderContents(dependencies, access, tree)
    this.#members = new TreeMembers(access, tree, this.#folders, (path, options) => this.stat(path, options))
    this.#content = new FileContent(dependencies, access, tree, scope, meter)
    this.#transfers = new Transfers(dependencies, access, tree, scope, meter)
    this.#locks = new PrincipalLocks(scope, access, this.#content)
    this.#properties = new DeadProperties(dependencies)
  }

  // Reading

  /** `ofSymlink`: the entry of a symlink itself, not of its target. */
  stat(path: Path, options: AccessOptions & FreshStatOptions = {}): Promise<Entry> {
    return this.#authorized('stat', 'entry', path, options, (place) => this.#entry(place, options))
  }

  /** The entry, and what the folder rules define for it. */
  view(path: Path, options: AccessOptions = {}): Promise<{ readonly entry: Entry; readonly folder: FolderView }> {
    return this.#authorized('stat', 'entry', path, options, async (place) => ({
      entry: await this.#entry(place, options),
      folder: folderView(this.#dependencies, this.#access, place.at),
    }))
  }

  list(path: Path, options: FolderListOptions = {}): Promise<Listing> {
    return this.#redaction.during('list', path, async () => {
      const folder = await this.#access.resolveAndAuthorize('list', path, options)
      if (options.refresh === true) this.#access.authorize('refresh', folder.at, options)
      return this.#folders.list(folder, options)
    })
  }

  /**
   * The same entries in pages, in any order. Memory use does not grow with a folder of a driver that has `revision`.
   */
  pages(path: Path, options: AccessOptions = {}): AsyncGenerator<readonly Entry[]> {
    return this.#redaction.yielding('list', path, () => this.#pages(path, options))
  }

  async *#pages(path: Path, options: AccessOptions): AsyncGenerator<readonly Entry[]> {
    yield* this.#folders.pages(await this.#access.resolveAndAuthorize('list', path, options), options)
  }

  /**
   * Yields the members of the folder at any depth, a folder before what is in it. `names`: only those of its members,
   * and what is in them; empty: all. Rejects if one that listings show cannot be listed.
   */
  members(path: Path, names: readonly string[], options: AccessOptions = {}): AsyncGenerator<TreeMember> {
    return this.#redaction.yielding('list', path, () => this.#members.below(path, names, options))
  }

  /** Rejects as `members` does, as far as that can be known without listing all folders. */
  assertMembersReadable(path: Path, names: readonly string[], options: AccessOptions = {}): Promise<void> {
    return this.#redaction.during('list', path, () => this.#members.assertReadable(path, names, options))
  }

  /**
   * Searches the index for names at any depth below `path` that the principal may see. Finds none if the principal may
   * not read `path`, or it does not exist. Rejects with `unavailable` if search is off, and with `throttled` as reads
   * do.
   */
  search(path: Path, options: SearchOptions): Promise<SearchResult> {
    return this.#redaction.during('search', path, async () => {
      this.#access.authorizeSearch()
      const { rules, search, searches } = this.#dependencies
      const { at, principal } = await this.#access.resolve(path, options)
      const visible = new VisibleNames(rules, this.#access, principal.base, options.password)
      const find = async () => findNames(await search.reader(), visible, at, options)
      const { names, total } = await searches.run(principal.holder, find, options.signal)
      return { names: names.map((found) => ({ ...found, parent: this.#redaction.path(found.parent) })), total }
    })
  }

  read(path: Path, range?: ByteRange, options: TreeReadOptions = {}): Promise<Readable> {
    return this.#authorized('read', 'read', path, options, (place) => this.#content.read(path, place, range, options))
  }

  /**
   * Opens a handle. 'read' and 'update' require an existing file; 'update' writes in place. 'replace' writes a new or
   * truncated file, which `commit` publishes; `readable` if it is read too. Calls reject once the session is revoked.
   */
  open(path: Path, mode: 'update' | 'replace', options?: FileOpenOptions): Promise<WritableTreeFile>
  open(path: Path, mode: OpenMode, options?: FileOpenOptions): Promise<OpenFile>
  open(path: Path, mode: OpenMode, options: FileOpenOptions = {}): Promise<OpenFile> {
    if (mode === 'read') {
      return this.#authorized('open', 'read', path, options, (place) => this.#content.openToRead(path, place, options))
    }
    return this.#redaction.during('open', path, () => this.#content.openToWrite(path, mode, options))
  }

  /**
   * Opens a file to send parts of it. With a `route`, decides as `downloadRoute` does whether the client is redirected
   * instead.
   */
  openToSend(path: Path, options: SendingOptions = {}): Promise<FileToSend> {
    return this.#authorized('open', 'read', path, options, (place) => this.#content.openToSend(path, place, options))
  }

  /**
   * How the content of a file reaches a client. Rejects with `denied` if the storage's options do not allow any way.
   */
  downloadRoute(path: Path, options: AccessOptions & DownloadRouteOptions): Promise<DownloadRoute> {
    return this.#reading('direct URL', path, options, async ({ storage, inner }) =>
      this.#dependencies.downloadRouting.route(storage, inner, options),
    )
  }

  /** The backend's own URL for this client, whatever the storage's options are; undefined if it has none. */
  directUrl(path: Path, options: AccessOptions & UrlClient = {}): Promise<DirectUrl | undefined> {
    const { signal, userAgent, address } = options
    return this.#reading('direct URL', path, options, ({ storage, inner }) =>
      storage.directUrl(inner, { signal, userAgent, address }),
    )
  }

  /** Undefined if no thumbnail can be made of this file. Rejects with `invalid` as `Driver.thumbnail` does. */
  thumbnail(path: Path, kind: ThumbnailKind, options: AccessOptions = {}): Promise<Thumbnail | undefined> {
    const { thumbnails } = this.#dependencies
    const { holder } = this.#access.principal
    return this.#reading('make thumbnail', path, options, ({ storage, inner }) =>
      this.#access.untilRevoked(options, (signal) =>
        thumbnails.run(holder, () => storage.thumbnail(inner, kind, { signal }), signal),
      ),
    )
  }

  usage(path: Path, options: AccessOptions = {}): Promise<Usage> {
    return this.#reading('usage', path, options, ({ storage }) => storage.usage({ signal: options.signal }))
  }

  /** As `usage`; undefined if the storage cannot report it or does not respond, and where no storage is mounted. */
  async usageOrUndefined(path: Path, options: AccessOptions = {}): Promise<Usage | undefined> {
    try {
      return await this.#reading('usage', path, options, ({ storage }) =>
        storage.usageOrUndefined({ signal: options.signal }),
      )
    } catch (error) {
      if (isGatewayError(error, 'unavailable') || isWithoutStorage(error)) return undefined
      throw error
    }
  }

  /** The usage of each path that is a mount point. Omits storages that do not report it in time. None for guests. */
  async mountUsages(paths: readonly Path[]): Promise<ReadonlyMap<Path, Usage>> {
    if (!this.#access.seesMountUsages) return new Map()
    const { mounts } = this.#dependencies
    const { principal } = await this.#access.resolve(root, {})
    // Called for every entry of a listing: must be cheap for paths that are no mount points.
    const mounted = paths.filter((path) => {
      const at = under(principal.base, path)
      return mounts.isMountPoint(at) && !mounts.startOf(at)
    })
    const usages = await Promise.all(
      mounted.map(async (path) => {
        try {
          const { storage } = this.#tree.locate((await this.#access.resolveAndAuthorizeEntry(path, {})).at)
          return [path, await storage.usageWithTimeout()] as const
        } catch {
          // The storage does not run, or the principal may not read it.
          return [path, undefined] as const
        }
      }),
    )
    return new Map(usages.flatMap(([path, usage]) => (usage ? [[path, usage] as const] : [])))
  }

  /** Whether `to`, which is written, is certainly another name of the file `from`, which is read. */
  isSameFile(from: Path, to: Path, options: AccessOptions & { readonly signal: AbortSignal }): Promise<boolean> {
    return this.#redaction.during('stat', from, async () => {
      const source = this.#tree.locate((await this.#access.resolveAndAuthorize('read', from, options)).at)
      const target = this.#tree.locate((await this.#access.resolveAndAuthorize('write', to, options)).at)
      return (await sameness(source, target, options.signal)) === 'same'
    })
  }

  readSymlink(path: Path, options: AccessOptions = {}): Promise<string> {
    return this.#redaction.during('read symlink', path, async () =>
      this.#symlinks.read(await this.#access.resolveAndAuthorize('read', path, options, { last: false }), options),
    )
  }

  /** Rejects with `precondition_failed` unless the preconditions hold for the entry at `path`. */
  check(path: Path, conditions: Preconditions, options: AccessOptions = {}): Promise<void> {
    const required = { ...options, ...conditions }
    return this.#authorized('check', 'read', path, options, ({ at }) =>
      assertPreconditionsAt(this.#scope, at, required),
    )
  }

  // Changing

  /** Replaces or creates a file. Resolves when it is stored. */
  write(path: Path, source: Source, options: FileWriteOptions = {}): Promise<WriteResult> {
    return this.#redaction.during('write', path, () => this.#content.write(path, this.fromClient(source), options))
  }

  /** Creates an empty file, which reserves its name. Rejects with `exists` if the name is taken. */
  reserve(path: Path, options: ChangeOptions = {}): Promise<Reservation> {
    return this.#redaction.during('write', path, () => this.#content.reserve(path, options))
  }

  /** Limits the speed of a body that a protocol receives before it calls `write`. */
  fromClient(source: Source): Source {
    return this.#dependencies.bandwidth.fromClients.source(source)
  }

  /** Rejects as `write` does before it reads the body. For protocols that receive the body before they call `write`. */
  assertWritable(path: Path, options: ChangeOptions = {}): Promise<void> {
    return this.#redaction.during('write', path, () => this.#content.assertWritable(path, options))
  }

  /**
   * Rejects if the principal may not do this with what is at `path`, as far as that depends on the principal and the
   * rules alone. For protocols that have to authorize a request before they interpret its body.
   */
  assertAllowed(action: keyof typeof checkedActions, path: Path, options: AccessOptions = {}): Promise<void> {
    return this.#redaction.during(checkedActions[action], path, async () => {
      const { at, principal } = await this.#access.resolve(path, options)
      this.#access.authorize(action, at, options, principal)
    })
  }

  /** Rejects if the principal may not make this change to any member of the folder. */
  assertMayChange(
    action: 'rename' | 'move' | 'copy' | 'remove',
    folder: Path,
    options: AccessOptions = {},
  ): Promise<void> {
    return this.#redaction.during(action, folder, async () => {
      this.#access.authorizeMembers(action, (await this.#access.resolve(folder, options)).at, options)
    })
  }

  /** `parents`: creates missing parents too, and an existing folder is not an error. */
  mkdir(path: Path, options: ChangeOptions & { readonly parents?: boolean | undefined } = {}): Promise<void> {
    const making = new Change<OnePath>(this.#scope, {
      options,
      resolve: this.#access.resolver('mkdir', path, options),
      named: this.#access.naming('mkdir', path, options),
      require: (target) => {
        if (options.parents !== true || target.entry?.kind !== 'folder') target.assertFree()
      },
      touches: ({ at, entry }) => (entry ? [] : [{ path: at, membership: true }]),
    })
    return this.#redaction.during('make folder', path, async () => {
      if (options.parents === true) {
        const [{ at, entry, chosen: preferred }] = await making.check()
        if (entry) return
        await makeMissingParents(this.#access, this.#scope, at, { ...options, preferred })
      }
      await making.underLocks(async ({ entry, storage, inner, signal }) => {
        if (!entry) await storage.mkdir(inner, { signal })
      })
    })
  }

  /**
   * `what`: 'tree' (the default) removes any entry, 'file' any but a folder, 'folder' an empty folder. A symlink is
   * removed, not its target.
   */
  remove(
    path: Path,
    options: ChangeOptions & { readonly what?: 'tree' | 'file' | 'folder' | undefined } = {},
  ): Promise<void> {
    const { what = 'tree' } = options
    const work = (signal: AbortSignal) => {
      const removal = new Change<OnePath>(this.#scope, {
        options: { ...options, signal },
        resolve: this.#access.resolver('remove', path, options),
        named: this.#access.naming('remove', path, options),
        tree: what === 'tree',
        load: 'symlink',
        require: ({ at, existing }) => {
          this.#access.assertMovable(at, 'mount_removed')
          if (what === 'file' && isRealFolder(existing)) throw new GatewayError('is_folder')
          if (what === 'folder' && !isRealFolder(existing)) throw new GatewayError('not_folder')
          if (isRealFolder(existing)) this.#access.authorizeBelow('remove', at, options)
        },
        touches: ({ at, existing }) => [{ path: at, tree: isRealFolder(existing), membership: true }],
      })
      return removal.underLocks(async ({ storage, inner, existing, signal }) => {
        if (isRealFolder(existing) && what === 'tree') await this.#access.assertAllVisible(storage, inner, signal)
        await removeEntry(this.#dependencies, { storage, inner }, what === 'tree', { signal })
      })
    }
    return this.#redaction.during('remove', path, () => this.#access.untilRevoked(options, work))
  }

  /**
   * Requires the right to rename within a folder, the right to move between folders, and both if the name changes too.
   * Rejects with `exists` unless `overwrite`.
   */
  move(from: Path, to: Path, options: TransferOptions): Promise<TransferResult> {
    const authorize = (source: Path, target: Path) => {
      const isSameFolder = parentOf(source) === parentOf(target)
      if (!isSameFolder) this.#access.authorize('move', source, options)
      if (isSameFolder || nameOf(source) !== nameOf(target)) this.#access.authorize('rename', source, options)
      this.#access.authorize('receive', target, options)
    }
    const resolve = async () => {
      const { at: source } = await this.#symlinks.follow('move', await this.#access.resolve(from, options), options)
      const named = await this.#access.resolveMoveTarget(to, source, options)
      const target = await this.#symlinks.follow('receive', named, options, { entry: true })
      authorize(source, target.at)
      return [source, target] as const
    }
    const named = () => {
      const [source, target] = [this.#access.resolveAtOnce(from)?.at, this.#access.resolveAtOnce(to)?.at]
      if (source === undefined || target === undefined) return undefined
      try {
        authorize(source, target)
        return [source, target] as const
      } catch {
        // A symlink may lead to where it is allowed.
        return undefined
      }
    }
    return this.#transfer('move', from, resolve, options, named)
  }

  copy(from: Path, to: Path, options: TransferOptions): Promise<TransferResult> {
    const resolve = async () => {
      const { at: source } = await this.#access.resolveAndAuthorize('read', from, options)
      this.#access.authorize('copy', source, options)
      const named = await this.#access.resolve(to, options)
      const target = await this.#symlinks.follow('receive', named, options, { entry: true })
      this.#access.authorize('receive', target.at, options)
      return [source, target] as const
    }
    return this.#transfer('copy', from, resolve, options)
  }

  /**
   * Whether the paths are on different storages, so that the transfer can take long. Rejects as `copy` or `move` would,
   * as far as that depends on the principal alone. The source need not exist.
   */
  isBetweenStorages(kind: 'copy' | 'move', from: Path, to: Path, options: AccessOptions = {}): Promise<boolean> {
    return this.#redaction.during(kind, from, async () => {
      const { mounts } = this.#dependencies
      const action = kind === 'copy' ? 'read' : 'move'
      const { at: source } = await this.#access.resolveAndAuthorize(action, from, options)
      this.#access.authorize(kind, source, options)
      if (kind === 'move') this.#access.assertMovable(source, 'mount_moved')
      const { at: target } = await this.#symlinks.follow('receive', await this.#access.resolve(to, options), options)
      this.#access.authorize('receive', target, options)
      const { storage } = mounts.find(source)
      return mounts.find(target, storage).storage !== storage
    })
  }

  setAttributes(path: Path, to: Attributes, options: ChangeOptions = {}): Promise<void> {
    const setting: ChangePlan<OnePath> = {
      options,
      resolve: async () => [await this.#access.resolveAndAuthorize('attributes', path, options)],
      named: this.#access.naming('attributes', path, options),
      load: hasPreconditions(options) ? 'target' : 'nothing',
      touches: ({ at }) => [{ path: at }],
    }
    return this.#change('set attributes', path, setting, (target) => this.#setAttributes(target, to))
  }

  async #setAttributes({ at, storage, inner, signal }: Target, to: Attributes): Promise<void> {
    await storage.setAttributes(inner, await this.#access.settableAttributes(at, to), { signal })
  }

  /** As `setAttributes`, for a symlink itself. Rejects with `invalid` for a mode: a symlink has none. */
  setOwnAttributes(path: Path, to: Attributes, options: ChangeOptions = {}): Promise<void> {
    const setting: ChangePlan<OnePath> = {
      options,
      resolve: this.#access.resolver('attributes', path, options, false),
      named: this.#access.naming('attributes', path, options),
      load: 'symlink',
      require: ({ existing }) => {
        if (!isSymlink(existing) || to.mode === undefined) return
        throw new GatewayError('invalid', { reason: 'a symlink has no mode of its own' })
      },
      touches: ({ at }) => [{ path: at }],
    }
    return this.#change('set attributes', path, setting, async (target) => {
      const { storage, inner, existing, signal } = target
      if (!isSymlink(existing)) await this.#setAttributes(target, to)
      else if (to.modified !== undefined) await storage.setSymlinkTime(inner, to.modified, { signal })
    })
  }

  symlink(path: Path, target: string, options: ChangeOptions = {}): Promise<void> {
    const making: ChangePlan<OnePath> = {
      options,
      resolve: this.#access.resolver('write', path, options, false),
      require: (made) => made.assertFree(),
      touches: ({ at }) => [{ path: at, membership: true }],
    }
    return this.#change('make symlink', path, making, async ({ at, storage, inner, signal }) => {
      // To the client it is a path of the tree, to the backend a path of the storage.
      const leadsTo = await this.#symlinks.authorizeNew(storage.mountPoint, this.#access.place(at), target, options)
      await storage.symlink(inner, target.startsWith('/') ? leadsTo : target, { signal })
    })
  }

  hardLink(from: Path, to: Path, options: ChangeOptions = {}): Promise<void> {
    const linking: ChangePlan<TwoPaths> = {
      options,
      resolve: async () => {
        // By the new name the file can be written in place, so the right to write it by the old one is required.
        const source = await this.#access.resolveAndAuthorize('write', from, options)
        this.#access.authorize('read', source.at, options)
        this.#access.authorize('copy', source.at, options)
        return [source, await this.#access.resolveAndAuthorize('write', to, options, { last: false })]
      },
      require: (source, made) => {
        made.assertFree()
        if (source.storage === made.storage) return
        throw new GatewayError('unsupported', { reason: 'a hard link stays within its storage' })
      },
      touches: (source, made) => [{ path: source.at }, { path: made.at, membership: true }],
    }
    return this.#change('make hard link', to, linking, (source, made) =>
      made.storage.hardLink(source.inner, made.inner, { signal: made.signal }),
    )
  }

  // Locks and properties

  /**
   * Locks `path`. If nothing exists there, creates an empty file (RFC 4918 §9.10.4); with `makesFile: false`, rejects
   * with `not_found`. Rejects with `denied` for a dangling symlink, as `write` does.
   */
  lock(path: Path, request: LockRequest, options: LockOptions = {}): Promise<LockResult> {
    return this.#redaction.during('lock', path, () => this.#locks.lock(path, request, options))
  }

  refreshLock(path: Path, token: string, seconds: number, options: ChangeOptions = {}): Promise<Lock> {
    return this.#authorized('refresh lock', 'lock', path, options, ({ at }) =>
      this.#locks.refresh(at, token, seconds, options),
    )
  }

  unlock(path: Path, token: string, options: AccessOptions = {}): Promise<void> {
    return this.#authorized('unlock', 'lock', path, options, ({ at }) => this.#locks.unlock(at, token))
  }

  /** The locks that cover the path. `members`: names of direct members of this folder, whose own locks are included. */
  locks(
    path: Path,
    options: AccessOptions & { readonly members?: readonly string[] | undefined } = {},
  ): Promise<readonly Lock[]> {
    return this.#authorized('list locks', 'entry', path, options, async ({ at }) =>
      this.#locks.covering(at, options.members ?? []),
    )
  }

  /** The dead properties stored for this path. */
  properties(path: Path, options: AccessOptions = {}): Promise<readonly Property[]> {
    return this.#authorized('read properties', 'entry', path, options, ({ at }) => this.#properties.of(at))
  }

  /**
   * The dead properties of the members of a folder that have any, by name. Undefined if they are too large to be
   * returned together. `names`: of these members only, whatever their size.
   */
  memberProperties(
    path: Path,
    options: AccessOptions & { readonly names?: readonly string[] | undefined } = {},
  ): Promise<ReadonlyMap<string, readonly Property[]> | undefined> {
    return this.#authorized('read properties', 'list', path, options, ({ at }) =>
      this.#properties.ofMembers(at, options.names),
    )
  }

  /** Makes all of the changes, or none. */
  setProperties(path: Path, changes: readonly PropertyChange[], options: ChangeOptions = {}): Promise<void> {
    const setting: ChangePlan<OnePath> = {
      options,
      resolve: this.#access.resolver('properties', path, options),
      named: this.#access.naming('properties', path, options),
      require: ({ existing }) => existing,
      touches: ({ at }) => [{ path: at }],
    }
    return this.#change('set properties', path, setting, (target) =>
      this.#properties.change(target, changes, this.principal.userId),
    )
  }

  // Steps that several operations share

  /**
   * Runs `work` with the path, after authorizing the action. 'entry': to read what is known about an entry besides its
   * content.
   */
  #authorized<Result>(
    op: OperationName,
    action: Action | 'entry',
    path: Path,
    options: AccessOptions & StatOptions,
    work: (place: Place) => Promise<Result>,
  ): Promise<Result> {
    const authorized = () =>
      action === 'entry'
        ? this.#access.resolveAndAuthorizeEntry(path, options)
        : this.#access.resolveAndAuthorize(action, path, options)
    return this.#redaction.during(op, path, async () => work(await authorized()))
  }

  /** Reads what the backend tells about `path`, besides its entry and its content. */
  #reading<Result>(
    op: OperationName,
    path: Path,
    options: AccessOptions,
    ask: (location: MountedPath) => Promise<Result>,
  ): Promise<Result> {
    return this.#authorized(op, 'entry', path, options, ({ at }) => ask(this.#tree.locate(at)))
  }

  #transfer(
    kind: 'move' | 'copy',
    from: Path,
    resolve: () => Promise<readonly [source: Path, target: ResolvedPath]>,
    options: TransferOptions,
    named?: () => readonly [source: Path, target: Path] | undefined,
  ): Promise<TransferResult> {
    return this.#redaction.during(kind, from, () =>
      this.#access.untilRevoked(options, (signal) =>
        this.#transfers.transfer(kind, resolve, { ...options, signal }, named),
      ),
    )
  }

  /** Performs a change while its path locks are held. `path` is added to its errors. */
  #change<Paths extends readonly ResolvedPath[]>(
    op: OperationName,
    path: Path,
    plan: ChangePlan<Paths>,
    perform: (...targets: Targets<Paths>) => Promise<void>,
  ): Promise<void> {
    return this.#redaction.during(op, path, () => new Change(this.#scope, plan).underLocks(perform))
  }

  /** The entry, with the name by which the principal knows it. */
  async #entry({ at, principal }: Place, options: AccessOptions & FreshStatOptions): Promise<Entry> {
    const entry = await this.#tree.entry(at, options)
    return at === principal.base ? { ...entry, name: '' } : entry
  }
}
