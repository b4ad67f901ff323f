/**
 * The tree as one principal sees it: all that a door ever calls. Every operation first resolves the path
 * under the principal's base and asks `judge()`; every change then asks locks and conditions, before
 * the body is read and again once it has arrived. Paths that go in and come out are the principal's own.
 */
import { Readable } from 'node:stream'
import { TreeError, type Ask, type Change, type Changed, type Conditions } from './change.js'
import { asksForState, assertConditions } from './conditions.js'
import {
  asideOf,
  copyTree,
  moveTree,
  removeAll,
  reservedPrefix,
  settleAside,
  type Copied,
  type CopyJob,
} from './copy.js'
import type { Attributes, ByteRange, Entry, Link, OpenFile, OpenMode, Source, Usage } from './driver.js'
import { GatewayError, isGatewayError, NoStorageError, toGatewayError } from './errors.js'
import type { Events } from './events.js'
import { hooked } from './handles.js'
import { LockedError, type Lock, type LockRequest, type Locks, type Touch } from './locks.js'
import type { Log } from './log.js'
import type { Mounts, Place } from './mounts.js'
import {
  checkName,
  childOf,
  isWithin,
  nameOf,
  parentOf,
  resolvePath,
  root,
  under,
  upwardFrom,
  within,
  type Path,
} from './path.js'
import { isHidden, judge, mayWriteContent, type Action } from './policy.js'
import { holds, type Principal } from './principal.js'
import type { Property, PropertyChange } from './properties.js'
import type { Claim, Reservations } from './reservations.js'
import { covers, type Rule, type Rules } from './rules.js'
import { joinSignals } from './signals.js'
import type { Storage } from './storage.js'
import type { Store } from './store/rows.js'

export interface ListAsk extends Ask {
  /** Ask the backend again. Needs the right to write here. */
  readonly refresh?: boolean | undefined
  /** The part that is shown: these entries are as fresh as the backend tells. */
  readonly offset?: number | undefined
  readonly limit?: number | undefined
  readonly foldersOnly?: boolean | undefined
  /** Only names that begin like this. */
  readonly startsWith?: string | undefined
}

export interface Listing {
  /** Sorted by the storage's rules, mount points merged in, hidden ones left out; the asked part alone. */
  readonly entries: readonly Entry[]
  /** Of all parts. */
  readonly total: number
  readonly folder: FolderView
}

/** What a client is told of a folder or file beside its entries. */
export interface FolderView {
  readonly readme: string
  readonly header: string
  /** The principal may change something here. */
  readonly write: boolean
  /** A folder rule lets everybody write here. */
  readonly writeByRule: boolean
  /** The driver's name, or `unknown` for a folder between mounts. */
  readonly provider: string
  /** Links to files in here need a signature: a storage option or a folder rule says so (the `sign_all` setting aside). */
  readonly signed: boolean
}

export interface CopyAsk extends Change {
  /** false: `exists` if the target is there. */
  readonly overwrite: boolean
  /** false: a folder without its members (WebDAV's Depth 0). */
  readonly deep?: boolean | undefined
  /** Existing target folders are entered, existing files in them are left alone. */
  readonly merge?: boolean | undefined
}

/** The parts of the tree that are the same for every principal. */
export interface TreeParts {
  readonly mounts: Mounts
  readonly rules: Rules
  readonly locks: Locks
  readonly reservations: Reservations
  readonly store: Store
  readonly events: Events
  readonly log: Log
}

export class VirtualFs {
  readonly #parts: TreeParts

  constructor(
    parts: TreeParts,
    readonly principal: Principal,
  ) {
    this.#parts = parts
  }

  // Reading

  /** The entry itself. `link`: of a link, not of its target. */
  stat(path: Path, ask: Ask & { readonly link?: boolean | undefined } = {}): Promise<Entry> {
    return this.#told('stat', path, async () => {
      const at = this.#admit('read', path, ask)
      return this.#statAt(at, ask)
    })
  }

  /** The entry together with what the folder rules say of it. */
  view(path: Path, ask: Ask = {}): Promise<{ readonly entry: Entry; readonly folder: FolderView }> {
    return this.#told('stat', path, async () => {
      const at = this.#admit('read', path, ask)
      return { entry: await this.#statAt(at, ask), folder: this.#folderView(at) }
    })
  }

  list(path: Path, ask: ListAsk = {}): Promise<Listing> {
    return this.#told('list', path, async () => {
      const at = this.#admit('list', path, ask)
      if (ask.refresh === true) this.#judge('refresh', at, ask)
      const { entries, settled } = await this.#members(at, ask)
      const shown = this.#visible(at, entries, ask)
      const offset = ask.offset ?? 0
      const part =
        ask.limit === undefined && offset === 0 ? shown : shown.slice(offset, offset + (ask.limit ?? shown.length))
      return {
        entries: settled ? part : await this.#refreshed(at, part, ask),
        total: shown.length,
        folder: this.#folderView(at),
      }
    })
  }

  /** The same entries in pages and in any order, flat in memory however large the folder is. */
  async *pages(path: Path, ask: Ask = {}): AsyncGenerator<readonly Entry[]> {
    try {
      const at = this.#admit('list', path, ask)
      const mounted = new Map(this.#parts.mounts.foldersIn(at).map((entry) => [entry.name, entry]))
      const place = this.#placeUnlessVirtual(at)
      let begun = false
      try {
        for await (const page of place?.storage.pages(place.inner, ask) ?? []) {
          begun = true
          if (mounted.size > 0) for (const entry of page) mounted.delete(entry.name)
          this.#assertAuthority()
          yield this.#visible(at, page)
        }
      } catch (error) {
        // Half a folder must not look like all of it.
        if (begun) throw error
        this.#assertMountsCount(at, mounted.size, error)
      }
      if (mounted.size > 0) yield this.#visible(at, [...mounted.values()])
    } catch (error) {
      throw this.#seen(error).at('list', path)
    }
  }

  read(path: Path, range?: ByteRange, ask: Ask = {}): Promise<Readable> {
    return this.#told('read', path, async () => {
      const at = this.#admit('read', path, ask)
      const { storage, inner } = this.#place(at)
      const joined = joinSignals(ask.signal, this.principal.signal)
      try {
        const bytes = await storage.read(inner, range, { signal: joined.signal })
        // It may fail, or be stopped, before whoever gets it listens.
        bytes.on('error', () => undefined)
        if (joined.signal.aborted) {
          bytes.destroy()
          throw new GatewayError('aborted')
        }
        const stop = () => bytes.destroy(this.#seen(new GatewayError('aborted')))
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
  open(
    path: Path,
    mode: OpenMode,
    change: Change & { readonly readable?: boolean | undefined } = {},
  ): Promise<OpenFile> {
    return this.#told('open', path, async () => {
      const at = this.#admit(mode === 'read' ? 'read' : 'write', path, change)
      const { storage, inner } = this.#place(at)
      const { signal } = change
      if (mode === 'read') return this.#guarded(path, await storage.open(inner, 'read', { signal }))
      const old = await this.#existing(at, change)
      if (!old) checkName(nameOf(at))
      if (old?.kind === 'folder') throw new GatewayError('is_dir')
      const touch = { path: at, membership: !old }
      await this.#assertFree([touch], at, old, change)
      const published = this.#publication(at, change, mode === 'update')
      if (mode === 'update') {
        const options = { signal, readable: true, beforePublish: published.before }
        return this.#guarded(path, await storage.open(inner, 'update', options), published.after)
      }
      const { createOnly, modified, mode: bits, readable } = change
      const options = { signal, createOnly, modified, mode: bits, readable, beforePublish: published.before }
      return this.#guarded(path, await storage.open(inner, 'replace', options), published.after)
    })
  }

  /** A direct address of the backend, where it has one and the storage's options allow to redirect. */
  link(path: Path, ask: Ask = {}): Promise<Link | undefined> {
    return this.#told('link', path, async () => {
      const at = this.#admit('read', path, ask)
      const { storage, inner } = this.#place(at)
      const { webProxy, webdavPolicy } = storage.row
      const proxied = this.principal.door === 'webdav' ? webdavPolicy !== '302_redirect' : webProxy
      return proxied ? undefined : storage.link(inner, ask)
    })
  }

  usage(path: Path, ask: Ask = {}): Promise<Usage> {
    return this.#told('usage', path, async () => {
      const at = this.#admit('read', path, ask)
      return this.#place(at).storage.usage(ask)
    })
  }

  readLink(path: Path, ask: Ask = {}): Promise<string> {
    return this.#told('read link', path, async () => {
      const at = this.#admit('read', path, ask)
      const { storage, inner } = this.#place(at)
      const target = await storage.readLink(inner, ask)
      if (!target.startsWith('/')) return target
      // What is a path of the storage to the backend is one of the tree to the client.
      const seen = within(this.principal.base, storage.treePath(resolvePath(root, target)))
      if (seen === undefined) throw new GatewayError('denied')
      return seen
    })
  }

  /** Rejects with `precondition_failed` unless the conditions hold for what stands at `path`. */
  check(path: Path, conditions: Conditions, ask: Ask = {}): Promise<void> {
    return this.#told('check', path, async () => {
      const at = this.#admit('read', path, ask)
      const entry = await this.#existing(at, ask)
      await assertConditions(conditions, entry, (other) => this.#stateOf(other, at, entry, ask))
    })
  }

  // Changing

  /** Replaces or creates a file. Resolves when it is stored. `parents`: missing folders are made. */
  write(
    path: Path,
    source: Source,
    change: Change & { readonly parents?: boolean | undefined } = {},
  ): Promise<Changed> {
    return this.#told('write', path, () => this.#put(path, source, change))
  }

  async #put(
    path: Path,
    source: Source,
    change: Change & { readonly parents?: boolean | undefined },
  ): Promise<Changed> {
    const { at, storage, inner, old } = await this.#writable(path, change)
    if (change.parents === true && !old) await this.#makeParents(at, change)
    const joined = joinSignals(change.signal, this.principal.signal)
    const published = this.#publication(at, { ...change, signal: joined.signal })
    const { createOnly, modified, mode } = change
    const options = { signal: joined.signal, createOnly, modified, mode, beforePublish: published.before }
    try {
      const entry = await storage.write(inner, source, options)
      return { entry, created: published.created() }
    } finally {
      published.after()
      joined.release()
    }
  }

  /** Rejects as `write` would before it reads the body: for doors that receive it first and write it later. */
  assertWritable(path: Path, change: Change = {}): Promise<void> {
    return this.#told('write', path, async () => {
      await this.#writable(path, change)
    })
  }

  /** Rejects as this change of a member of the folder would, whichever member it is. */
  assertMayChange(action: 'rename' | 'move' | 'remove', folder: Path, ask: Ask = {}): Promise<void> {
    return this.#told(action, folder, async () => {
      this.#judge(action, childOf(this.#resolve(folder), '*'), ask)
    })
  }

  async #writable(path: Path, change: Change): Promise<Place & { at: Path; old: Entry | undefined }> {
    const at = this.#admit('write', path, change)
    this.#assertNotVirtual(at)
    const place = this.#place(at)
    const old = await this.#existing(at, change)
    if (!old) checkName(nameOf(at))
    if (old?.kind === 'folder') throw new GatewayError('is_dir')
    if (old && change.createOnly === true) throw new GatewayError('exists')
    await this.#assertFree([{ path: at, membership: !old }], at, old, change)
    return { ...place, at, old }
  }

  /** `parents`: missing ones are made too, and a folder that is there already is no error. */
  mkdir(path: Path, change: Change & { readonly parents?: boolean | undefined } = {}): Promise<void> {
    return this.#told('make folder', path, async () => {
      const at = this.#admit('mkdir', path, change)
      const old = await this.#existing(at, change)
      if (old) {
        if (change.parents === true && old.kind === 'folder') return
        throw new GatewayError('exists')
      }
      checkName(nameOf(at))
      const { storage, inner } = this.#place(at)
      if (change.parents === true) await this.#makeParents(at, change)
      await this.#reserved([{ path: at, tree: false }], change, async () => {
        this.#judge('mkdir', at, change)
        await this.#assertFree([{ path: at, membership: true }], at, undefined, change)
        await storage.mkdir(inner, change)
      })
    })
  }

  /** 'tree' (the default): whatever is there; 'file': anything but a folder; 'folder': an empty folder. */
  remove(path: Path, change: Change & { readonly what?: 'tree' | 'file' | 'folder' | undefined } = {}): Promise<void> {
    return this.#told('remove', path, async () => {
      const at = this.#admit('remove', path, change)
      this.#assertMovable(at, 'delete root folder is not allowed')
      const what = change.what ?? 'tree'
      const { storage, inner } = this.#place(at)
      const entry = await storage.stat(inner, { signal: change.signal, link: true })
      const isFolder = entry.kind === 'folder' && entry.isLink !== true
      if (what === 'file' && isFolder) throw new GatewayError('is_dir')
      if (what === 'folder' && !isFolder) throw new GatewayError('not_dir')
      if (isFolder) this.#judgeBelow('remove', at, change)
      const joined = joinSignals(change.signal, this.principal.signal)
      try {
        await this.#reserved([{ path: at, tree: isFolder }], joined, async () => {
          const now = await this.#now(at, entry, change)
          await this.#assertFree([{ path: at, tree: isFolder, membership: true }], at, now, change)
          const removed: Path[] = []
          try {
            if (what === 'tree') await removeAll(storage, inner, joined.signal, removed)
            else {
              await storage.remove(inner, { signal: joined.signal })
              removed.push(inner)
            }
          } finally {
            for (const gone of removed) await this.#gone(storage.treePath(gone))
          }
        })
      } finally {
        joined.release()
      }
    })
  }

  /** Gives a name of the same folder, or of another one. Judged as rename, move or both. `exists` unless `overwrite`. */
  move(from: Path, to: Path, ask: CopyAsk): Promise<Changed> {
    return this.#told('move', from, async () => {
      const source = this.#resolve(from)
      const target = this.#resolve(to)
      const sameFolder = parentOf(source) === parentOf(target)
      if (!sameFolder) this.#judge('move', source, ask)
      if (sameFolder || nameOf(source) !== nameOf(target)) this.#judge('rename', source, ask)
      return this.#transfer(source, target, ask, 'move')
    })
  }

  copy(from: Path, to: Path, ask: CopyAsk): Promise<Changed> {
    return this.#told('copy', from, async () => {
      const source = this.#resolve(from)
      this.#judge('read', source, ask)
      this.#judge('copy', source, ask)
      return this.#transfer(source, this.#resolve(to), ask, 'copy')
    })
  }

  setAttributes(path: Path, to: Attributes, change: Change = {}): Promise<void> {
    return this.#told('set attributes', path, async () => {
      const at = this.#admit('attributes', path, change)
      const { storage, inner } = this.#place(at)
      const entry = await this.#existing(at, change)
      await this.#assertFree([{ path: at }], at, entry, change)
      await storage.setAttributes(inner, to, change)
    })
  }

  symlink(path: Path, target: string, change: Change = {}): Promise<void> {
    return this.#told('make link', path, async () => {
      const at = this.#admit('write', path, change)
      checkName(nameOf(at))
      const { storage, inner } = this.#place(at)
      await this.#reserved([{ path: at, tree: false }], change, async () => {
        const old = await this.#existing(at, change)
        if (old) throw new GatewayError('exists')
        await this.#assertFree([{ path: at, membership: true }], at, old, change)
        // What is a path of the tree to the client is one of the storage to the backend.
        const leadsTo = this.#assertLeadsInside(storage.mount, at, target, change)
        await storage.symlink(inner, target.startsWith('/') ? leadsTo : target, change)
      })
    })
  }

  /**
   * A link must not lead to what its maker could not read: out of its storage, above their own root, into what a rule
   * closes. Resolves to the target within the storage.
   */
  #assertLeadsInside(mount: Path, at: Path, target: string, ask: Ask): Path {
    const leadsTo = target.startsWith('/')
      ? this.#resolve(resolvePath(root, target))
      : resolvePath(parentOf(at), target)
    const inner = within(mount, leadsTo)
    if (inner === undefined) throw new GatewayError('denied', { reason: 'a link cannot lead out of its storage' })
    if (!isWithin(this.principal.base, leadsTo)) throw new GatewayError('denied')
    this.#judge('read', leadsTo, ask)
    return inner
  }

  hardLink(from: Path, to: Path, change: Change = {}): Promise<void> {
    return this.#told('make hard link', to, async () => {
      const source = this.#admit('read', from, change)
      this.#judge('copy', source, change)
      const at = this.#admit('write', to, change)
      checkName(nameOf(at))
      const origin = this.#place(source)
      const { storage, inner } = this.#parts.mounts.find(at, origin.storage)
      if (origin.storage !== storage)
        throw new GatewayError('unsupported', { reason: 'a hard link stays within its storage' })
      await this.#reserved([{ path: at, tree: false }], change, async () => {
        const old = await this.#existing(at, change)
        if (old) throw new GatewayError('exists')
        await this.#assertFree([{ path: at, membership: true }], at, old, change)
        await storage.hardLink(origin.inner, inner, change)
      })
    })
  }

  // Locks and properties

  /** Locks `path`; where nothing is there, an empty file is made first (RFC 4918 §9.10.4). */
  lock(
    path: Path,
    request: LockRequest,
    change: Change = {},
  ): Promise<{ readonly lock: Lock; readonly created: boolean }> {
    return this.#told('lock', path, async () => {
      const at = this.#admit('lock', path, change)
      const old = await this.#existing(at, change)
      if (asksForState(change)) await assertConditions(change, old, (other) => this.#stateOf(other, at, old, change))
      const lock = await this.#parts.locks.grant(at, request, this.principal)
      let created = false
      try {
        if (!old) {
          const lockTokens = [...(change.lockTokens ?? []), lock.token]
          const { signal, password } = change
          await this.#put(path, emptySource, { signal, password, lockTokens, createOnly: true })
          created = true
        }
      } catch (error) {
        // What somebody else put there meanwhile is locked as it is.
        if (!isGatewayError(error, 'exists')) {
          await this.#parts.locks.break(lock.token)
          throw error
        }
      }
      return { lock: this.#lockSeen(lock), created }
    })
  }

  refreshLock(path: Path, token: string, seconds: number, change: Change = {}): Promise<Lock> {
    return this.#told('refresh lock', path, async () => {
      const at = this.#admit('lock', path, change)
      if (asksForState(change)) {
        const entry = await this.#existing(at, change)
        await assertConditions(change, entry, (other) => this.#stateOf(other, at, entry, change))
      }
      return this.#lockSeen(await this.#parts.locks.refresh(at, token, seconds, this.principal))
    })
  }

  unlock(path: Path, token: string, ask: Ask = {}): Promise<void> {
    return this.#told('unlock', path, async () => {
      const at = this.#admit('lock', path, ask)
      await this.#parts.locks.release(at, token, this.principal)
    })
  }

  /** Those that cover the path, in the principal's own paths. `members`: also those on a direct member of this folder. */
  locks(path: Path, ask: Ask & { readonly members?: boolean | undefined } = {}): Promise<readonly Lock[]> {
    return this.#told('list locks', path, async () => {
      const at = this.#admit('read', path, ask)
      const { locks } = this.#parts
      const onMembers =
        ask.members === true ? locks.list().filter((lock) => lock.path !== at && parentOf(lock.path) === at) : []
      return [...locks.covering(at), ...onMembers].map((lock) => this.#lockSeen(lock))
    })
  }

  /** Dead properties kept for this path. */
  properties(path: Path, ask: Ask = {}): Promise<readonly Property[]> {
    return this.#told('read properties', path, async () => {
      const at = this.#admit('read', path, ask)
      return this.#parts.store.properties.of(at)
    })
  }

  /** Dead properties of the members of a folder that have any, by name. */
  memberProperties(path: Path, ask: Ask = {}): Promise<ReadonlyMap<string, readonly Property[]>> {
    return this.#told('read properties', path, async () => {
      const at = this.#admit('list', path, ask)
      const found = await this.#parts.store.properties.ofChildren(at)
      return new Map([...found].map(([child, properties]) => [nameOf(child), properties]))
    })
  }

  /** All or nothing. */
  setProperties(path: Path, changes: readonly PropertyChange[], change: Change = {}): Promise<void> {
    return this.#told('set properties', path, async () => {
      const at = this.#admit('properties', path, change)
      const entry = await this.#statAt(at, change)
      await this.#reserved([{ path: at, tree: false }], change, async () => {
        await this.#assertFree([{ path: at }], at, await this.#now(at, entry, change), change)
        await this.#parts.store.properties.change(at, changes)
      })
    })
  }

  // Who may, and what stands in the way

  /** The path in the whole tree. What the core sets aside is nobody's. */
  #resolve(path: Path): Path {
    const at = under(this.principal.base, path)
    if (at.toLowerCase().includes(`/${reservedPrefix}`)) throw new GatewayError('not_found')
    return at
  }

  /** The path in the whole tree, judged. */
  #admit(action: Action, path: Path, ask: Ask): Path {
    const at = this.#resolve(path)
    this.#judge(action, at, ask)
    return at
  }

  #judge(action: Action, at: Path, ask: Ask): void {
    const { rules } = this.#parts
    const ruling = { own: rules.nearest(at), folder: rules.nearest(parentOf(at)) }
    const verdict = judge(this.principal, action, at, ruling, ask.password)
    if (verdict === 'allow') return
    if (verdict === 'denied' && action === 'refresh')
      throw new GatewayError('denied', { reason: 'Refresh without permission' })
    throw new GatewayError(verdict)
  }

  /** A change of a tree is a change of every ruled folder in it. */
  #judgeBelow(action: Action, at: Path, ask: Ask): void {
    const { rules } = this.#parts
    const nearest = rules.nearest(at)
    // What is copied of the folder itself is judged as reading, and member by member.
    const own = nearest?.path === at && action !== 'copy' ? [nearest] : []
    for (const rule of [...own, ...rules.below(at)]) {
      const verdict = judge(this.principal, action, childOf(rule.path, '*'), { own: rule, folder: rule }, ask.password)
      if (verdict !== 'allow') throw new GatewayError(verdict, { reason: 'permission denied below this folder' })
    }
  }

  #assertAuthority(): void {
    if (this.principal.signal.aborted) throw new GatewayError('unauthenticated')
  }

  /** Locks, then conditions. */
  async #assertFree(touches: readonly Touch[], at: Path, entry: Entry | undefined, change: Change): Promise<void> {
    if (asksForState(change)) await assertConditions(change, entry, (other) => this.#stateOf(other, at, entry, change))
    for (const touch of touches) {
      const lock = this.#parts.locks.blocking(touch, this.principal, change.lockTokens ?? [])
      if (lock) throw this.#locked(lock)
    }
  }

  /** As the principal may read it: without what lies above their own root. */
  #locked(lock: Lock): LockedError {
    const error = new LockedError(this.#lockSeen(lock))
    seenLocks.add(error)
    return error
  }

  async #stateOf(other: Path | undefined, at: Path, entry: Entry | undefined, ask: Ask) {
    const path = other === undefined ? at : this.#resolve(other)
    const own =
      path === at
        ? entry
        : await this.#existing(path, ask).catch((error: unknown) => {
            if (error instanceof NoStorageError) return undefined
            throw error
          })
    return { entry: own, tokens: this.#parts.locks.covering(path).map((lock) => lock.token) }
  }

  /** What conditions are asked of, as it is under a reservation; `entry` where nothing asks. */
  async #now(at: Path, entry: Entry, change: Change): Promise<Entry | undefined> {
    return asksForState(change) ? this.#existing(at, change) : entry
  }

  /** The second asking, once the body has arrived: under a reservation that `after` ends. */
  #publication(at: Path, change: Change, mustExist = false) {
    let release: (() => void) | undefined
    let created = false
    let ended = false
    const after = () => {
      ended = true
      release?.()
      release = undefined
    }
    const check = async () => {
      this.#judge('write', at, change)
      const entry = await this.#existing(at, change)
      if (entry && change.createOnly === true) throw new GatewayError('exists')
      if (entry?.kind === 'folder') throw new GatewayError('is_dir')
      if (!entry && mustExist) throw new GatewayError('not_found')
      created = !entry
      await this.#assertFree([{ path: at, membership: created }], at, entry, change)
    }
    return {
      before: async () => {
        const taken = release
          ? undefined
          : await this.#parts.reservations.take([{ path: at, tree: false }], change.signal)
        release ??= taken
        // The backend gave up while this waited: nobody would end the reservation any more.
        if (ended) after()
        if (ended) throw new GatewayError('aborted')
        try {
          await check()
        } catch (error) {
          after()
          throw error
        }
      },
      after,
      created: () => created,
    }
  }

  async #reserved<T>(claims: readonly Claim[], ask: Ask, work: () => Promise<T>): Promise<T> {
    const release = await this.#parts.reservations.take(claims, ask.signal)
    try {
      return await work()
    } finally {
      release()
    }
  }

  /** Each use of a handle asks whether its principal still has authority. */
  #guarded(path: Path, file: OpenFile, ended?: () => void): OpenFile {
    return hooked(file, {
      before: () => this.#assertAuthority(),
      failed: (error, op) => this.#seen(error).at(op, path),
      ...(ended && { ended }),
    })
  }

  // Places

  #place(at: Path): Place {
    return this.#parts.mounts.find(at)
  }

  /** The storage's place, or undefined for a folder that leads to mounts and has none, or one that did not start. */
  #placeUnlessVirtual(at: Path): Place | undefined {
    try {
      return this.#place(at)
    } catch (error) {
      const isMissing = error instanceof NoStorageError || isGatewayError(error, 'unavailable')
      if (isMissing && this.#parts.mounts.hasMountsBelow(at)) return undefined
      throw error
    }
  }

  async #statAt(at: Path, ask: Ask & { readonly link?: boolean | undefined }): Promise<Entry> {
    const { mounts } = this.#parts
    const name = at === this.principal.base ? '' : nameOf(at)
    if (mounts.isMountPoint(at) || at === '/') {
      const entry = await this.#rootEntry(at, ask)
      if (entry) return { ...entry, name }
    } else {
      try {
        const { storage, inner } = this.#place(at)
        const entry = await storage.stat(inner, ask)
        return at === this.principal.base ? { ...entry, name } : entry
      } catch (error) {
        if (!isGatewayError(error, 'not_found', 'unavailable') || !mounts.hasMountsBelow(at)) throw error
      }
    }
    const virtual = mounts.virtualEntry(at)
    if (!virtual) throw new NoStorageError(at, false)
    return { ...virtual, name }
  }

  /** The root of a mount; undefined where its storage does not answer: it stays visible as a folder. */
  async #rootEntry(at: Path, ask: Ask): Promise<Entry | undefined> {
    try {
      const { storage, inner } = this.#place(at)
      return await storage.stat(inner, { signal: ask.signal })
    } catch (error) {
      if (isGatewayError(error, 'aborted')) throw error
      return undefined
    }
  }

  async #existing(at: Path, ask: Ask): Promise<Entry | undefined> {
    try {
      return await this.#statAt(at, { signal: ask.signal })
    } catch (error) {
      if (isGatewayError(error, 'not_found') && !(error instanceof NoStorageError)) return undefined
      throw error
    }
  }

  /** A folder's entries with the mounts below it. Where the storage fails, its mounts are still shown. */
  async #members(at: Path, ask: ListAsk): Promise<{ entries: readonly Entry[]; settled: boolean }> {
    const mounted = this.#parts.mounts.foldersIn(at)
    const place = this.#placeUnlessVirtual(at)
    if (!place) return { entries: mounted, settled: true }
    try {
      const { signal, refresh = false, limit } = ask
      const options = limit === undefined ? { refresh } : { refresh, part: limit }
      const own = await place.storage.listing(place.inner, signal ? { ...options, signal } : options)
      if (mounted.length === 0) return own
      const names = new Set(own.entries.map((entry) => entry.name))
      return { ...own, entries: [...own.entries, ...mounted.filter((entry) => !names.has(entry.name))] }
    } catch (error) {
      this.#assertMountsCount(at, mounted.length, error)
      return { entries: mounted, settled: true }
    }
  }

  /** Where mounts are to be shown, a storage that fails does not stop that. */
  #assertMountsCount(at: Path, mounted: number, error: unknown): void {
    if (mounted === 0 || isGatewayError(toGatewayError(error), 'aborted', 'unauthenticated')) throw error
    this.#parts.log.warn({ err: error, path: at }, 'a folder could not be listed; its mounts are shown')
  }

  async #refreshed(at: Path, entries: readonly Entry[], ask: Ask): Promise<readonly Entry[]> {
    const { storage, inner } = this.#place(at)
    const mounted = new Set(this.#parts.mounts.foldersIn(at).map((entry) => entry.name))
    if (mounted.size === 0) return storage.refreshed(inner, entries, ask)
    const own = await storage.refreshed(
      inner,
      entries.filter((entry) => !mounted.has(entry.name)),
      ask,
    )
    const fresh = new Map(own.map((entry) => [entry.name, entry]))
    return entries.flatMap((entry) => (mounted.has(entry.name) ? [entry] : (fresh.get(entry.name) ?? [])))
  }

  /** What of a folder the principal may know of. */
  #visible(
    at: Path,
    entries: readonly Entry[],
    ask: Pick<ListAsk, 'foldersOnly' | 'startsWith'> = {},
  ): readonly Entry[] {
    const { foldersOnly = false, startsWith = '' } = ask
    const { rules } = this.#parts
    const rule = rules.nearest(at)
    const hides =
      rule !== undefined && rule.hide !== '' && covers(rule, rule.hideSub, at) && !holds(this.principal, 'seeHidden')
    const ruled = new Set(rules.below(at).map((below) => below.path))
    const seen = (entry: Entry): boolean => {
      if ((foldersOnly && entry.kind !== 'folder') || !entry.name.startsWith(startsWith)) return false
      if (entry.name.startsWith(reservedPrefix)) return false
      if (hides && isHidden(this.principal, childOf(at, entry.name), rule)) return false
      return ruled.size === 0 || !this.#shutOut(childOf(at, entry.name), ruled)
    }
    return entries.every(seen) ? entries : entries.filter(seen)
  }

  #shutOut(at: Path, ruled: ReadonlySet<Path>): boolean {
    if (!ruled.has(at)) return false
    const rule = this.#parts.rules.nearest(at)
    return rule !== undefined && rule.readUsers.length > 0 && !rule.readUsers.includes(this.principal.userId)
  }

  #folderView(at: Path): FolderView {
    const { rules, mounts } = this.#parts
    const rule = rules.nearest(at)
    const excluded =
      rule !== undefined && rule.writeUsers.length > 0 && !rule.writeUsers.includes(this.principal.userId)
    const writeByRule = rule !== undefined && rule.write && covers(rule, rule.writeSub, at)
    const changes = (['write', 'rename', 'move', 'copy', 'remove'] as const).some((each) => holds(this.principal, each))
    const shut = excluded && covers(rule, rule.writeUsersSub, at)
    return {
      readme: rule && covers(rule, rule.readmeSub, at) ? rule.readme : '',
      header: rule && covers(rule, rule.headerSub, at) ? rule.header : '',
      write: !shut && (writeByRule || changes || mayWriteContent(this.principal, rule, at)),
      writeByRule,
      provider: mounts.rowOf(at)?.driver ?? 'unknown',
      signed: mounts.rowOf(at)?.enableSign === true || (rule !== undefined && needsSignature(rule, at)),
    }
  }

  #lockSeen(lock: Lock): Lock {
    return { ...lock, path: this.#view(lock.path) }
  }

  /** A path of the whole tree as the principal sees it; what lies above the base shows as the base. */
  #view(at: Path): Path {
    return within(this.principal.base, at) ?? root
  }

  // Steps of changes

  #assertNotVirtual(at: Path): void {
    if (this.#parts.mounts.isVirtual(at)) throw new GatewayError('is_dir')
  }

  /** Mount points, what leads to them, and the principal's own root stay where they are. */
  #assertMovable(at: Path, reason: string): void {
    if (at === this.principal.base || this.#parts.mounts.isVirtual(at)) throw new GatewayError('denied', { reason })
  }

  async #makeParents(at: Path, change: Change): Promise<void> {
    const missing: Path[] = []
    for (let folder = parentOf(at); folder !== '/'; folder = parentOf(folder)) {
      const entry = await this.#existing(folder, change)
      if (entry?.kind === 'folder') break
      if (entry) throw new GatewayError('not_dir')
      missing.unshift(folder)
    }
    for (const folder of missing) {
      checkName(nameOf(folder))
      this.#judge('mkdir', folder, change)
      const { storage, inner } = this.#place(folder)
      await this.#assertFree([{ path: folder, membership: true }], folder, undefined, { lockTokens: change.lockTokens })
      await storage.mkdir(inner, { signal: change.signal }).catch((error: unknown) => {
        // Somebody else made it meanwhile.
        if (!isGatewayError(error, 'exists')) throw error
      })
    }
  }

  /** Move and copy alike: checks, then the quick way under a reservation, else item by item. */
  async #transfer(source: Path, target: Path, ask: CopyAsk, kind: 'move' | 'copy'): Promise<Changed> {
    this.#judge('receive', target, ask)
    if (kind === 'move') this.#assertMovable(source, 'move root folder is not allowed')
    const from = this.#place(source)
    const entry = await from.storage.stat(from.inner, { signal: ask.signal, link: true })
    const isFolder = entry.kind === 'folder' && entry.isLink !== true
    if (source === target) return { entry, created: false }
    const old = await this.#existing(target, ask)
    if (old && !ask.overwrite && ask.merge !== true) {
      throw new GatewayError('exists', { reason: `file [${nameOf(target)}] exists` })
    }
    if (!old) checkName(nameOf(target))
    if (isFolder && isWithin(source, target)) {
      throw new GatewayError('invalid', { reason: 'the destination folder is a subfolder of the source folder' })
    }
    if (isWithin(target, source))
      throw new GatewayError('invalid', { reason: 'a folder cannot be replaced by what is in it' })
    if (this.#parts.mounts.isVirtual(target))
      throw new GatewayError('denied', { reason: 'a mount point cannot be replaced' })
    if (old?.kind === 'folder' && ask.merge !== true) {
      this.#judge('remove', target, ask)
      this.#judgeBelow('remove', target, ask)
    }
    // Taking the place of a file is overwriting it, by whatever name.
    if (old && old.kind !== 'folder' && ask.merge !== true) this.#judge('write', target, ask)
    if (isFolder) this.#judgeBelow(kind, source, ask)
    if (isFolder && kind === 'move') this.#assertStaysHidden(source, target)
    const parent = await this.#existing(parentOf(target), ask)
    if (!parent) throw new GatewayError('parent_missing')
    if (parent.kind !== 'folder') throw new GatewayError('not_dir')
    const to = this.#parts.mounts.find(target, from.storage)
    await this.#assertLinkMayMove(kind, from, source, target, entry, ask)
    const touches: Touch[] = [{ path: target, tree: old?.kind === 'folder', membership: !old }]
    if (kind === 'move') touches.unshift({ path: source, tree: isFolder, membership: true })
    await this.#assertFree(touches, source, entry, ask)

    const joined = joinSignals(ask.signal, this.principal.signal)
    try {
      const done =
        kind === 'move' &&
        ask.merge !== true &&
        (await this.#moveAtOnce(source, target, from, to, joined.signal, ask, touches, entry))
      if (!done) {
        const job = this.#job(source, from, to, ask, joined.signal)
        const items: Copied[] = []
        let whole = false
        try {
          await (kind === 'copy' ? copyTree(job, items) : moveTree(job, items))
          whole = ask.merge !== true
        } finally {
          if (whole) await this.#follow(source, target, kind, ask.deep !== false)
          else await this.#followItems(job, kind, items)
        }
      }
    } finally {
      joined.release()
    }
    return { entry: await to.storage.stat(to.inner, { signal: ask.signal }), created: !old }
  }

  /** A rule above the source does not go along: what it hides in there must not come to light in another place. */
  #assertStaysHidden(source: Path, target: Path): void {
    const { rules } = this.#parts
    const rule = rules.nearest(source)
    if (!rule || rule.path === source || rule.hide === '' || !rule.hideSub || holds(this.principal, 'seeHidden')) return
    const there = rules.nearest(parentOf(target))
    if (there?.hide === rule.hide && covers(there, there.hideSub, target)) return
    throw new GatewayError('denied', { reason: 'a folder rule hides things here that would be seen there' })
  }

  /** A relative link means something else in another folder. */
  async #assertLinkMayMove(
    kind: 'move' | 'copy',
    { storage, inner }: Place,
    source: Path,
    target: Path,
    entry: Entry,
    ask: Ask,
  ): Promise<void> {
    if ((entry.kind !== 'link' && entry.isLink !== true) || parentOf(source) === parentOf(target)) return
    const text = await storage.readLink(inner, { signal: ask.signal })
    if (text.startsWith('/')) return
    const { mount } = this.#parts.mounts.find(target, storage).storage
    if (kind === 'move' || mount === storage.mount) this.#assertLeadsInside(mount, target, text, ask)
  }

  /** The same for the links in a folder. Whoever could read all that a link may lead to is not kept waiting for a look. */
  async #assertLinksMayMove({ storage, inner }: Place, target: Path, ask: Ask): Promise<void> {
    const { mount } = storage
    const readsAll = isWithin(this.principal.base, mount) && this.#parts.rules.list().length === 0
    if (readsAll || this.principal.role === 'admin') return
    for await (const page of storage.pages(inner, { signal: ask.signal })) {
      for (const member of page) {
        const [from, to] = [childOf(inner, member.name), childOf(target, member.name)]
        if (member.kind === 'link' || member.isLink === true) {
          const text = await storage.readLink(from, { signal: ask.signal })
          if (!text.startsWith('/')) this.#assertLeadsInside(mount, to, text, ask)
        } else if (member.kind === 'folder') {
          await this.#assertLinksMayMove({ storage, inner: from }, to, ask)
        }
      }
    }
  }

  /** In one step of the backend, the old target set aside meanwhile; false where the backend has none. */
  async #moveAtOnce(
    source: Path,
    target: Path,
    from: Place,
    to: Place,
    signal: AbortSignal,
    ask: CopyAsk,
    touches: readonly Touch[],
    entry: Entry,
  ): Promise<boolean> {
    if (from.storage !== to.storage) return false
    const { storage } = from
    const { intents } = this.#parts.store
    const claims = [source, target].map((path) => ({ path, tree: true }))
    return this.#reserved(claims, { signal }, async () => {
      await this.#assertFree(touches, source, await this.#now(source, entry, ask), ask)
      if (entry.kind === 'folder' && entry.isLink !== true && parentOf(source) !== parentOf(target)) {
        await this.#assertLinksMayMove(from, target, { ...ask, signal })
      }
      const now = await this.#existing(target, { signal })
      if (now && !ask.overwrite) throw new GatewayError('exists', { reason: `file [${nameOf(target)}] exists` })
      // A file takes the place of a file by itself; everything else needs the place to be free.
      const replaces = now !== undefined && (now.kind === 'folder' || entry.kind === 'folder')
      const settle = replaces ? await this.#setAside(storage, to.inner, signal) : undefined
      if (replaces && !settle) return false
      try {
        const intent = await intents.insert({ kind: 'move', from: source, to: target })
        let moved = false
        try {
          moved = await storage.move(from.inner, to.inner, { signal })
        } catch (error) {
          // It may have happened all the same.
          moved = (await isThere(storage, to.inner)) === true && (await isThere(storage, from.inner)) === false
          throw error
        } finally {
          if (moved) {
            await intents.carryOut(intent)
            await this.#parts.rules.reload()
            await this.#parts.locks.dropWithin(source, true)
            await this.#parts.locks.dropWithin(target, false)
          } else {
            await intents.drop(intent)
          }
        }
        return moved
      } finally {
        await settle?.()
      }
    })
  }

  /**
   * Gives what stands at `path` of the storage another name, by an intent that a restart would finish; undefined where the
   * backend cannot. Resolves to what removes it, or puts it back where nothing took its place.
   */
  async #setAside(storage: Storage, path: Path, signal: AbortSignal): Promise<(() => Promise<void>) | undefined> {
    const { intents } = this.#parts.store
    const aside = asideOf(path)
    const intent = await intents.insert({ kind: 'aside', from: storage.treePath(path), to: storage.treePath(aside) })
    const settle = async () => {
      await settleAside(storage, path, aside)
      await intents.drop(intent)
    }
    try {
      if (await storage.move(path, aside, { signal })) return settle
    } catch (error) {
      await settle()
      throw error
    }
    await intents.drop(intent)
    return undefined
  }

  #job(source: Path, from: Place, to: Place, ask: CopyAsk, signal: AbortSignal): CopyJob {
    const { rules, reservations } = this.#parts
    return {
      from,
      to,
      signal,
      deep: ask.deep !== false,
      merge: ask.merge === true,
      overwrite: ask.overwrite,
      // What the principal cannot see is not copied for them.
      leaveOut: (path) => path !== source && isHidden(this.principal, path, rules.nearest(parentOf(path))),
      setAside: (path) => this.#setAside(to.storage, path, signal),
      assertLink: (path, text) => {
        if (!text.startsWith('/')) this.#assertLeadsInside(to.storage.mount, path, text, ask)
      },
      beforePublish: async (path) => {
        const release = await reservations.take([{ path, tree: false }], signal)
        try {
          this.#judge('receive', path, ask)
          const lock = this.#parts.locks.blocking({ path }, this.principal, ask.lockTokens ?? [])
          if (lock) throw this.#locked(lock)
          return release
        } catch (error) {
          release()
          throw error
        }
      },
    }
  }

  /** Properties, rules and locks after a copy or a move that went item by item, all of it. */
  async #follow(source: Path, target: Path, kind: 'move' | 'copy', deep: boolean): Promise<void> {
    const { store, locks, rules } = this.#parts
    if (kind === 'copy') {
      await store.properties.copy(source, target, deep)
      return
    }
    // Attributes are not moved: those of the source went with it, those of the target came with its writing.
    await store.properties.move(source, target)
    await store.rules.move(source, target)
    await rules.reload()
    await locks.dropWithin(source, true)
  }

  /** The same where only some of it was copied or moved. */
  async #followItems(job: CopyJob, kind: 'move' | 'copy', items: readonly Copied[]): Promise<void> {
    const whole = new Set(
      kind === 'move' ? items.filter(({ entry }) => entry.kind === 'folder').map(({ from }) => from) : [],
    )
    for (const { from, to } of items) {
      // Members of a folder that moved go along with it.
      if (from !== '/' && [...upwardFrom(parentOf(from))].some((above) => whole.has(above))) continue
      await this.#follow(job.from.storage.treePath(from), job.to.storage.treePath(to), kind, false)
    }
  }

  /** What the core kept for something goes with it. */
  async #gone(at: Path): Promise<void> {
    await this.#parts.store.properties.delete(at)
    await this.#parts.locks.dropWithin(at, true)
  }

  // Errors

  async #told<T>(op: string, path: Path, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      const seen = this.#seen(error)
      if (!(seen instanceof TreeError)) throw seen.at(op, path)
      throw seen.seenFrom(
        (at) => this.#view(at),
        (failure) => this.#seen(failure),
      )
    }
  }

  /** An operation that was stopped because its principal lost authority says so. */
  #seen(error: unknown): GatewayError {
    const known = toGatewayError(error)
    if (known instanceof LockedError && !seenLocks.has(known)) return this.#locked(known.lock)
    if (known.code === 'internal') this.#parts.log.error({ err: known.cause ?? known }, 'an unforeseen error')
    return known.code === 'aborted' && this.principal.signal.aborted ? new GatewayError('unauthenticated') : known
  }
}

/** Whether a rule closes or hides something for anybody, so that a link needs to prove who made it. */
export function needsSignature(rule: Rule, at: Path): boolean {
  const reaches = (sub: boolean) => covers(rule, sub, at) || covers(rule, sub, parentOf(at))
  return (
    (rule.password !== '' && reaches(rule.passwordSub)) ||
    (rule.readUsers.length > 0 && reaches(rule.readUsersSub)) ||
    (rule.hide !== '' && reaches(rule.hideSub))
  )
}

/** Whether something stands there; undefined where the storage does not tell. */
async function isThere(storage: Storage, path: Path): Promise<boolean | undefined> {
  try {
    await storage.stat(path, { link: true })
    return true
  } catch (error) {
    return isGatewayError(error, 'not_found') ? false : undefined
  }
}

/** Errors that tell of a lock as their reader may see it already. */
const seenLocks = new WeakSet<LockedError>()

const emptySource: Source = {
  size: 0,
  rereadable: true,
  read: async () => Readable.from([]),
}
