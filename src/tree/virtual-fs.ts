/**
 * The tree as one principal sees it: the only way by which a protocol reaches files. Every method resolves its path
 * below the principal's base and authorizes it. Every change is an operation (`operation.ts`). Parameters and results
 * are paths of the principal; in this file, `at` is a path of the whole tree.
 */
import { Readable } from 'node:stream'
import type { Principal } from '../accounts/principal.js'
import type { ProtocolName } from '../accounts/protocols.js'
import { joinSignals } from '../contract/cancellation.js'
import type {
  Attributes,
  DirectUrl,
  OpenFile,
  OpenMode,
  Thumbnail,
  ThumbnailKind,
  Usage,
} from '../contract/capabilities.js'
import type { ByteRange, Source } from '../contract/driver.js'
import { isLink, isRealFolder, type Entry } from '../contract/entry.js'
import { GatewayError, isGatewayError, undefinedIfUnsupported } from '../contract/errors.js'
import { checkName, childOf, nameOf, parentOf, resolvePath, root, under, within, type Path } from '../contract/path.js'
import type { DownloadRoute, DownloadRouteOptions } from '../links/download-routing.js'
import { throttled } from '../storage/bandwidth.js'
import { MountedTree, type ResolvedPath } from '../storage/mounted-tree.js'
import type { ResumableUpload } from '../storage/resumable-write.js'
import type { Storage } from '../storage/storage.js'
import { TransferMeter } from '../storage/transfer-meter.js'
import type { Lock, LockRequest, Property, PropertyChange } from '../store/rows.js'
import { Access } from './access.js'
import type { TreeDependencies } from './dependencies.js'
import { findNames, type SearchResult, type SearchOptions } from './finding.js'
import { removeEntry } from './follow-up.js'
import { makeMissingFolders } from './missing-folders.js'
import { Operations, type Operation } from './operation.js'
import type { Action } from './policy.js'
import {
  hasPreconditions,
  type AccessOptions,
  type ChangeOptions,
  type TransferResult,
  type WriteResult,
  type Preconditions,
} from './preconditions.js'
import { Transfers, type TransferOptions } from './transfers.js'
import { folderView, visibleEntries, type EntryFilter, type FolderView } from './visibility.js'
import { VisibleNames } from './visible-names.js'

export type { Property, PropertyChange, PropertyName } from '../store/rows.js'
export { maxPropertiesSize } from '../store/properties.js'

export type { FolderView, TransferOptions, TreeDependencies }

export interface FolderListOptions extends AccessOptions, EntryFilter {
  /** Does not use the cached listing. Requires the right to write here. */
  readonly refresh?: boolean | undefined
  /** The part that is returned. Its entries are as current as the backend reports. */
  readonly offset?: number | undefined
  readonly limit?: number | undefined
}

export interface Listing {
  /** The requested part. Sorted by the storage's options, with mount points, without hidden entries. */
  readonly entries: readonly Entry[]
  /** Number of entries in all parts. */
  readonly total: number
  readonly folder: FolderView
}

/** Options of a write. */
export interface FileWriteOptions extends ChangeOptions {
  /** Creates missing folders. */
  readonly parents?: boolean | undefined
  /** For a task that can resume the upload. */
  readonly resumable?: ResumableUpload | undefined
}

/** Options of an open for writing. */
export interface FileOpenOptions extends ChangeOptions {
  /** What was written can be read before it is published. */
  readonly readable?: boolean | undefined
  /** Returns the permission bits, given the file that is replaced. */
  readonly modeOver?: ((old: Entry | undefined) => number | undefined) | undefined
  /** Called while the path lock is held. A rejection leaves the old file unchanged. */
  readonly beforePublish?: (() => Promise<void>) | undefined
}

/** A handle for writing. */
export interface WritableFile extends OpenFile {
  /** The file that had this name when the handle was opened. */
  readonly old: Entry | undefined
}

type OnePath = readonly [ResolvedPath]
type TwoPaths = readonly [ResolvedPath, ResolvedPath]

export class VirtualFs {
  readonly #parts: TreeDependencies
  readonly #access: Access
  readonly #tree: MountedTree
  readonly #operations: Operations
  readonly #transfers: Transfers
  readonly #meter: TransferMeter

  /** `by`: reported with every transfer of file content. */
  constructor(
    parts: TreeDependencies,
    readonly principal: Principal,
    by: ProtocolName | 'task' = principal.protocol,
  ) {
    this.#parts = parts
    this.#tree = new MountedTree(parts.mounts, parts.log)
    this.#access = new Access(parts, this.#tree, principal)
    this.#operations = new Operations(parts, this.#access, this.#tree)
    this.#meter = new TransferMeter(parts.events, by)
    this.#transfers = new Transfers(parts, this.#access, this.#tree, this.#operations, this.#meter)
  }

  // Reading

  /** `link`: the entry of a symlink itself, not of its target. */
  stat(path: Path, options: AccessOptions & { readonly link?: boolean | undefined } = {}): Promise<Entry> {
    return this.#access.withErrorContext('stat', path, async () => {
      return this.#entry(await this.#access.resolveAndAuthorize('read', path, options, options.link !== true), options)
    })
  }

  /** The entry, and what the folder rules define for it. */
  view(path: Path, options: AccessOptions = {}): Promise<{ readonly entry: Entry; readonly folder: FolderView }> {
    return this.#access.authorized('stat', 'read', path, options, async (at) => ({
      entry: await this.#entry(at, options),
      folder: folderView(this.#parts, this.#access.principal, at),
    }))
  }

  list(path: Path, options: FolderListOptions = {}): Promise<Listing> {
    return this.#access.authorized('list', 'list', path, options, async (at) => {
      if (options.refresh === true) this.#access.authorize('refresh', at, options)
      const { entries, current: settled } = await this.#tree.listing(at, options)
      const shown = await this.#visible(await this.#access.resolve(path, options), at, entries, options)
      const offset = options.offset ?? 0
      const part =
        options.limit === undefined && offset === 0
          ? shown
          : shown.slice(offset, offset + (options.limit ?? shown.length))
      return {
        entries: await this.#linksSeen(at, settled ? part : await this.#tree.refreshed(at, part, options), options),
        total: shown.length,
        folder: folderView(this.#parts, this.#access.principal, at),
      }
    })
  }

  /** The same entries in pages, in any order. Memory use does not grow with the folder. */
  async *pages(path: Path, options: AccessOptions = {}): AsyncGenerator<readonly Entry[]> {
    try {
      await this.#access.ensureBase()
      const at = await this.#access.resolveAndAuthorize('list', path, options)
      const named = await this.#access.resolve(path, options)
      for await (const page of this.#tree.pages(at, options)) {
        this.#access.assertNotRevoked()
        yield await this.#linksSeen(at, await this.#visible(named, at, page, { signal: options.signal }), options)
      }
    } catch (error) {
      throw this.#access.redactErrorAt(error, path).at('list', path)
    }
  }

  /**
   * Searches the index for names at any depth below `path` that the principal may see. Finds none if the principal may
   * not read `path`, or it does not exist. Rejects with `unavailable` if search is off.
   */
  search(path: Path, options: SearchOptions): Promise<SearchResult> {
    return this.#access.withErrorContext('search', path, async () => {
      this.#access.assertMaySearch()
      const { rules, search } = this.#parts
      const at = await this.#access.resolve(path, options)
      const visible = new VisibleNames(rules, this.#access.principal, options.password)
      const { names, total } = await findNames(await search.reader(), visible, at, options)
      return { names: names.map((found) => ({ ...found, parent: this.#access.principalPath(found.parent) })), total }
    })
  }

  read(path: Path, range?: ByteRange, options: AccessOptions = {}): Promise<Readable> {
    return this.#access.authorized('read', 'read', path, options, async (at) => {
      const { storage, inner } = this.#tree.locate(at)
      const joined = joinSignals(options.signal, this.principal.signal)
      const transfer = this.#meter.start(storage, 'read')
      try {
        const stored = await storage.read(inner, range, { signal: joined.signal, user: this.principal.userId })
        const bytes = transfer.deliver(this.#parts.bandwidth.toClients.stream(stored))
        // The stream can fail before its reader has added a listener.
        bytes.on('error', () => undefined)
        try {
          if (joined.signal.aborted) throw new GatewayError('aborted')
          await this.#access.assertLinksUnchanged('read', at, options)
        } catch (error) {
          bytes.destroy()
          throw error
        }
        const stop = () => bytes.destroy(this.#access.redactError(new GatewayError('aborted')))
        joined.signal.addEventListener('abort', stop, { once: true })
        return bytes.once('close', () => joined.release())
      } catch (error) {
        transfer.end(error)
        joined.release()
        throw error
      }
    })
  }

  /**
   * Opens a handle. 'read' and 'update' require an existing file; 'update' writes in place. 'replace' writes a new or
   * truncated file, which `commit` publishes; `readable` if it is read too. Calls reject once the session is revoked.
   */
  open(path: Path, mode: 'update' | 'replace', options?: FileOpenOptions): Promise<WritableFile>
  open(path: Path, mode: OpenMode, options?: FileOpenOptions): Promise<OpenFile>
  open(path: Path, mode: OpenMode, options: FileOpenOptions = {}): Promise<OpenFile> {
    return this.#access.withErrorContext('open', path, async () => {
      if (mode !== 'read') return this.#openToWrite(path, mode, options)
      const at = await this.#access.resolveAndAuthorize('read', path, options)
      const { storage, inner } = this.#tree.locate(at)
      const open = () => storage.open(inner, 'read', { signal: options.signal, user: this.principal.userId })
      return this.#openToRead(path, at, storage, open, options)
    })
  }

  /**
   * Opens a file to send parts of it. Without a handle if the backend has none of its own: the caller then requests
   * each part by `read`.
   */
  openToSend(path: Path, options: AccessOptions = {}): Promise<{ readonly entry: Entry; readonly file?: OpenFile }> {
    return this.#access.withErrorContext('open', path, async () => {
      const at = await this.#access.resolveAndAuthorize('read', path, options)
      const { storage, inner } = this.#tree.locate(at)
      const open = () => storage.openOwn(inner, 'read', { signal: options.signal, user: this.principal.userId })
      const file = await this.#openToRead(path, at, storage, open, options)
      return file ? { entry: file.entry, file } : { entry: await storage.stat(inner, { signal: options.signal }) }
    })
  }

  /** Guards the handle that `open` returns, for reads by the principal. */
  async #openToRead<File extends OpenFile | undefined>(
    path: Path,
    at: Path,
    storage: Storage,
    open: () => Promise<File>,
    options: AccessOptions,
  ): Promise<OpenFile | File> {
    const hooks = this.#meter.handle(storage, 'read', options.signal)
    let file: File | undefined
    try {
      file = await open()
      if (!file) return file
      await this.#access.assertLinksUnchanged('read', at, options)
      const { toClients, fromClients } = this.#parts.bandwidth
      return this.#access.guardHandle(path, throttled(file, toClients, fromClients), hooks)
    } catch (error) {
      hooks.failed(error)
      hooks.closed()
      await file?.close()
      throw error
    }
  }

  /**
   * How the content of a file reaches a client. Rejects with `denied` if the storage's options do not allow any way.
   */
  downloadRoute(path: Path, options: AccessOptions & DownloadRouteOptions): Promise<DownloadRoute> {
    return this.#access.authorized('link', 'read', path, options, async (at) => {
      const { storage, inner } = this.#tree.locate(at)
      return this.#parts.downloadRouting.route(storage, inner, options)
    })
  }

  /** The backend's own URL, whatever the storage's options are; undefined if it has none. */
  directUrl(path: Path, options: AccessOptions = {}): Promise<DirectUrl | undefined> {
    return this.#access.authorized('link', 'read', path, options, async (at) => {
      const { storage, inner } = this.#tree.locate(at)
      return undefinedIfUnsupported(() => storage.directUrl(inner, options))
    })
  }

  /** Rejects as `Driver.thumbnail` does. */
  thumbnail(path: Path, kind: ThumbnailKind, options: AccessOptions = {}): Promise<Thumbnail> {
    return this.#access.authorized('make thumbnail', 'read', path, options, async (at) => {
      const { storage, inner } = this.#tree.locate(at)
      return this.#untilRevoked(options, (signal) => storage.thumbnail(inner, kind, { signal }))
    })
  }

  usage(path: Path, options: AccessOptions = {}): Promise<Usage> {
    return this.#access.authorized('usage', 'read', path, options, (at) => this.#tree.locate(at).storage.usage(options))
  }

  /** The usage of each path that is a mount point. Omits storages that do not report it in time. */
  async mountUsages(paths: readonly Path[]): Promise<ReadonlyMap<Path, Usage>> {
    const { mounts } = this.#parts
    // Called for every entry of a listing: must be cheap for paths that are no mount points.
    const mounted = paths.filter((path) => {
      const at = under(this.#access.principal.base, path)
      return mounts.isMountPoint(at) && !mounts.startOf(at)
    })
    const usages = await Promise.all(
      mounted.map(async (path) => {
        try {
          const { storage } = this.#tree.locate(await this.#access.resolveAndAuthorize('read', path, {}))
          return [path, await storage.usageWithTimeout()] as const
        } catch {
          // The storage does not run, or the principal may not read it.
          return [path, undefined] as const
        }
      }),
    )
    return new Map(usages.flatMap(([path, usage]) => (usage ? [[path, usage] as const] : [])))
  }

  readLink(path: Path, options: AccessOptions = {}): Promise<string> {
    return this.#access.withErrorContext('read link', path, async () => {
      const at = await this.#access.resolveAndAuthorize('read', path, options, false)
      const { storage, inner } = this.#tree.locate(at)
      const target = await storage.readLink(inner, options)
      if (!target.startsWith('/')) return target
      // To the backend it is a path of the storage, to the client a path of the tree.
      const seen = within(this.#access.principal.base, storage.treePath(resolvePath(root, target)))
      if (seen === undefined) throw new GatewayError('denied')
      return seen
    })
  }

  /** Rejects with `precondition_failed` unless the preconditions hold for the entry at `path`. */
  check(path: Path, conditions: Preconditions, options: AccessOptions = {}): Promise<void> {
    return this.#access.authorized('check', 'read', path, options, async (at) => {
      const entry = await this.#tree.entryOrUndefined(at, options)
      await this.#operations.assertPreconditions(at, entry, { ...options, ...conditions })
    })
  }

  // Changing

  /** Replaces or creates a file. Resolves when it is stored. */
  write(path: Path, source: Source, options: FileWriteOptions = {}): Promise<WriteResult> {
    return this.#access.withErrorContext('write', path, () => this.#store(path, this.fromClient(source), options))
  }

  /** Limits the speed of a body that a protocol receives before it calls `write`. */
  fromClient(source: Source): Source {
    return this.#parts.bandwidth.fromClients.source(source)
  }

  /** Rejects as `write` does before it reads the body. For protocols that receive the body before they call `write`. */
  assertWritable(path: Path, options: ChangeOptions = {}): Promise<void> {
    return this.#access.withErrorContext('write', path, async () => {
      await this.#operations.check(this.#writing(path, options))
    })
  }

  /** Rejects if the principal may not make this change to any member of the folder. */
  assertMayChange(
    action: 'rename' | 'move' | 'copy' | 'remove',
    folder: Path,
    options: AccessOptions = {},
  ): Promise<void> {
    return this.#access.withErrorContext(action, folder, async () => {
      this.#access.authorize(action, childOf(await this.#access.resolve(folder, options), '*'), options)
    })
  }

  /** `parents`: creates missing parents too, and an existing folder is not an error. */
  mkdir(path: Path, options: ChangeOptions & { readonly parents?: boolean | undefined } = {}): Promise<void> {
    const making: Operation<OnePath> = {
      options,
      resolve: this.#resolving('mkdir', path, options),
      require: (target) => {
        if (options.parents !== true || target.entry?.kind !== 'folder') target.assertFree()
      },
      touches: ({ at, entry }) => (entry ? [] : [{ path: at, membership: true }]),
    }
    return this.#access.withErrorContext('make folder', path, async () => {
      if (options.parents === true) {
        const [{ at, entry }] = await this.#operations.check(making)
        if (entry) return
        await this.#makeParents(at, options)
      }
      await this.#operations.change(making, async ({ entry, storage, inner }) => {
        if (!entry) await storage.mkdir(inner, options)
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
      const removal: Operation<OnePath> = {
        options: { ...options, signal },
        resolve: this.#resolving('remove', path, options),
        tree: what === 'tree',
        load: 'symlink',
        require: ({ at, existing }) => {
          this.#access.assertMovable(at, 'mount_removed')
          if (what === 'file' && isRealFolder(existing)) throw new GatewayError('is_dir')
          if (what === 'folder' && !isRealFolder(existing)) throw new GatewayError('not_dir')
          if (isRealFolder(existing)) this.#access.authorizeBelow('remove', at, options)
        },
        touches: ({ at, existing }) => [{ path: at, tree: isRealFolder(existing), membership: true }],
      }
      return this.#operations.change(removal, async ({ storage, inner, existing }) => {
        if (isRealFolder(existing) && what === 'tree') await this.#access.assertAllVisible(storage, inner, signal)
        await removeEntry(this.#parts, { storage, inner }, what === 'tree', { signal })
      })
    }
    return this.#access.withErrorContext('remove', path, () => this.#untilRevoked(options, work))
  }

  /**
   * Requires the right to rename within a folder, the right to move between folders, and both if the name changes too.
   * Rejects with `exists` unless `overwrite`.
   */
  move(from: Path, to: Path, options: TransferOptions): Promise<TransferResult> {
    const resolve = async () => {
      const source = await this.#access.resolveLinks('move', await this.#access.resolve(from, options), options)
      const named = await this.#access.resolveTarget(to, source, options)
      const target = await this.#access.resolveLinksWithEntry('receive', named, options)
      const isSameFolder = parentOf(source) === parentOf(target.at)
      if (!isSameFolder) this.#access.authorize('move', source, options)
      if (isSameFolder || nameOf(source) !== nameOf(target.at)) this.#access.authorize('rename', source, options)
      this.#access.authorize('receive', target.at, options)
      return [source, target] as const
    }
    return this.#access.withErrorContext('move', from, () =>
      this.#untilRevoked(options, (signal) => this.#transfers.transfer('move', resolve, { ...options, signal })),
    )
  }

  copy(from: Path, to: Path, options: TransferOptions): Promise<TransferResult> {
    const resolve = async () => {
      const source = await this.#access.resolveAndAuthorize('read', from, options)
      this.#access.authorize('copy', source, options)
      const named = await this.#access.resolve(to, options)
      const target = await this.#access.resolveLinksWithEntry('receive', named, options)
      this.#access.authorize('receive', target.at, options)
      return [source, target] as const
    }
    return this.#access.withErrorContext('copy', from, () =>
      this.#untilRevoked(options, (signal) => this.#transfers.transfer('copy', resolve, { ...options, signal })),
    )
  }

  /**
   * Whether the paths are on different storages, so that the transfer can take long. Rejects as `copy` or `move` would,
   * as far as that depends on the principal alone. The source need not exist.
   */
  isBetweenStorages(kind: 'copy' | 'move', from: Path, to: Path, options: AccessOptions = {}): Promise<boolean> {
    return this.#access.withErrorContext(kind, from, async () => {
      const { mounts } = this.#parts
      const source = await this.#access.resolveAndAuthorize(kind === 'copy' ? 'read' : 'move', from, options)
      this.#access.authorize(kind, source, options)
      if (kind === 'move') this.#access.assertMovable(source, 'mount_moved')
      const target = await this.#access.resolveLinks('receive', await this.#access.resolve(to, options), options)
      this.#access.authorize('receive', target, options)
      const { storage } = mounts.find(source)
      return mounts.find(target, storage).storage !== storage
    })
  }

  setAttributes(path: Path, to: Attributes, options: ChangeOptions = {}): Promise<void> {
    return this.#access.withErrorContext('set attributes', path, () =>
      this.#operations.change(
        { options, resolve: this.#resolving('attributes', path, options), touches: ({ at }) => [{ path: at }] },
        ({ storage, inner }) => storage.setAttributes(inner, to, options),
      ),
    )
  }

  /** As `setAttributes`, for a symlink itself. Rejects with `invalid` for a mode: a symlink has none. */
  setOwnAttributes(path: Path, to: Attributes, options: ChangeOptions = {}): Promise<void> {
    const setting: Operation<OnePath> = {
      options,
      resolve: this.#resolving('attributes', path, options, false),
      load: 'symlink',
      require: ({ existing }) => {
        if (!isLink(existing) || to.mode === undefined) return
        throw new GatewayError('invalid', { reason: 'a link has no mode of its own' })
      },
      touches: ({ at }) => [{ path: at }],
    }
    return this.#access.withErrorContext('set attributes', path, () =>
      this.#operations.change(setting, async ({ storage, inner, existing }) => {
        if (!isLink(existing)) await storage.setAttributes(inner, to, options)
        else if (to.modified !== undefined) await storage.setLinkTime(inner, to.modified, options)
      }),
    )
  }

  symlink(path: Path, target: string, options: ChangeOptions = {}): Promise<void> {
    const making: Operation<OnePath> = {
      options,
      resolve: this.#resolving('write', path, options, false),
      require: (made) => made.assertFree(),
      touches: ({ at }) => [{ path: at, membership: true }],
    }
    return this.#access.withErrorContext('make link', path, () =>
      this.#operations.change(making, async ({ at, storage, inner }) => {
        // To the client it is a path of the tree, to the backend a path of the storage.
        const leadsTo = await this.#access.resolveSymlinkTarget(storage.mount, at, target, options)
        await storage.symlink(inner, target.startsWith('/') ? leadsTo : target, options)
      }),
    )
  }

  hardLink(from: Path, to: Path, options: ChangeOptions = {}): Promise<void> {
    const linking: Operation<TwoPaths> = {
      options,
      resolve: async () => {
        // By the new name the file can be written in place, so the right to write it by the old one is required.
        const source = await this.#access.resolveAndAuthorize('write', from, options)
        this.#access.authorize('read', source, options)
        this.#access.authorize('copy', source, options)
        const at = await this.#access.resolveAndAuthorize('write', to, options, false)
        return [
          { at: source, look: undefined },
          { at, look: undefined },
        ]
      },
      require: (source, made) => {
        made.assertFree()
        if (source.storage === made.storage) return
        throw new GatewayError('unsupported', { reason: 'a hard link stays within its storage' })
      },
      touches: (source, made) => [{ path: source.at }, { path: made.at, membership: true }],
    }
    return this.#access.withErrorContext('make hard link', to, () =>
      this.#operations.change(linking, (source, made) => made.storage.hardLink(source.inner, made.inner, options)),
    )
  }

  // Locks and properties

  /**
   * Locks `path`. If nothing exists there, creates an empty file (RFC 4918 §9.10.4); with `makesFile: false`, rejects
   * with `not_found`. Rejects with `denied` for a dangling symlink, as `write` does.
   */
  lock(
    path: Path,
    request: LockRequest,
    options: ChangeOptions & { readonly makesFile?: boolean } = {},
  ): Promise<{ readonly lock: Lock; readonly created: boolean }> {
    const locking: Operation<OnePath> = {
      options,
      resolve: this.#resolving('lock', path, options),
      require: ({ at, entry }) => {
        if (request.deep && entry?.kind === 'folder') this.#access.authorizeBelow('lock', at, options)
      },
      touches: () => [],
    }
    return this.#access.withErrorContext('lock', path, async () => {
      const [{ at, entry }] = await this.#operations.check(locking)
      const isDangling = entry?.kind === 'link'
      if ((!entry || isDangling) && options.makesFile === false) throw new GatewayError('not_found')
      // No file is created behind a dangling symlink, so there is nothing to lock.
      if (isDangling) throw new GatewayError('denied', { reason: 'a link that leads nowhere' })
      const lock = await this.#parts.locks.grant(at, request, this.principal)
      let created = false
      try {
        if (!entry) {
          const lockTokens = [...(options.lockTokens ?? []), lock.token]
          const { signal, password } = options
          await this.#store(path, emptySource, { signal, password, lockTokens, createOnly: true })
          created = true
        }
      } catch (error) {
        // If another request has created the file in the meantime, that file is locked, unless its name has another
        // case.
        if (!isGatewayError(error, 'exists') || (await this.#access.resolve(path, options)) !== at) {
          await this.#parts.locks.break(lock.token)
          throw error
        }
      }
      return { lock: this.#access.redactLock(lock), created }
    })
  }

  refreshLock(path: Path, token: string, seconds: number, options: ChangeOptions = {}): Promise<Lock> {
    return this.#access.authorized('refresh lock', 'lock', path, options, async (at) => {
      if (hasPreconditions(options)) {
        await this.#operations.assertPreconditions(at, await this.#tree.entryOrUndefined(at, options), options)
      }
      return this.#access.redactLock(await this.#parts.locks.refresh(at, token, seconds, this.principal))
    })
  }

  unlock(path: Path, token: string, options: AccessOptions = {}): Promise<void> {
    return this.#access.authorized('unlock', 'lock', path, options, async (at) => {
      await this.#parts.locks.release(at, token, this.principal)
    })
  }

  /** The locks that cover the path. `members`: also those on direct members of this folder. */
  locks(
    path: Path,
    options: AccessOptions & { readonly members?: boolean | undefined } = {},
  ): Promise<readonly Lock[]> {
    return this.#access.authorized('list locks', 'read', path, options, async (at) => {
      const { locks } = this.#parts
      const onMembers = options.members === true ? locks.onMembers(at) : []
      return [...locks.covering(at), ...onMembers].map((lock) => this.#access.redactLock(lock))
    })
  }

  /** The dead properties stored for this path. */
  properties(path: Path, options: AccessOptions = {}): Promise<readonly Property[]> {
    return this.#access.authorized('read properties', 'read', path, options, (at) =>
      this.#parts.store.properties.of(at),
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
    return this.#access.authorized('read properties', 'list', path, options, async (at) => {
      const { properties } = this.#parts.store
      if (options.names === undefined && (await properties.sizeOfChildren(at)) > maxMemberPropertiesSize)
        return undefined
      const found = await properties.ofChildren(
        at,
        options.names?.map((name) => childOf(at, name)),
      )
      return new Map([...found].map(([child, kept]) => [nameOf(child), kept]))
    })
  }

  /** Makes all of the changes, or none. */
  setProperties(path: Path, changes: readonly PropertyChange[], options: ChangeOptions = {}): Promise<void> {
    const setting: Operation<OnePath> = {
      options,
      resolve: this.#resolving('properties', path, options),
      require: ({ existing }) => existing,
      touches: ({ at }) => [{ path: at }],
    }
    return this.#access.withErrorContext('set properties', path, () =>
      this.#operations.change(setting, async (target) => {
        const { mounts, store } = this.#parts
        const { properties } = mounts.isVirtual(target.at) ? store : target.storage.records
        await properties.change(target.at, changes)
      }),
    )
  }

  // How changes are made

  /** Resolves one path for an action. `follows`: also follows a symlink in the last segment. */
  #resolving(action: Action, path: Path, options: AccessOptions, follows?: boolean): () => Promise<OnePath> {
    return async () => [await this.#access.resolveWithEntry(action, path, options, follows)]
  }

  /** Replaces or creates a file. `mode`: that of the handle, if it is written through one. */
  #writing(path: Path, options: ChangeOptions, mode?: 'update' | 'replace'): Operation<OnePath> {
    return {
      options,
      resolve: this.#resolving('write', path, options),
      require: (target) => {
        const { at, entry } = target
        if (this.#parts.mounts.isVirtual(at)) throw new GatewayError('is_dir')
        target.storage.assertWritable()
        if (entry?.kind === 'folder') throw new GatewayError('is_dir')
        if (!entry) checkName(nameOf(at))
        if (entry && mode === undefined && options.createOnly === true) throw new GatewayError('exists')
        if (mode !== 'replace' || entry?.kind !== 'link') return
        throw new GatewayError('denied', { reason: 'a link that leads nowhere' })
      },
      touches: ({ at, entry }) => [{ path: at, membership: !entry }],
    }
  }

  #store(path: Path, source: Source, options: FileWriteOptions): Promise<WriteResult> {
    return this.#untilRevoked(options, async (signal) => {
      const writing = this.#writing(path, { ...options, signal })
      return this.#operations.publish(writing, async ([{ at, storage, inner, entry: old }], begin) => {
        if (options.parents === true && !old) await this.#makeParents(at, options)
        let created = !old
        const beforePublish = async () => {
          const [{ entry }] = await begin()
          created = !entry
        }
        // A body may take longer to arrive than the timeout of the lock that its sender presents.
        const stopExtending = this.#parts.locks.extendDuring(at, options.lockTokens ?? [], this.principal)
        const transfer = this.#meter.start(storage, 'write')
        try {
          const { createOnly, modified, mode, resumable } = options
          const { userId: user } = this.principal
          const write = { signal, user, createOnly, modified, mode, resumable, beforePublish }
          const entry = await transfer.run(() => storage.write(inner, transfer.counted(source), write))
          return { entry, created }
        } finally {
          stopExtending()
        }
      })
    })
  }

  async #openToWrite(path: Path, mode: 'update' | 'replace', options: FileOpenOptions): Promise<WritableFile> {
    const writing = this.#writing(path, options, mode)
    const [target] = await this.#operations.check(writing)
    const { storage, inner, entry: old } = target
    const mustExist = mode === 'update'
    const publication = this.#operations.publication(this.#publishing(writing, options, mustExist), [target.at])
    const beforePublish = async () => {
      await publication.begin()
      try {
        await options.beforePublish?.()
      } catch (error) {
        publication.end()
        throw error
      }
    }
    const { signal, createOnly, modified, mode: bits = options.modeOver?.(old), readable } = options
    const { userId: user } = this.principal
    const hooks = this.#meter.handle(storage, mode, signal)
    try {
      const file = await storage.open(
        inner,
        mode,
        mustExist
          ? { signal, user, readable: true, beforePublish }
          : { signal, user, createOnly, modified, mode: bits, readable, beforePublish },
      )
      const { toClients, fromClients } = this.#parts.bandwidth
      const throttledFile = throttled(file, toClients, fromClients)
      return { ...this.#access.guardHandle(path, throttledFile, { ...hooks, ended: () => publication.end() }), old }
    } catch (error) {
      hooks.failed(error)
      hooks.closed()
      throw error
    }
  }

  /** The last check of a handle: other requests may have made or removed the file since it was opened. */
  #publishing(writing: Operation<OnePath>, options: ChangeOptions, mustExist: boolean): Operation<OnePath> {
    return {
      ...writing,
      require: ({ entry }) => {
        if (entry && options.createOnly === true) throw new GatewayError('exists')
        if (entry?.kind === 'folder') throw new GatewayError('is_dir')
        if (!entry && mustExist) throw new GatewayError('not_found')
      },
    }
  }

  /** Makes the missing folders above `at`, a path of the whole tree. */
  async #makeParents(at: Path, { signal, password, lockTokens }: ChangeOptions): Promise<void> {
    const options = { signal, password, lockTokens }
    const authorize = (folder: Path) => this.#access.authorize('mkdir', folder, options)
    await makeMissingFolders(this.#tree, this.#operations, parentOf(at), options, authorize)
  }

  /** Runs work whose signal aborts when the caller's does, and when the principal's session is revoked. */
  async #untilRevoked<Result>(
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

  /** The entry, with the name by which the principal knows it. */
  async #entry(at: Path, options: AccessOptions & { readonly link?: boolean | undefined }): Promise<Entry> {
    const entry = await this.#tree.entry(at, options)
    return at === this.#access.principal.base ? { ...entry, name: '' } : entry
  }

  /** `at`: `named` with its symlinks followed. An entry is hidden if it is hidden by either path. */
  async #visible(named: Path, at: Path, entries: readonly Entry[], filter: EntryFilter): Promise<readonly Entry[]> {
    const { rules } = this.#parts
    const { principal } = this.#access
    const shown = await visibleEntries(rules, principal, at, entries, filter)
    return named === at ? shown : visibleEntries(rules, principal, named, shown, { signal: filter.signal })
  }

  /** Shows a symlink as its target only if the principal may read the target. */
  async #linksSeen(folder: Path, entries: readonly Entry[], options: AccessOptions): Promise<readonly Entry[]> {
    if (!entries.some((entry) => entry.isLink === true)) return entries
    const seen: Entry[] = []
    for (const entry of entries) {
      seen.push(entry.isLink === true ? await this.#linkSeen(childOf(folder, entry.name), entry, options) : entry)
    }
    return seen
  }

  async #linkSeen(at: Path, entry: Entry, options: AccessOptions): Promise<Entry> {
    try {
      await this.#access.resolveLinks('read', at, options)
      return entry
    } catch (error) {
      if (!isGatewayError(error, 'denied', 'hidden', 'password_required')) throw error
      return await this.#tree.entry(at, { signal: options.signal, link: true })
    }
  }
}

/** Characters of the properties of all members of a folder that are returned together. */
const maxMemberPropertiesSize = 4 * 1024 * 1024

const emptySource: Source = {
  size: 0,
  rereadable: true,
  read: async () => Readable.from([]),
}
