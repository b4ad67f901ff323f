/**
 * The tree as one principal sees it: all that a door ever calls. Every operation first resolves the path under the
 * principal's base and is judged; every change then asks conditions and locks, before the body is read and again once it
 * has arrived. Paths that go in and come out are the principal's own; within an operation, `at` is of the whole tree.
 */
import { Readable } from 'node:stream'
import { Access } from './access.js'
import { atSpeed } from './bandwidth.js'
import type { Ask, Change, Changed, Conditions } from './change.js'
import { ChangeGuard } from './change-guard.js'
import { asksForState } from './conditions.js'
import { removeAll } from './removing.js'
import type { Delivery, DeliveryAsk } from './deliveries.js'
import type {
  Attributes,
  ByteRange,
  Entry,
  Link,
  OpenFile,
  OpenMode,
  Source,
  Thumbnail,
  ThumbnailKind,
  Usage,
} from './driver.js'
import { GatewayError, isGatewayError } from './errors.js'
import type { Lock, LockRequest } from './locks.js'
import { checkName, childOf, nameOf, parentOf, resolvePath, root, under, within, type Path } from './path.js'
import type { Principal } from './principal.js'
import type { Property, PropertyChange } from './properties.js'
import { find, type Found, type SearchAsk } from './search/finding.js'
import { VisibleNames } from './search/visible-names.js'
import { joinSignals } from './signals.js'
import type { Storage } from './storage.js'
import { Transfers, type CopyAsk } from './transfers.js'
import type { TreeParts } from './tree-parts.js'
import { folderView, visibleEntries, type EntryFilter, type FolderView } from './visibility.js'
import { WholeTree } from './whole-tree.js'
import { Writing, type BodyChange, type HandleChange, type WritingHandle } from './writing.js'

export type { CopyAsk, FolderView, TreeParts }

export interface ListAsk extends Ask, EntryFilter {
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

export class VirtualFs {
  readonly #parts: TreeParts
  readonly #access: Access
  readonly #tree: WholeTree
  readonly #guard: ChangeGuard
  readonly #writing: Writing
  readonly #transfers: Transfers

  constructor(
    parts: TreeParts,
    readonly principal: Principal,
  ) {
    this.#parts = parts
    this.#access = new Access(parts, principal)
    this.#tree = new WholeTree(parts.mounts, parts.log)
    this.#guard = new ChangeGuard(parts, this.#access, this.#tree)
    this.#writing = new Writing(parts, this.#access, this.#tree, this.#guard)
    this.#transfers = new Transfers(parts, this.#access, this.#tree, this.#guard)
  }

  // Reading

  /** The entry itself. `link`: of a link, not of its target. */
  stat(path: Path, ask: Ask & { readonly link?: boolean | undefined } = {}): Promise<Entry> {
    return this.#access.told('stat', path, async () => {
      return this.#entry(await this.#access.admit('read', path, ask, ask.link !== true), ask)
    })
  }

  /** The entry together with what the folder rules say of it. */
  view(path: Path, ask: Ask = {}): Promise<{ readonly entry: Entry; readonly folder: FolderView }> {
    return this.#access.judged('stat', 'read', path, ask, async (at) => ({
      entry: await this.#entry(at, ask),
      folder: folderView(this.#parts, this.#access.principal, at),
    }))
  }

  list(path: Path, ask: ListAsk = {}): Promise<Listing> {
    return this.#access.judged('list', 'list', path, ask, async (at) => {
      if (ask.refresh === true) this.#access.judge('refresh', at, ask)
      const { entries, settled } = await this.#tree.listing(at, ask)
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
  async *pages(path: Path, ask: Ask = {}): AsyncGenerator<readonly Entry[]> {
    try {
      await this.#access.enter()
      const at = await this.#access.admit('list', path, ask)
      const named = await this.#access.resolve(path, ask)
      for await (const page of this.#tree.pages(at, ask)) {
        this.#access.assertAuthority()
        yield await this.#linksSeen(at, await this.#visible(named, at, page, { signal: ask.signal }), ask)
      }
    } catch (error) {
      throw this.#access.failed(error, path).at('list', path)
    }
  }

  /**
   * Names at any depth below `path` in the search index, as far as the principal may see them there; none where the path is
   * closed to them, or unknown. `unavailable` where search is off.
   */
  search(path: Path, ask: SearchAsk): Promise<Found> {
    return this.#access.told('search', path, async () => {
      this.#access.assertSearching()
      const { rules, search } = this.#parts
      const at = await this.#access.resolve(path, ask)
      const visible = new VisibleNames(rules, this.#access.principal, ask.password)
      const { names, total } = await find(await search.reader(), visible, at, ask)
      return { names: names.map((found) => ({ ...found, parent: this.#access.view(found.parent) })), total }
    })
  }

  read(path: Path, range?: ByteRange, ask: Ask = {}): Promise<Readable> {
    return this.#access.judged('read', 'read', path, ask, async (at) => {
      const { storage, inner } = this.#tree.place(at)
      const joined = joinSignals(ask.signal, this.principal.signal)
      try {
        const stored = await storage.read(inner, range, { signal: joined.signal, user: this.principal.userId })
        const bytes = this.#parts.bandwidth.toClients.stream(stored)
        // It may fail, or be stopped, before whoever gets it listens.
        bytes.on('error', () => undefined)
        try {
          if (joined.signal.aborted) throw new GatewayError('aborted')
          await this.#access.assertSettled('read', at, ask)
        } catch (error) {
          bytes.destroy()
          throw error
        }
        const stop = () => bytes.destroy(this.#access.seen(new GatewayError('aborted')))
        joined.signal.addEventListener('abort', stop, { once: true })
        return bytes.once('close', () => joined.release())
      } catch (error) {
        joined.release()
        throw error
      }
    })
  }

  /**
   * A handle. 'read' of an existing file; 'update' of an existing file, its bytes kept; 'replace': new or
   * truncated, published by `commit`; `readable` where it is read too. It ends with the principal's authority.
   */
  open(path: Path, mode: 'update' | 'replace', change?: HandleChange): Promise<WritingHandle>
  open(path: Path, mode: OpenMode, change?: HandleChange): Promise<OpenFile>
  open(path: Path, mode: OpenMode, change: HandleChange = {}): Promise<OpenFile> {
    return this.#access.told('open', path, async () => {
      if (mode !== 'read') {
        return this.#writing.open(await this.#access.reach('write', path, change), path, mode, change)
      }
      const at = await this.#access.admit('read', path, change)
      const { storage, inner } = this.#tree.place(at)
      const file = await storage.open(inner, 'read', { signal: change.signal, user: this.principal.userId })
      return this.#readable(path, at, file, change)
    })
  }

  /**
   * A file whose parts are to be sent: with a handle where the backend has one of its own; else the entry alone, and `read` asks the
   * backend for exactly the part that is wanted.
   */
  openToSend(path: Path, ask: Ask = {}): Promise<{ readonly entry: Entry; readonly file?: OpenFile }> {
    return this.#access.told('open', path, async () => {
      const at = await this.#access.admit('read', path, ask)
      const { storage, inner } = this.#tree.place(at)
      const file = await storage.openOwn(inner, 'read', { signal: ask.signal })
      if (!file) return { entry: await storage.stat(inner, { signal: ask.signal }) }
      return { entry: file.entry, file: await this.#readable(path, at, file, ask) }
    })
  }

  /** What was opened at `at`, for the principal to read. */
  async #readable(path: Path, at: Path, file: OpenFile, ask: Ask): Promise<OpenFile> {
    try {
      await this.#access.assertSettled('read', at, ask)
    } catch (error) {
      await file.close()
      throw error
    }
    const { toClients, fromClients } = this.#parts.bandwidth
    return this.#access.guarded(path, atSpeed(file, toClients, fromClients))
  }

  /** How the bytes of a file reach whoever asks there. `denied` where the storage has them not go through us. */
  delivery(path: Path, ask: Ask & DeliveryAsk): Promise<Delivery> {
    return this.#access.judged('link', 'read', path, ask, async (at) => {
      const { storage, inner } = this.#tree.place(at)
      return this.#parts.deliveries.of(storage, inner, ask)
    })
  }

  /** A direct address of the backend, whatever the storage's options say; undefined where it has none. */
  link(path: Path, ask: Ask = {}): Promise<Link | undefined> {
    return this.#access.judged('link', 'read', path, ask, async (at) => {
      const { storage, inner } = this.#tree.place(at)
      return storage.link(inner, ask)
    })
  }

  /** Rejects as the driver's `thumbnail`. */
  thumbnail(path: Path, kind: ThumbnailKind, ask: Ask = {}): Promise<Thumbnail> {
    return this.#access.judged('make thumbnail', 'read', path, ask, async (at) => {
      const { storage, inner } = this.#tree.place(at)
      const joined = joinSignals(ask.signal, this.principal.signal)
      try {
        return await storage.thumbnail(inner, kind, { signal: joined.signal })
      } finally {
        joined.release()
      }
    })
  }

  usage(path: Path, ask: Ask = {}): Promise<Usage> {
    return this.#access.judged('usage', 'read', path, ask, (at) => this.#tree.place(at).storage.usage(ask))
  }

  /** Of those of the paths where something is mounted; a storage that does not tell, or not in time, is left out. */
  async mountUsages(paths: readonly Path[]): Promise<ReadonlyMap<Path, Usage>> {
    const { mounts } = this.#parts
    // Asked of every entry of a folder that is listed: it must cost next to nothing where nothing is mounted.
    const mounted = paths.filter((path) => {
      const at = under(this.#access.principal.base, path)
      return mounts.isMountPoint(at) && !mounts.isStarting(at)
    })
    const usages = await Promise.all(
      mounted.map(async (path) => {
        try {
          const { storage } = this.#tree.place(await this.#access.admit('read', path, {}))
          return [path, await storage.usageSoon()] as const
        } catch {
          // One that did not start, or is closed to the principal, tells nothing.
          return [path, undefined] as const
        }
      }),
    )
    return new Map(usages.flatMap(([path, usage]) => (usage ? [[path, usage] as const] : [])))
  }

  readLink(path: Path, ask: Ask = {}): Promise<string> {
    return this.#access.told('read link', path, async () => {
      const at = await this.#access.admit('read', path, ask, false)
      const { storage, inner } = this.#tree.place(at)
      const target = await storage.readLink(inner, ask)
      if (!target.startsWith('/')) return target
      // What is a path of the storage to the backend is one of the tree to the client.
      const seen = within(this.#access.principal.base, storage.treePath(resolvePath(root, target)))
      if (seen === undefined) throw new GatewayError('denied')
      return seen
    })
  }

  /** Rejects with `precondition_failed` unless the conditions hold for what stands at `path`. */
  check(path: Path, conditions: Conditions, ask: Ask = {}): Promise<void> {
    return this.#access.judged('check', 'read', path, ask, async (at) => {
      const entry = await this.#tree.existing(at, ask)
      await this.#guard.assertConditions(at, entry, { ...ask, ...conditions })
    })
  }

  // Changing

  /** Replaces or creates a file. Resolves when it is stored. */
  write(path: Path, source: Source, change: BodyChange = {}): Promise<Changed> {
    return this.#access.told('write', path, async () => {
      const reached = await this.#access.reach('write', path, change)
      return this.#writing.put(reached, this.fromClient(source), change)
    })
  }

  /** What a client sends, no faster than it may: for doors that receive a body first and have it written later. */
  fromClient(source: Source): Source {
    return this.#parts.bandwidth.fromClients.source(source)
  }

  /** Rejects as `write` would before it reads the body: for doors that receive it first and write it later. */
  assertWritable(path: Path, change: Change = {}): Promise<void> {
    return this.#access.told('write', path, async () => {
      await this.#writing.assertWritable(await this.#access.reach('write', path, change), change)
    })
  }

  /** Rejects as this change of a member of the folder would, whichever member it is. */
  assertMayChange(action: 'rename' | 'move' | 'copy' | 'remove', folder: Path, ask: Ask = {}): Promise<void> {
    return this.#access.told(action, folder, async () => {
      this.#access.judge(action, childOf(await this.#access.resolve(folder, ask), '*'), ask)
    })
  }

  /** `parents`: missing ones are made too, and a folder that is there already is no error. */
  mkdir(path: Path, change: Change & { readonly parents?: boolean | undefined } = {}): Promise<void> {
    return this.#access.judged('make folder', 'mkdir', path, change, async (at) => {
      const old = await this.#tree.existing(at, change)
      if (old) {
        if (change.parents === true && old.kind === 'folder') return
        throw new GatewayError('exists')
      }
      checkName(nameOf(at))
      const { storage, inner } = this.#tree.place(at)
      if (change.parents === true) await this.#writing.makeParents(at, change)
      await this.#guard.reserved([{ path: at, tree: false }], change, async () => {
        this.#access.judge('mkdir', at, change)
        await this.#guard.assertFree([{ path: at, membership: true }], at, undefined, change)
        await storage.mkdir(inner, change)
      })
    })
  }

  /** 'tree' (the default): whatever is there; 'file': anything but a folder; 'folder': an empty folder. */
  remove(path: Path, change: Change & { readonly what?: 'tree' | 'file' | 'folder' | undefined } = {}): Promise<void> {
    return this.#access.judged('remove', 'remove', path, change, async (at) => {
      this.#access.assertMovable(at, 'delete root folder is not allowed')
      const what = change.what ?? 'tree'
      const { storage, inner } = this.#tree.place(at)
      const entry = await storage.stat(inner, { signal: change.signal, link: true })
      const isFolder = entry.kind === 'folder' && entry.isLink !== true
      if (what === 'file' && isFolder) throw new GatewayError('is_dir')
      if (what === 'folder' && !isFolder) throw new GatewayError('not_dir')
      if (isFolder) this.#access.judgeBelow('remove', at, change)
      const joined = joinSignals(change.signal, this.principal.signal)
      try {
        await this.#guard.reserved([{ path: at, tree: isFolder }], joined, async () => {
          const now = await this.#guard.now(at, entry, change)
          await this.#guard.assertFree([{ path: at, tree: isFolder, membership: true }], at, now, change)
          if (isFolder && what === 'tree') await this.#guard.assertAllSeen(storage, inner, joined.signal)
          const removed: Path[] = []
          try {
            if (what === 'tree') await removeAll(storage, inner, joined.signal, removed)
            else {
              await storage.remove(inner, { signal: joined.signal })
              removed.push(inner)
            }
          } finally {
            for (const gone of removed) await this.#gone(storage, storage.treePath(gone))
          }
        })
      } finally {
        joined.release()
      }
    })
  }

  /** Gives a name of the same folder, or of another one. Judged as rename, move or both. `exists` unless `overwrite`. */
  move(from: Path, to: Path, ask: CopyAsk): Promise<Changed> {
    return this.#access.told('move', from, async () => {
      const source = await this.#access.follow('move', await this.#access.resolve(from, ask), ask)
      const target = await this.#access.follow('receive', await this.#access.resolveTarget(to, source, ask), ask)
      const sameFolder = parentOf(source) === parentOf(target)
      if (!sameFolder) this.#access.judge('move', source, ask)
      if (sameFolder || nameOf(source) !== nameOf(target)) this.#access.judge('rename', source, ask)
      return this.#transfers.transfer(source, target, ask, 'move')
    })
  }

  copy(from: Path, to: Path, ask: CopyAsk): Promise<Changed> {
    return this.#access.told('copy', from, async () => {
      const source = await this.#access.admit('read', from, ask)
      this.#access.judge('copy', source, ask)
      const target = await this.#access.follow('receive', await this.#access.resolve(to, ask), ask)
      return this.#transfers.transfer(source, target, ask, 'copy')
    })
  }

  /**
   * Whether these are places of two storages: it may take its time then, and is better not waited for. Rejects where `copy` or
   * `move` would, as far as that depends on the principal alone; the source need not be there.
   */
  isBetweenStorages(kind: 'copy' | 'move', from: Path, to: Path, ask: Ask = {}): Promise<boolean> {
    return this.#access.told(kind, from, async () => {
      const { mounts } = this.#parts
      const source = await this.#access.admit(kind === 'copy' ? 'read' : 'move', from, ask)
      this.#access.judge(kind, source, ask)
      if (kind === 'move') this.#access.assertMovable(source, 'move root folder is not allowed')
      const target = await this.#access.follow('receive', await this.#access.resolve(to, ask), ask)
      this.#access.judge('receive', target, ask)
      const { storage } = mounts.find(source)
      return mounts.find(target, storage).storage !== storage
    })
  }

  setAttributes(path: Path, to: Attributes, change: Change = {}): Promise<void> {
    return this.#access.judged('set attributes', 'attributes', path, change, async (at) => {
      const { storage, inner } = this.#tree.place(at)
      // A rename at the same time must find what is recorded here, or nothing yet.
      await this.#guard.reserved([{ path: at, tree: false }], change, async () => {
        const entry = await this.#tree.existing(at, change)
        await this.#guard.assertFree([{ path: at }], at, entry, change)
        await storage.setAttributes(inner, to, change)
      })
    })
  }

  /** The same without following a link. A link has a time of its own and no mode: to set one is `invalid`. */
  setOwnAttributes(path: Path, to: Attributes, change: Change = {}): Promise<void> {
    return this.#access.told('set attributes', path, async () => {
      const at = await this.#access.admit('attributes', path, change, false)
      const { storage, inner } = this.#tree.place(at)
      await this.#guard.reserved([{ path: at, tree: false }], change, async () => {
        const entry = await this.#tree.entry(at, { ...change, link: true })
        await this.#guard.assertFree([{ path: at }], at, entry, change)
        if (entry.kind !== 'link' && entry.isLink !== true) {
          await storage.setAttributes(inner, to, change)
          return
        }
        if (to.mode !== undefined) throw new GatewayError('invalid', { reason: 'a link has no mode of its own' })
        if (to.modified !== undefined) await storage.setLinkTime(inner, to.modified, change)
      })
    })
  }

  symlink(path: Path, target: string, change: Change = {}): Promise<void> {
    return this.#access.told('make link', path, async () => {
      const at = await this.#access.admit('write', path, change, false)
      checkName(nameOf(at))
      const { storage, inner } = this.#tree.place(at)
      await this.#guard.reserved([{ path: at, tree: false }], change, async () => {
        const old = await this.#tree.existing(at, change)
        if (old) throw new GatewayError('exists')
        await this.#guard.assertFree([{ path: at, membership: true }], at, old, change)
        // What is a path of the tree to the client is one of the storage to the backend.
        const leadsTo = await this.#access.assertLeadsInside(storage.mount, at, target, change)
        await storage.symlink(inner, target.startsWith('/') ? leadsTo : target, change)
      })
    })
  }

  hardLink(from: Path, to: Path, change: Change = {}): Promise<void> {
    return this.#access.told('make hard link', to, async () => {
      // By its new name it can be written in place: whoever may not write it, or whom a lock keeps out, must not get there that way.
      const source = await this.#access.admit('write', from, change)
      this.#access.judge('read', source, change)
      this.#access.judge('copy', source, change)
      const at = await this.#access.admit('write', to, change, false)
      checkName(nameOf(at))
      const origin = this.#tree.place(source)
      const { storage, inner } = this.#parts.mounts.find(at, origin.storage)
      if (origin.storage !== storage)
        throw new GatewayError('unsupported', { reason: 'a hard link stays within its storage' })
      const claims = [source, at].map((path) => ({ path, tree: false }))
      await this.#guard.reserved(claims, change, async () => {
        const old = await this.#tree.existing(at, change)
        if (old) throw new GatewayError('exists')
        await this.#guard.assertFree([{ path: source }, { path: at, membership: true }], at, old, change)
        await storage.hardLink(origin.inner, inner, change)
      })
    })
  }

  // Locks and properties

  /**
   * Locks `path`. Where nothing is there, an empty file is made first (RFC 4918 §9.10.4), or with `makesFile: false` it is `not_found`;
   * a link that leads nowhere is `denied`, as it is to who writes.
   */
  lock(
    path: Path,
    request: LockRequest,
    change: Change & { readonly makesFile?: boolean } = {},
  ): Promise<{ readonly lock: Lock; readonly created: boolean }> {
    return this.#access.judged('lock', 'lock', path, change, async (at) => {
      const old = await this.#tree.existing(at, change)
      if (request.deep && old?.kind === 'folder') this.#access.judgeBelow('lock', at, change)
      await this.#guard.assertConditions(at, old, change)
      const leadsNowhere = old?.kind === 'link'
      if ((!old || leadsNowhere) && change.makesFile === false) throw new GatewayError('not_found')
      // Nothing is made behind a link, so there would be nothing to lock.
      if (leadsNowhere) throw new GatewayError('denied', { reason: 'a link that leads nowhere' })
      const lock = await this.#parts.locks.grant(at, request, this.principal)
      let created = false
      try {
        if (!old) {
          const lockTokens = [...(change.lockTokens ?? []), lock.token]
          const { signal, password } = change
          this.#access.judge('write', at, change)
          const reached = { at, seen: undefined }
          await this.#writing.put(reached, emptySource, { signal, password, lockTokens, createOnly: true })
          created = true
        }
      } catch (error) {
        // What somebody else put there meanwhile is locked as it is, unless it has another spelling.
        if (!isGatewayError(error, 'exists') || (await this.#access.resolve(path, change)) !== at) {
          await this.#parts.locks.break(lock.token)
          throw error
        }
      }
      return { lock: this.#access.lockSeen(lock), created }
    })
  }

  refreshLock(path: Path, token: string, seconds: number, change: Change = {}): Promise<Lock> {
    return this.#access.judged('refresh lock', 'lock', path, change, async (at) => {
      if (asksForState(change)) {
        await this.#guard.assertConditions(at, await this.#tree.existing(at, change), change)
      }
      return this.#access.lockSeen(await this.#parts.locks.refresh(at, token, seconds, this.principal))
    })
  }

  unlock(path: Path, token: string, ask: Ask = {}): Promise<void> {
    return this.#access.judged('unlock', 'lock', path, ask, async (at) => {
      await this.#parts.locks.release(at, token, this.principal)
    })
  }

  /** Those that cover the path, in the principal's own paths. `members`: also those on a direct member of this folder. */
  locks(path: Path, ask: Ask & { readonly members?: boolean | undefined } = {}): Promise<readonly Lock[]> {
    return this.#access.judged('list locks', 'read', path, ask, async (at) => {
      const { locks } = this.#parts
      const onMembers = ask.members === true ? locks.onMembers(at) : []
      return [...locks.covering(at), ...onMembers].map((lock) => this.#access.lockSeen(lock))
    })
  }

  /** Dead properties kept for this path. */
  properties(path: Path, ask: Ask = {}): Promise<readonly Property[]> {
    return this.#access.judged('read properties', 'read', path, ask, (at) => this.#parts.store.properties.of(at))
  }

  /**
   * Dead properties of the members of a folder that have any, by name; undefined where they are too many to be told at once.
   * `names`: of these members, which always works for some of them.
   */
  memberProperties(
    path: Path,
    ask: Ask & { readonly names?: readonly string[] | undefined } = {},
  ): Promise<ReadonlyMap<string, readonly Property[]> | undefined> {
    return this.#access.judged('read properties', 'list', path, ask, async (at) => {
      const { properties } = this.#parts.store
      if (ask.names === undefined && (await properties.sizeOfChildren(at)) > mostProperties) return undefined
      const found = await properties.ofChildren(
        at,
        ask.names?.map((name) => childOf(at, name)),
      )
      return new Map([...found].map(([child, kept]) => [nameOf(child), kept]))
    })
  }

  /** All or nothing. */
  setProperties(path: Path, changes: readonly PropertyChange[], change: Change = {}): Promise<void> {
    return this.#access.judged('set properties', 'properties', path, change, async (at) => {
      const entry = await this.#entry(at, change)
      const { mounts, store } = this.#parts
      const { properties } = mounts.isVirtual(at) ? store : this.#tree.place(at).storage.records
      await this.#guard.reserved([{ path: at, tree: false }], change, async () => {
        await this.#guard.assertFree([{ path: at }], at, await this.#guard.now(at, entry, change), change)
        await properties.change(at, changes)
      })
    })
  }

  /** What stands there, by the name that the principal knows it by. */
  async #entry(at: Path, ask: Ask & { readonly link?: boolean | undefined }): Promise<Entry> {
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
  async #linksSeen(folder: Path, entries: readonly Entry[], ask: Ask): Promise<readonly Entry[]> {
    if (!entries.some((entry) => entry.isLink === true)) return entries
    const seen: Entry[] = []
    for (const entry of entries) {
      seen.push(entry.isLink === true ? await this.#linkSeen(childOf(folder, entry.name), entry, ask) : entry)
    }
    return seen
  }

  async #linkSeen(at: Path, entry: Entry, ask: Ask): Promise<Entry> {
    try {
      await this.#access.follow('read', at, ask)
      return entry
    } catch (error) {
      if (!isGatewayError(error, 'denied', 'hidden', 'password_required')) throw error
      return await this.#tree.entry(at, { signal: ask.signal, link: true })
    }
  }

  /** What the core kept for something goes with it. */
  async #gone({ records }: Storage, at: Path): Promise<void> {
    await records.properties.delete(at)
    await this.#parts.locks.dropWithin(at, true)
  }
}

/** Characters of properties that are told at once. */
const mostProperties = 4 * 1024 * 1024

const emptySource: Source = {
  size: 0,
  rereadable: true,
  read: async () => Readable.from([]),
}
