/**
 * The tree as one principal sees it: all that a protocol ever calls. Every operation first resolves the path under the
 * principal's base and is judged; every change then asks conditions and locks, before the body is read and again once it
 * has arrived. Paths that go in and come out are the principal's own; within an operation, `at` is of the whole tree.
 */
import { Readable } from 'node:stream'
import type { Principal, ProtocolName } from '../accounts/principal.js'
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
import {
  checkName,
  childOf,
  nameOf,
  parentOf,
  resolvePath,
  root,
  under,
  within,
  type Path,
} from '../contract/path.js'
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
import { forgetRemoved } from './follow-up.js'
import { makeMissingFolders } from './missing-folders.js'
import { Operations, type Operation } from './operation.js'
import type { Action } from './policy.js'
import {
  hasPreconditions,
  type AccessOptions,
  type ChangeOptions,
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
  /** Ask the backend again. Needs the right to write here. */
  readonly refresh?: boolean | undefined
  /** The part that is shown: these entries are as fresh as the backend tells. */
  readonly offset?: number | undefined
  readonly limit?: number | undefined
}

export interface Listing {
  /** Sorted by the storage's rules, mount points merged in, hidden ones left out; the asked part alone. */
  readonly entries: readonly Entry[]
  /** Of all parts. */
  readonly total: number
  readonly folder: FolderView
}

/** What a caller may bring along with a body. */
export interface FileWriteOptions extends ChangeOptions {
  /** Missing folders are made. */
  readonly parents?: boolean | undefined
  /** Of a task that may go on with it. */
  readonly resumable?: ResumableUpload | undefined
}

/** What a caller may bring along with a handle. */
export interface FileOpenOptions extends ChangeOptions {
  /** What is written can also be read before it has its name. */
  readonly readable?: boolean | undefined
  /** Permission bits, where they depend on what stands there. */
  readonly modeOver?: ((old: Entry | undefined) => number | undefined) | undefined
  /** Called once nobody else can take the name any more; a rejection leaves what stands there. */
  readonly beforePublish?: (() => Promise<void>) | undefined
}

/** A handle that writes. */
export interface WritableFile extends OpenFile {
  /** What stood under the name when it was opened. */
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

  /** `by`: what the transfers of file content are reported of. */
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

  /** The entry itself. `link`: of a link, not of its target. */
  stat(path: Path, ask: AccessOptions & { readonly link?: boolean | undefined } = {}): Promise<Entry> {
    return this.#access.withErrorContext('stat', path, async () => {
      return this.#entry(await this.#access.resolveAndAuthorize('read', path, ask, ask.link !== true), ask)
    })
  }

  /** The entry together with what the folder rules say of it. */
  view(path: Path, ask: AccessOptions = {}): Promise<{ readonly entry: Entry; readonly folder: FolderView }> {
    return this.#access.authorized('stat', 'read', path, ask, async (at) => ({
      entry: await this.#entry(at, ask),
      folder: folderView(this.#parts, this.#access.principal, at),
    }))
  }

  list(path: Path, ask: FolderListOptions = {}): Promise<Listing> {
    return this.#access.authorized('list', 'list', path, ask, async (at) => {
      if (ask.refresh === true) this.#access.authorize('refresh', at, ask)
      const { entries, current: settled } = await this.#tree.listing(at, ask)
      const shown = await this.#visible(await this.#access.resolve(path, ask), at, entries, ask)
      const offset = ask.offset ?? 0
      const part =
        ask.limit === undefined && offset === 0 ? shown : shown.slice(offset, offset + (ask.limit ?? shown.length))
      return {
        entries: await this.#linksSeen(at, settled ? part : await this.#tree.refreshed(at, part, ask), ask),
        total: shown.length,
        folder: folderView(this.#parts, this.#access.principal, at),
      }
    })
  }

  /** The same entries in pages and in any order, flat in memory however large the folder is. */
  async *pages(path: Path, ask: AccessOptions = {}): AsyncGenerator<readonly Entry[]> {
    try {
      await this.#access.ensureBase()
      const at = await this.#access.resolveAndAuthorize('list', path, ask)
      const named = await this.#access.resolve(path, ask)
      for await (const page of this.#tree.pages(at, ask)) {
        this.#access.assertNotRevoked()
        yield await this.#linksSeen(at, await this.#visible(named, at, page, { signal: ask.signal }), ask)
      }
    } catch (error) {
      throw this.#access.redactErrorAt(error, path).at('list', path)
    }
  }

  /**
   * Names at any depth below `path` in the search index, as far as the principal may see them there; none where the path is
   * closed to them, or unknown. `unavailable` where search is off.
   */
  search(path: Path, ask: SearchOptions): Promise<SearchResult> {
    return this.#access.withErrorContext('search', path, async () => {
      this.#access.assertMaySearch()
      const { rules, search } = this.#parts
      const at = await this.#access.resolve(path, ask)
      const visible = new VisibleNames(rules, this.#access.principal, ask.password)
      const { names, total } = await findNames(await search.reader(), visible, at, ask)
      return { names: names.map((found) => ({ ...found, parent: this.#access.principalPath(found.parent) })), total }
    })
  }

  read(path: Path, range?: ByteRange, ask: AccessOptions = {}): Promise<Readable> {
    return this.#access.authorized('read', 'read', path, ask, async (at) => {
      const { storage, inner } = this.#tree.locate(at)
      const joined = joinSignals(ask.signal, this.principal.signal)
      const transfer = this.#meter.start(storage, 'read')
      try {
        const stored = await storage.read(inner, range, { signal: joined.signal, user: this.principal.userId })
        const bytes = transfer.deliver(this.#parts.bandwidth.toClients.stream(stored))
        // It may fail, or be stopped, before whoever gets it listens.
        bytes.on('error', () => undefined)
        try {
          if (joined.signal.aborted) throw new GatewayError('aborted')
          await this.#access.assertLinksUnchanged('read', at, ask)
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
   * A handle. 'read' of an existing file; 'update' of an existing file, its bytes kept; 'replace': new or
   * truncated, published by `commit`; `readable` where it is read too. It ends with the principal's authority.
   */
  open(path: Path, mode: 'update' | 'replace', change?: FileOpenOptions): Promise<WritableFile>
  open(path: Path, mode: OpenMode, change?: FileOpenOptions): Promise<OpenFile>
  open(path: Path, mode: OpenMode, change: FileOpenOptions = {}): Promise<OpenFile> {
    return this.#access.withErrorContext('open', path, async () => {
      if (mode !== 'read') return this.#openToWrite(path, mode, change)
      const at = await this.#access.resolveAndAuthorize('read', path, change)
      const { storage, inner } = this.#tree.locate(at)
      const open = () => storage.open(inner, 'read', { signal: change.signal, user: this.principal.userId })
      return this.#openToRead(path, at, storage, open, change)
    })
  }

  /**
   * A file whose parts are to be sent: with a handle where the backend has one of its own; else the entry alone, and `read` asks the
   * backend for exactly the part that is wanted.
   */
  openToSend(path: Path, ask: AccessOptions = {}): Promise<{ readonly entry: Entry; readonly file?: OpenFile }> {
    return this.#access.withErrorContext('open', path, async () => {
      const at = await this.#access.resolveAndAuthorize('read', path, ask)
      const { storage, inner } = this.#tree.locate(at)
      const open = () => storage.openOwn(inner, 'read', { signal: ask.signal })
      const file = await this.#openToRead(path, at, storage, open, ask)
      return file ? { entry: file.entry, file } : { entry: await storage.stat(inner, { signal: ask.signal }) }
    })
  }

  /** What `open` returns for the file at `at`, for the principal to read. */
  async #openToRead<File extends OpenFile | undefined>(
    path: Path,
    at: Path,
    storage: Storage,
    open: () => Promise<File>,
    ask: AccessOptions,
  ): Promise<OpenFile | File> {
    const hooks = this.#meter.handle(storage, 'read', ask.signal)
    let file: File | undefined
    try {
      file = await open()
      if (!file) return file
      await this.#access.assertLinksUnchanged('read', at, ask)
      const { toClients, fromClients } = this.#parts.bandwidth
      return this.#access.guardHandle(path, throttled(file, toClients, fromClients), hooks)
    } catch (error) {
      hooks.failed(error)
      hooks.closed()
      await file?.close()
      throw error
    }
  }

  /** How the bytes of a file reach whoever asks there. `denied` where the storage has them not go through us. */
  downloadRoute(path: Path, ask: AccessOptions & DownloadRouteOptions): Promise<DownloadRoute> {
    return this.#access.authorized('link', 'read', path, ask, async (at) => {
      const { storage, inner } = this.#tree.locate(at)
      return this.#parts.downloadRouting.route(storage, inner, ask)
    })
  }

  /** A direct address of the backend, whatever the storage's options say; undefined where it has none. */
  directUrl(path: Path, ask: AccessOptions = {}): Promise<DirectUrl | undefined> {
    return this.#access.authorized('link', 'read', path, ask, async (at) => {
      const { storage, inner } = this.#tree.locate(at)
      return undefinedIfUnsupported(() => storage.directUrl(inner, ask))
    })
  }

  /** Rejects as the driver's `thumbnail`. */
  thumbnail(path: Path, kind: ThumbnailKind, ask: AccessOptions = {}): Promise<Thumbnail> {
    return this.#access.authorized('make thumbnail', 'read', path, ask, async (at) => {
      const { storage, inner } = this.#tree.locate(at)
      return this.#untilRevoked(ask, (signal) => storage.thumbnail(inner, kind, { signal }))
    })
  }

  usage(path: Path, ask: AccessOptions = {}): Promise<Usage> {
    return this.#access.authorized('usage', 'read', path, ask, (at) => this.#tree.locate(at).storage.usage(ask))
  }

  /** Of those of the paths where something is mounted; a storage that does not tell, or not in time, is left out. */
  async mountUsages(paths: readonly Path[]): Promise<ReadonlyMap<Path, Usage>> {
    const { mounts } = this.#parts
    // Asked of every entry of a folder that is listed: it must cost next to nothing where nothing is mounted.
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
          // One that did not start, or is closed to the principal, tells nothing.
          return [path, undefined] as const
        }
      }),
    )
    return new Map(usages.flatMap(([path, usage]) => (usage ? [[path, usage] as const] : [])))
  }

  readLink(path: Path, ask: AccessOptions = {}): Promise<string> {
    return this.#access.withErrorContext('read link', path, async () => {
      const at = await this.#access.resolveAndAuthorize('read', path, ask, false)
      const { storage, inner } = this.#tree.locate(at)
      const target = await storage.readLink(inner, ask)
      if (!target.startsWith('/')) return target
      // What is a path of the storage to the backend is one of the tree to the client.
      const seen = within(this.#access.principal.base, storage.treePath(resolvePath(root, target)))
      if (seen === undefined) throw new GatewayError('denied')
      return seen
    })
  }

  /** Rejects with `precondition_failed` unless the conditions hold for what stands at `path`. */
  check(path: Path, conditions: Preconditions, ask: AccessOptions = {}): Promise<void> {
    return this.#access.authorized('check', 'read', path, ask, async (at) => {
      const entry = await this.#tree.entryOrUndefined(at, ask)
      await this.#operations.assertPreconditions(at, entry, { ...ask, ...conditions })
    })
  }

  // Changing

  /** Replaces or creates a file. Resolves when it is stored. */
  write(path: Path, source: Source, options: FileWriteOptions = {}): Promise<WriteResult> {
    return this.#access.withErrorContext('write', path, () => this.#store(path, this.fromClient(source), options))
  }

  /** What a client sends, at the speed that clients may send: for protocols that receive a body first and store it later. */
  fromClient(source: Source): Source {
    return this.#parts.bandwidth.fromClients.source(source)
  }

  /** Rejects as `write` does before it reads the body: for protocols that receive the body first and store it later. */
  assertWritable(path: Path, options: ChangeOptions = {}): Promise<void> {
    return this.#access.withErrorContext('write', path, async () => {
      await this.#operations.check(this.#writing(path, options))
    })
  }

  /** Rejects as this change of any member of the folder would. */
  assertMayChange(
    action: 'rename' | 'move' | 'copy' | 'remove',
    folder: Path,
    options: AccessOptions = {},
  ): Promise<void> {
    return this.#access.withErrorContext(action, folder, async () => {
      this.#access.authorize(action, childOf(await this.#access.resolve(folder, options), '*'), options)
    })
  }

  /** `parents`: missing parents are made too, and a folder that exists is no error. */
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

  /** 'tree' (the default): anything; 'file': anything but a folder; 'folder': an empty folder. A symlink is removed, not its target. */
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
        const removed: Path[] = []
        try {
          if (what === 'tree') await storage.removeTree(inner, { signal, removed })
          else {
            await storage.remove(inner, { signal })
            removed.push(inner)
          }
        } finally {
          for (const each of removed) await forgetRemoved(this.#parts, storage, each)
        }
      })
    }
    return this.#access.withErrorContext('remove', path, () => this.#untilRevoked(options, work))
  }

  /** Judged as rename within a folder, as move between folders, as both where the name changes too. `exists` unless `overwrite`. */
  move(from: Path, to: Path, options: TransferOptions): Promise<WriteResult> {
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

  copy(from: Path, to: Path, options: TransferOptions): Promise<WriteResult> {
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
   * Whether these are places of two storages: it may take its time then, and is better not waited for. Rejects where `copy` or
   * `move` would, as far as that depends on the principal alone; the source need not be there.
   */
  isBetweenStorages(kind: 'copy' | 'move', from: Path, to: Path, ask: AccessOptions = {}): Promise<boolean> {
    return this.#access.withErrorContext(kind, from, async () => {
      const { mounts } = this.#parts
      const source = await this.#access.resolveAndAuthorize(kind === 'copy' ? 'read' : 'move', from, ask)
      this.#access.authorize(kind, source, ask)
      if (kind === 'move') this.#access.assertMovable(source, 'mount_moved')
      const target = await this.#access.resolveLinks('receive', await this.#access.resolve(to, ask), ask)
      this.#access.authorize('receive', target, ask)
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

  /** The same without following a symlink. A symlink has a time and no mode: to set a mode is `invalid`. */
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
        // What is a path of the tree to the client is one of the storage to the backend.
        const leadsTo = await this.#access.resolveSymlinkTarget(storage.mount, at, target, options)
        await storage.symlink(inner, target.startsWith('/') ? leadsTo : target, options)
      }),
    )
  }

  hardLink(from: Path, to: Path, options: ChangeOptions = {}): Promise<void> {
    const linking: Operation<TwoPaths> = {
      options,
      resolve: async () => {
        // The file can be written in place by its new name: that takes the right to write it by the old one.
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
   * Locks `path`. Where nothing is there, an empty file is made first (RFC 4918 §9.10.4), or with `makesFile: false` it is `not_found`;
   * a link that leads nowhere is `denied`, as it is to who writes.
   */
  lock(
    path: Path,
    request: LockRequest,
    change: ChangeOptions & { readonly makesFile?: boolean } = {},
  ): Promise<{ readonly lock: Lock; readonly created: boolean }> {
    const locking: Operation<OnePath> = {
      options: change,
      resolve: this.#resolving('lock', path, change),
      require: ({ at, entry }) => {
        if (request.deep && entry?.kind === 'folder') this.#access.authorizeBelow('lock', at, change)
      },
      touches: () => [],
    }
    return this.#access.withErrorContext('lock', path, async () => {
      const [{ at, entry }] = await this.#operations.check(locking)
      const isDangling = entry?.kind === 'link'
      if ((!entry || isDangling) && change.makesFile === false) throw new GatewayError('not_found')
      // Nothing is made behind a dangling symlink, so nothing could be locked.
      if (isDangling) throw new GatewayError('denied', { reason: 'a link that leads nowhere' })
      const lock = await this.#parts.locks.grant(at, request, this.principal)
      let created = false
      try {
        if (!entry) {
          const lockTokens = [...(change.lockTokens ?? []), lock.token]
          const { signal, password } = change
          await this.#store(path, emptySource, { signal, password, lockTokens, createOnly: true })
          created = true
        }
      } catch (error) {
        // A file that another request has made meanwhile is locked as it is, unless its name has another case.
        if (!isGatewayError(error, 'exists') || (await this.#access.resolve(path, change)) !== at) {
          await this.#parts.locks.break(lock.token)
          throw error
        }
      }
      return { lock: this.#access.redactLock(lock), created }
    })
  }

  refreshLock(path: Path, token: string, seconds: number, change: ChangeOptions = {}): Promise<Lock> {
    return this.#access.authorized('refresh lock', 'lock', path, change, async (at) => {
      if (hasPreconditions(change)) {
        await this.#operations.assertPreconditions(at, await this.#tree.entryOrUndefined(at, change), change)
      }
      return this.#access.redactLock(await this.#parts.locks.refresh(at, token, seconds, this.principal))
    })
  }

  unlock(path: Path, token: string, ask: AccessOptions = {}): Promise<void> {
    return this.#access.authorized('unlock', 'lock', path, ask, async (at) => {
      await this.#parts.locks.release(at, token, this.principal)
    })
  }

  /** Those that cover the path, in the principal's own paths. `members`: also those on a direct member of this folder. */
  locks(path: Path, ask: AccessOptions & { readonly members?: boolean | undefined } = {}): Promise<readonly Lock[]> {
    return this.#access.authorized('list locks', 'read', path, ask, async (at) => {
      const { locks } = this.#parts
      const onMembers = ask.members === true ? locks.onMembers(at) : []
      return [...locks.covering(at), ...onMembers].map((lock) => this.#access.redactLock(lock))
    })
  }

  /** Dead properties kept for this path. */
  properties(path: Path, ask: AccessOptions = {}): Promise<readonly Property[]> {
    return this.#access.authorized('read properties', 'read', path, ask, (at) => this.#parts.store.properties.of(at))
  }

  /**
   * Dead properties of the members of a folder that have any, by name; undefined where they are too many to be told at once.
   * `names`: of these members, which always works for some of them.
   */
  memberProperties(
    path: Path,
    ask: AccessOptions & { readonly names?: readonly string[] | undefined } = {},
  ): Promise<ReadonlyMap<string, readonly Property[]> | undefined> {
    return this.#access.authorized('read properties', 'list', path, ask, async (at) => {
      const { properties } = this.#parts.store
      if (ask.names === undefined && (await properties.sizeOfChildren(at)) > maxMemberPropertiesSize) return undefined
      const found = await properties.ofChildren(
        at,
        ask.names?.map((name) => childOf(at, name)),
      )
      return new Map([...found].map(([child, kept]) => [nameOf(child), kept]))
    })
  }

  /** All or nothing. */
  setProperties(path: Path, changes: readonly PropertyChange[], change: ChangeOptions = {}): Promise<void> {
    const setting: Operation<OnePath> = {
      options: change,
      resolve: this.#resolving('properties', path, change),
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

  /** Resolves one path for an action; `follows`: where its last name is a symlink, that is followed too. */
  #resolving(action: Action, path: Path, options: AccessOptions, follows?: boolean): () => Promise<OnePath> {
    return async () => [await this.#access.resolveWithEntry(action, path, options, follows)]
  }

  /** Replacing or creating a file, by a body or through a handle. `mode`: of the handle. */
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
          const entry = await storage.write(inner, transfer.counted(source), write)
          transfer.end()
          return { entry, created }
        } catch (error) {
          transfer.end(error)
          throw error
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

  /** What stands there, by the name that the principal knows it by. */
  async #entry(at: Path, ask: AccessOptions & { readonly link?: boolean | undefined }): Promise<Entry> {
    const entry = await this.#tree.entry(at, ask)
    return at === this.#access.principal.base ? { ...entry, name: '' } : entry
  }

  /** `at` is what `named` was followed to: what is hidden by either of the two names is hidden. */
  async #visible(named: Path, at: Path, entries: readonly Entry[], filter: EntryFilter): Promise<readonly Entry[]> {
    const { rules } = this.#parts
    const { principal } = this.#access
    const shown = await visibleEntries(rules, principal, at, entries, filter)
    return named === at ? shown : visibleEntries(rules, principal, named, shown, { signal: filter.signal })
  }

  /** Links are shown as what they lead to only where that may be known. */
  async #linksSeen(folder: Path, entries: readonly Entry[], ask: AccessOptions): Promise<readonly Entry[]> {
    if (!entries.some((entry) => entry.isLink === true)) return entries
    const seen: Entry[] = []
    for (const entry of entries) {
      seen.push(entry.isLink === true ? await this.#linkSeen(childOf(folder, entry.name), entry, ask) : entry)
    }
    return seen
  }

  async #linkSeen(at: Path, entry: Entry, ask: AccessOptions): Promise<Entry> {
    try {
      await this.#access.resolveLinks('read', at, ask)
      return entry
    } catch (error) {
      if (!isGatewayError(error, 'denied', 'hidden', 'password_required')) throw error
      return await this.#tree.entry(at, { signal: ask.signal, link: true })
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
