/**
 * The tree as one principal sees it: the only way by which a protocol reaches files. Every method resolves its path
 * below the principal's base and authorizes it. Every change is a `Change`. Parameters and results are paths of the
 * principal; `at` is a path of the whole tree. Here is what the operations promise and what their errors name; the
 * functions that do it get the `Access` of the principal.
 */
import type { Readable } from 'node:stream'
import type { Principal } from '../accounts/principal.js'
import type { EventKind } from '../audit/event.js'
import type {
  Attributes,
  DirectUrl,
  OpenFile,
  OpenMode,
  Thumbnail,
  ThumbnailKind,
  ThumbnailOptions,
  UrlClient,
  Usage,
} from '../contract/capabilities.js'
import type { ByteRange, Source, StatOptions } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import { isGatewayError, isWithoutStorage, type OperationName } from '../base/errors.js'
import { root, under, type Path } from '../base/path.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { FreshStatOptions } from '../storage/storage.js'
import type { Property, PropertyChange } from '../database/tables/files.js'
import type { Lock, LockRequest } from '../database/tables/locks.js'
import { sameness } from '../transfer/same-file.js'
import type { DownloadRoute, DownloadRouteOptions } from '../download-urls/download-routing.js'
import { Access, type Place } from './access.js'
import type { TreeDependencies } from './dependencies.js'
import type { Action } from './policy/one-path.js'
import type { FileWriteOptions } from './file-content.js'
import type { FileOpenOptions, FileToSend, SendingOptions, WritableTreeFile } from './file-handles.js'
import { search, type SearchResult, type SearchOptions } from './search-results.js'
import type { FolderView, FolderListOptions, Listing } from './folder-contents.js'
import { assertMembersReadable, members, type TreeMember } from './tree-members.js'
import { assertPreconditionsAt } from './change.js'
import { history, type History, type HistoryOptions } from './history.js'
import type { Preconditions } from './preconditions.js'
import type {
  AccessOptions,
  ChangeOptions,
  TreeReadOptions,
  Reservation,
  TransferResult,
  WriteResult,
} from './operation-options.js'
import { draftOf, recorded, refusalRecorded, type EventDraft } from './recording.js'
import { withOwnErrors, yielding } from './redaction.js'
import { readSymlink } from './symlinks.js'
import type { TransferOptions } from './transfer-job.js'
import { unreadable, type SeenEntry } from './seen-entry.js'
import type { LockResult } from './locks-and-properties.js'
import * as changes from './entry-changes.js'
import * as content from './file-content.js'
import * as handles from './file-handles.js'
import * as folders from './folder-contents.js'
import * as transfers from './transfers.js'
import * as locksAndProperties from './locks-and-properties.js'

export type { Property, PropertyChange, PropertyName } from '../database/tables/files.js'
export { maxPropertiesSize } from './locks-and-properties.js'

export type { SerializedPart, SerializedParts } from '../storage/listing-cache.js'
export type {
  DownloadRoute,
  DownloadRouteOptions,
  FileToSend,
  FolderView,
  SeenEntry,
  SendingOptions,
  TransferOptions,
  TreeDependencies,
  TreeMember,
  WritableTreeFile,
}

/** The actions that `assertAllowed` checks, with the operation that its errors name. */
const checkedActions = {
  list: 'stat',
  lock: 'lock',
  properties: 'set properties',
  read: 'stat',
  share: 'stat',
} as const

/** The event of a change whose checks are made in advance. */
const kindOf = {
  rename: 'moved',
  move: 'moved',
  copy: 'copied',
  remove: 'removed',
  write: 'file.stored',
} as const satisfies Record<string, EventKind>

/** Small: one is made for each request. All else that it uses is made once. */
export class VirtualFs {
  readonly #access: Access

  constructor(
    dependencies: TreeDependencies,
    readonly principal: Principal,
  ) {
    this.#access = new Access(dependencies, principal)
  }

  // Reading

  /** `ofSymlink`: the entry of a symlink itself, not of its target. */
  stat(path: Path, options: AccessOptions & FreshStatOptions = {}): Promise<Entry> {
    return this.#authorized('stat', 'entry', path, options, (place) => this.#entry(place, options))
  }

  /** The entry, and what the folder rules define for it. */
  view(path: Path, options: AccessOptions = {}): Promise<{ readonly entry: SeenEntry; readonly folder: FolderView }> {
    return this.#authorized('stat', 'entry', path, options, async (place) => {
      const entry = await this.#entry(place, options)
      return {
        entry: entry.kind !== 'file' || (await this.#mayRead(path, options)) ? entry : unreadable(entry),
        folder: folders.folderView(this.#access, place.at),
      }
    })
  }

  /** Whether the grants let the principal read the content of the file, which it may see. */
  async #mayRead(path: Path, options: AccessOptions): Promise<boolean> {
    if (!this.#access.decisions.hasGrants) return true
    try {
      await this.#access.resolveAndAuthorizeEntry(path, options, 'read')
      return true
    } catch (error) {
      if (isGatewayError(error, 'denied')) return false
      throw error
    }
  }

  list(path: Path, options: FolderListOptions = {}): Promise<Listing> {
    return this.#withOwnErrors('list', path, (access) => folders.list(access, path, options))
  }

  /**
   * The entries of a folder in pages, in any order. Memory use does not grow with a folder of a driver that has
   * `folderRevision`.
   */
  pages(path: Path, options: AccessOptions = {}): AsyncGenerator<readonly Entry[]> {
    const folder = () => this.#access.resolveAndAuthorize('list', path, options)
    return yielding(this.#access, 'list', path, async () => folders.pages(this.#access, await folder(), options))
  }

  /**
   * Yields the members of the folder at any depth, a folder before what is in it. `names`: only those of its members,
   * and what is in them; empty: all. Rejects if one that listings show cannot be listed: the error names it.
   */
  members(path: Path, names: readonly string[], options: AccessOptions = {}): AsyncGenerator<TreeMember> {
    return members(this.#access, path, names, options)
  }

  /** Rejects as `members` does, as far as that can be known without listing all folders. */
  assertMembersReadable(path: Path, names: readonly string[], options: AccessOptions = {}): Promise<void> {
    return assertMembersReadable(this.#access, path, names, options)
  }

  /**
   * Searches the index for names at any depth below `path` that the principal may see. Finds none if the principal may
   * not read `path`, or it does not exist. Rejects with `unavailable` if search is off, and with `throttled` as reads
   * do.
   */
  search(path: Path, options: SearchOptions): Promise<SearchResult> {
    return this.#withOwnErrors('search', path, (access) => search(access, path, options))
  }

  /** Returns who did what to the file or folder. Rejects as `stat` does. */
  history(path: Path, options: HistoryOptions): Promise<History> {
    return this.#withOwnErrors('stat', path, (access) => history(access, path, options))
  }

  read(path: Path, range?: ByteRange, options: TreeReadOptions = {}): Promise<Readable> {
    return this.#withOwnErrors('read', path, (access) => content.read(access, path, range, options))
  }

  /**
   * Opens a handle. 'read' and 'update' require an existing file; 'update' writes in place. 'replace' writes a new or
   * truncated file, which `commit` publishes; `readable` if it is read too. Calls reject once the session is revoked.
   */
  open(path: Path, mode: 'update' | 'replace', options?: FileOpenOptions): Promise<WritableTreeFile>
  open(path: Path, mode: OpenMode, options?: FileOpenOptions): Promise<OpenFile>
  open(path: Path, mode: OpenMode, options: FileOpenOptions = {}): Promise<OpenFile> {
    if (mode === 'read') return this.#withOwnErrors('open', path, (access) => handles.openToRead(access, path, options))
    return this.#recordedIfRoom('file.replaced', 'open', path, async (access, event) => {
      const file = await handles.openToWrite(access, path, mode, options, { ...event })
      event.changesNothing = true
      return file
    })
  }

  /**
   * Rejects with `denied` if the principal may write the file and not read it. For handles that were not opened to
   * read.
   */
  assertContentGranted(path: Path, options: AccessOptions = {}): Promise<void> {
    return this.#withOwnErrors('open', path, async (access) => {
      const place = await access.resolve(path, options)
      access.decisions.assertSeen('read', place, options)
      const { at } = place
      if (!access.decisions.isRestricted) return
      access.decisions.assertContentGranted(at)
      access.decisions.assertContentGranted(await access.tree.realPath(at, { signal: options.signal, last: true }))
    })
  }

  /**
   * Opens a file to send parts of it. With a `route`, decides as `downloadRoute` does whether the client is redirected
   * instead.
   */
  openToSend(path: Path, options: SendingOptions = {}): Promise<FileToSend> {
    return this.#withOwnErrors('open', path, (access) => handles.openToSend(access, path, options))
  }

  /**
   * Returns the way on which the content of a file reaches a client. Rejects with `denied` if the storage's options do
   * not allow any way.
   */
  downloadRoute(path: Path, options: AccessOptions & DownloadRouteOptions): Promise<DownloadRoute> {
    return this.#reading('direct URL', 'read', path, options, async ({ storage, inner }) =>
      this.#access.dependencies.downloadRouting.route(storage, inner, options),
    )
  }

  /** The backend's own URL for this client, whatever the storage's options are; undefined if it has none. */
  directUrl(path: Path, options: AccessOptions & UrlClient = {}): Promise<DirectUrl | undefined> {
    const { signal, userAgent, address } = options
    return this.#reading('direct URL', 'read', path, options, ({ storage, inner }) =>
      storage.directUrl(inner, { signal, userAgent, address }),
    )
  }

  /**
   * Undefined if no thumbnail can be made of this file. Rejects with `invalid` as `Driver.thumbnail` does. `size`: as
   * that of the driver.
   */
  thumbnail(
    path: Path,
    kind: ThumbnailKind,
    options: AccessOptions & Pick<ThumbnailOptions, 'size'> = {},
  ): Promise<Thumbnail | undefined> {
    const { thumbnails } = this.#access.dependencies
    const { holder } = this.#access.principal
    const { size } = options
    return this.#reading('make thumbnail', 'read', path, options, ({ storage, inner }) =>
      this.#access.untilRevoked(options, (signal) =>
        thumbnails.run(holder, () => storage.thumbnail(inner, kind, { signal, holder, size }), signal),
      ),
    )
  }

  usage(path: Path, options: AccessOptions = {}): Promise<Usage> {
    return this.#reading('usage', 'see', path, options, ({ storage }) => storage.usage({ signal: options.signal }))
  }

  /**
   * Like `usage`; undefined if the storage cannot report it or does not respond, where no storage is mounted, and for
   * visitors of a share.
   */
  async usageOrUndefined(path: Path, options: AccessOptions = {}): Promise<Usage | undefined> {
    if (this.principal.share !== undefined) return undefined
    try {
      return await this.#reading('usage', 'see', path, options, ({ storage }) =>
        storage.usageOrUndefined({ signal: options.signal }),
      )
    } catch (error) {
      if (isGatewayError(error, 'unavailable') || isWithoutStorage(error)) return undefined
      throw error
    }
  }

  /** The usage of each path that is a mount point. Omits storages that do not report it in time. None for guests. */
  async mountUsages(paths: readonly Path[]): Promise<ReadonlyMap<Path, Usage>> {
    if (!this.#access.decisions.seesMountUsages) return new Map()
    const { mounts } = this.#access.dependencies
    const { principal } = await this.#access.resolve(root, {})
    // Called for every entry of a listing: must be cheap for paths that are no mount points.
    const mounted = paths.filter((path) => {
      const at = under(principal.base, path)
      return mounts.isMountPoint(at) && !mounts.startOf(at)
    })
    const usages = await Promise.all(
      mounted.map(async (path) => {
        try {
          const { storage } = mounts.find((await this.#access.resolveAndAuthorizeEntry(path, {})).at)
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
    return this.#withOwnErrors('stat', from, async (access) => {
      const { mounts } = access.dependencies
      const source = mounts.find((await access.resolveAndAuthorize('read', from, options)).at)
      const target = mounts.find((await access.resolveAndAuthorize('write', to, options)).at)
      return (await sameness(source, target, options.signal)) === 'same'
    })
  }

  readSymlink(path: Path, options: AccessOptions = {}): Promise<string> {
    return this.#withOwnErrors('read symlink', path, (access) => readSymlink(access, path, options))
  }

  /** Rejects with `precondition_failed` unless the preconditions hold for the entry at `path`. */
  check(path: Path, conditions: Preconditions, options: AccessOptions = {}): Promise<void> {
    const required = { ...options, ...conditions }
    return this.#authorized('check', 'see', path, options, ({ at }) =>
      assertPreconditionsAt(this.#access, at, required),
    )
  }

  // Changing

  /** Replaces or creates a file. Resolves when it is stored. */
  write(path: Path, source: Source, options: FileWriteOptions = {}): Promise<WriteResult> {
    return this.#recordedIfRoom('file.stored', 'write', path, (access, event) =>
      content.write(access, path, this.fromClient(source), options, event),
    )
  }

  /** Creates an empty file, which reserves its name. Rejects with `exists` if the name is taken. */
  reserve(path: Path, options: ChangeOptions = {}): Promise<Reservation> {
    return this.#recordedIfRoom('file.stored', 'write', path, (access, event) =>
      content.reserve(access, path, options, event),
    )
  }

  /** Limits the speed of a body that a protocol receives before it calls `write`. */
  fromClient(source: Source): Source {
    return this.#access.dependencies.bandwidth.fromClients.source(source)
  }

  /** Rejects as `write` does before it reads the body. For protocols that receive the body before they call `write`. */
  assertWritable(path: Path, options: ChangeOptions = {}): Promise<void> {
    return this.recordingRefusals('file.stored', path, () => this.checkWritable(path, options))
  }

  /** Makes the checks of `assertWritable`, without recording a rejection as a refusal. */
  protected checkWritable(path: Path, options: ChangeOptions): Promise<void> {
    return this.#withOwnErrors('write', path, (access) => content.assertWritable(access, path, options))
  }

  /**
   * Rejects if the principal may not do this with what is at `path`, as far as that depends on the principal and the
   * rules alone. For protocols that have to authorize a request before they interpret its body.
   */
  assertAllowed(action: keyof typeof checkedActions, path: Path, options: AccessOptions = {}): Promise<void> {
    return this.#withOwnErrors(checkedActions[action], path, async (access) => {
      const { at, principal } = await access.resolve(path, options)
      access.decisions.authorize(action, at, options, principal)
    })
  }

  /** Rejects if the principal may not make this change to any member of the folder. */
  assertMayChange(action: keyof typeof kindOf, folder: Path, options: AccessOptions = {}): Promise<void> {
    const event = { ...draftOf(this.#access, kindOf[action], folder), action }
    return refusalRecorded(this.#access, event, () => this.checkMayChange(action, folder, options))
  }

  /** Makes the checks of `assertMayChange`, without recording a rejection as a refusal. */
  checkMayChange(action: keyof typeof kindOf, folder: Path, options: AccessOptions = {}): Promise<void> {
    return this.#withOwnErrors(action, folder, async (access) => {
      access.decisions.authorizeMembers(action, (await access.resolve(folder, options)).at, options)
    })
  }

  mkdir(path: Path, options: changes.FolderOptions = {}): Promise<void> {
    return this.#recordedIfRoom('folder.made', 'make folder', path, (access, event) =>
      changes.mkdir(access, path, options, event),
    )
  }

  /** A symlink is removed, not its target. */
  remove(path: Path, options: changes.RemovalOptions = {}): Promise<void> {
    return this.#recorded('removed', 'remove', path, (access, event) => changes.remove(access, path, options, event))
  }

  /**
   * Requires the right to rename within a folder, the right to move between folders, and both if the name changes too.
   * Rejects with `exists` unless `overwrite`, and with TreeError if only a part could be moved.
   */
  move(from: Path, to: Path, options: TransferOptions): Promise<TransferResult> {
    return this.#recordedIfRoom(
      'moved',
      'move',
      from,
      (access, event) => transfers.move(access, from, to, options, event),
      to,
    )
  }

  /** Rejects with TreeError if only a part could be copied. */
  copy(from: Path, to: Path, options: TransferOptions): Promise<TransferResult> {
    return this.#recordedIfRoom(
      'copied',
      'copy',
      from,
      (access, event) => transfers.copy(access, from, to, options, event),
      to,
    )
  }

  /**
   * Whether the paths are on different storages, so that the transfer can take long. Rejects as `copy` or `move` would,
   * as far as that depends on the principal alone. The source need not exist.
   */
  isBetweenStorages(kind: 'copy' | 'move', from: Path, to: Path, options: AccessOptions = {}): Promise<boolean> {
    const between = () =>
      this.#withOwnErrors(kind, from, (access) => transfers.isBetweenStorages(access, kind, from, to, options))
    return this.recordingRefusals(kindOf[kind], from, between, to)
  }

  setAttributes(path: Path, to: Attributes, options: ChangeOptions = {}): Promise<void> {
    return this.#recordedIfRoom('attributes.set', 'set attributes', path, (access) =>
      changes.setAttributes(access, path, to, options),
    )
  }

  /**
   * Sets the attributes of a symlink itself. Rejects as `setAttributes` does, and with `invalid` for a mode: a symlink
   * has none.
   */
  setOwnAttributes(path: Path, to: Attributes, options: ChangeOptions = {}): Promise<void> {
    return this.#recordedIfRoom('attributes.set', 'set attributes', path, (access) =>
      changes.setOwnAttributes(access, path, to, options),
    )
  }

  symlink(path: Path, target: string, options: ChangeOptions = {}): Promise<void> {
    return this.#recordedIfRoom('link.made', 'make symlink', path, (access, event) =>
      changes.symlink(access, path, target, options, event),
    )
  }

  hardLink(from: Path, to: Path, options: ChangeOptions = {}): Promise<void> {
    return this.#recordedIfRoom('link.made', 'make hard link', to, (access, event) =>
      changes.hardLink(access, from, to, options, event),
    )
  }

  // Locks and properties

  /**
   * Locks `path`. If nothing exists there, creates an empty file (RFC 4918 §9.10.4); with `makesFile: false`, rejects
   * with `not_found`. Rejects with `denied` for a dangling symlink that the storage does not
   * resolve, as `write` does.
   */
  lock(path: Path, request: LockRequest, options: ChangeOptions = {}): Promise<LockResult> {
    return this.#recordedIfRoom('locked', 'lock', path, (access) =>
      locksAndProperties.lock(access, path, request, options),
    )
  }

  /** Rejects as `Locks.refresh`. Where the principal sees nothing, there is no lock. */
  refreshLock(path: Path, token: string, seconds: number, options: ChangeOptions = {}): Promise<Lock> {
    return this.#withOwnErrors('refresh lock', path, (access) =>
      locksAndProperties.refresh(access, path, token, seconds, options),
    )
  }

  /** Rejects as `refreshLock`. */
  unlock(path: Path, token: string, options: AccessOptions = {}): Promise<void> {
    return this.#recorded('unlocked', 'unlock', path, (access) =>
      locksAndProperties.unlock(access, path, token, options),
    )
  }

  /** The locks that cover the path. `members`: names of direct members of this folder, whose own locks are included. */
  locks(
    path: Path,
    options: AccessOptions & { readonly members?: readonly string[] | undefined } = {},
  ): Promise<readonly Lock[]> {
    return this.#authorized('list locks', 'entry', path, options, async ({ at }) =>
      locksAndProperties.covering(this.#access, at, options.members ?? []),
    )
  }

  /** The dead properties stored for this path, which visitors of a share see few of. */
  properties(path: Path, options: AccessOptions = {}): Promise<readonly Property[]> {
    return this.#authorized('read properties', 'entry', path, options, async ({ at }) =>
      locksAndProperties.shownProperties(this.#access, await this.#access.dependencies.store.properties.of(at)),
    )
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
      locksAndProperties.memberProperties(this.#access, at, options.names),
    )
  }

  /** Whether the principal may make this change to the dead properties of what it may change. */
  mayChangeProperty(change: PropertyChange): boolean {
    return locksAndProperties.mayChangeProperty(this.principal, change)
  }

  /** Makes all of the changes, or none. Rejects with `denied` unless `mayChangeProperty` allows each. */
  setProperties(path: Path, toChange: readonly PropertyChange[], options: ChangeOptions = {}): Promise<void> {
    return this.#recordedIfRoom('attributes.set', 'set properties', path, (access) =>
      locksAndProperties.setProperties(access, path, toChange, options),
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
    return this.#withOwnErrors(op, path, async () => work(await authorized()))
  }

  /** Reads what the backend reports about `path`, or for `read`, what is derived from its content. */
  #reading<Result>(
    op: OperationName,
    action: 'see' | 'read',
    path: Path,
    options: AccessOptions,
    ask: (location: MountedPath) => Promise<Result>,
  ): Promise<Result> {
    return this.#withOwnErrors(op, path, async (access) => {
      const { at } = await access.resolveAndAuthorizeEntry(path, options, action)
      return ask(access.dependencies.mounts.find(at))
    })
  }

  /** Makes a change, and records its event. */
  #recorded<Result>(
    kind: EventKind,
    op: OperationName,
    path: Path,
    work: (access: Access, event: EventDraft) => Promise<Result>,
    target?: Path,
  ): Promise<Result> {
    const event = draftOf(this.#access, kind, path, target)
    return recorded(this.#access, event, () => this.#withOwnErrors(op, path, (access) => work(access, event)))
  }

  /**
   * Records a change that adds or alters something, as `#recorded` does. A full audit refuses it
   * (`Audit.assertWritable`).
   */
  #recordedIfRoom<Result>(
    kind: EventKind,
    op: OperationName,
    path: Path,
    work: (access: Access, event: EventDraft) => Promise<Result>,
    target?: Path,
  ): Promise<Result> {
    const writable = (access: Access, event: EventDraft) => {
      access.dependencies.audit.assertWritable()
      return work(access, event)
    }
    return this.#recorded(kind, op, path, writable, target)
  }

  /** Runs what precedes a change, or makes it. A rejection is recorded, unless it was, as that of the change. */
  protected recordingRefusals<Result>(
    kind: EventKind,
    path: Path,
    check: () => Promise<Result>,
    target?: Path,
  ): Promise<Result> {
    return refusalRecorded(this.#access, draftOf(this.#access, kind, path, target), check)
  }

  #withOwnErrors<Result>(op: OperationName, path: Path, work: (access: Access) => Promise<Result>): Promise<Result> {
    return withOwnErrors(this.#access, op, path, work)
  }

  /** The entry, with the name by which the principal knows it. */
  async #entry({ at, principal }: Place, options: AccessOptions & FreshStatOptions): Promise<Entry> {
    const entry = this.#access.decisions.factsOf(at, await this.#access.tree.entry(at, options))
    return at === principal.base ? { ...entry, name: '' } : entry
  }
}
