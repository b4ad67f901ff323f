/**
 * The intent log: multi-step operations of transfers on one storage, recorded before they start. These are moves by a
 * backend whose rules, grants, properties and attributes must move too, and backups of entries that are being replaced.
 * Interrupted operations are completed or undone when their storage starts, and retried until that succeeds. The
 * removal of a folder that was copied elsewhere is only remembered: the same move, made again, completes it.
 */
import { randomUUID } from 'node:crypto'
import { settlesWithin } from '../base/cancellation.js'
import type { Entry } from '../contract/entry.js'
import { isGatewayError } from '../base/errors.js'
import type { Log } from '../base/log.js'
import { childOf, isWithin, parentOf, reservedPrefix, siblingPathOf, under, within, type Path } from '../base/path.js'
import type { MountedPath } from '../mounts/mounts.js'
import type { PathLocks } from '../locks/path-locks.js'
import type { Storage } from '../storage/storage.js'
import type { Intent } from '../database/tables/intents.js'
import type { OfOthers, Store } from '../database/tables.js'

/** The folder rules and grants, which follow a folder that is moved. Paths are of the whole tree. */
interface FollowingRows {
  hasWithin(path: Path): boolean
  duringMove(from: Path, to: Path): (hasMoved: boolean) => void
  updateSpelling(path: Path): Promise<void>
  move(from: Path, to: Path): Promise<void>
  reload(): Promise<void>
}

interface IntentsDependencies {
  readonly store: Pick<Store, 'intents' | 'properties' | 'attributes'>
  readonly followers: FollowingRows
  readonly pathLocks: PathLocks
  readonly ofOthers: OfOthers
  readonly log: Log
  /** Undefined if the storage is not running. */
  readonly storageOf: (id: number) => Storage | undefined
}

/** An entry under a temporary name, protected by an intent that is recovered when its storage starts. */
export interface Backup {
  readonly at: Path
  /** Records that the transfer has published the replacement: the backup is a spare one from then on. */
  markReplaced(): Promise<void>
  /**
   * Restores the backup if its name is free. Otherwise deletes it if it is a spare one, or preserves it under a
   * visible name beside the entry.
   */
  restoreOrDiscard(): Promise<void>
  /** Deletes the backup. If that fails, restores or preserves it, and rejects. */
  remove(): Promise<void>
}

/** 'moved': it is the source of a move item by item. */
type RemovalReason = 'removed' | 'renamed' | 'moved'

/** Seconds until recovery is retried, by the number of failed attempts. */
const retryAfter = [5, 15, 60, 300]

/** Maximum time in milliseconds for which recovery delays the start of a storage. */
const startTimeout = 10_000

export class Intents {
  /** Intents that a running transfer or recovery is working on. */
  readonly #busy = new Set<number>()
  /** Storages that may have records of removals. */
  readonly #withRemovals = new Set<number>()
  /** Moves item by item that are running. */
  readonly #running = new Set<string>()
  /** Timers by ID of the storage. */
  readonly #retries = new Map<number, NodeJS.Timeout>()
  /**
   * What ends the time in which rules and grants apply at both paths of a move whose outcome is not known, by the ID of
   * its intent.
   */
  readonly #unresolved = new Map<number, { readonly storageId: number; readonly end: (hasMoved: boolean) => void }>()
  #closed = false

  constructor(private readonly dependencies: IntentsDependencies) {}

  /**
   * Must be called before an entry is removed or renamed, while its path locks are held. It ends the intents at that
   * path which other nodes have left, so that none of them acts on the name once it is free. A backup is not restored
   * there, and a move is completed or undone first. What a move has left of its source there is forgotten, unless the
   * same move removes it (`reason` is 'moved'). A rename takes along what is below the entry, with its intents.
   */
  async beforeRemoval({ storage, inner }: MountedPath, reason: RemovalReason): Promise<void> {
    const { store, followers, ofOthers } = this.dependencies
    if (reason !== 'moved') await this.#ifRemovals(storage, () => this.endRemoval({ storage, inner }))
    for (const intent of (await ofOthers(() => store.intents.ofOthersAt(storage.row.id, inner))) ?? []) {
      // A folder that is renamed takes along what is below it, also a backup that may be the only copy.
      if (reason === 'renamed' && (isBackup(intent) ? intent.from : intent.to) !== inner) continue
      if (isBackup(intent)) await store.intents.supersede(intent.id)
      else {
        // A node makes a move under path locks only, so this one is not made any more.
        await store.intents.take(intent.id)
        if (!(await this.#recoverMove(storage, intent))) this.#scheduleRetry(storage.row.id, 0)
        await followers.reload()
      }
    }
  }

  /** Stops all retries. */
  close(): void {
    this.#closed = true
    for (const timer of this.#retries.values()) clearTimeout(timer)
  }

  /**
   * Recovers the interrupted operations of a storage that is starting. Resolves when all of them were attempted, or
   * after a timeout; the rest continues in the background. Failures are logged and retried.
   */
  async recover(storage: Storage): Promise<void> {
    await settlesWithin(this.#recoverAll(storage, 0), startTimeout)
  }

  /**
   * Runs `work`, a rename by the backend, which resolves to whether it was performed. The caller holds the path locks
   * of both paths. After a rename, the stored rules, grants, properties and attributes are moved, and `follow` is
   * called.
   *
   * Records an intent only if there are any of these to move, or if the old target was moved to a backup or removed
   * (`replaces`). Otherwise the rename is the only step.
   */
  async move(
    from: MountedPath,
    to: MountedPath,
    replaces: boolean,
    work: () => Promise<boolean>,
    follow: () => Promise<void>,
  ): Promise<boolean> {
    const { storage } = from
    const { store, followers } = this.dependencies
    const [source, target] = [storage.treePath(from.inner), storage.treePath(to.inner)]
    const hadFollowers = followers.hasWithin(source)
    const needsIntent =
      replaces ||
      hadFollowers ||
      (await store.properties.hasWithin(source, target)) ||
      (await store.attributes.hasWithin(source, target))
    // A rule or grant has no effect if a power cut separates it from its folder, so this intent must be on stable
    // storage.
    const { intents } = hadFollowers ? store : storage.records
    const intent = {
      storageId: storage.row.id,
      from: from.inner,
      to: to.inner,
      kind: 'move',
    } as const
    const id = needsIntent ? await this.#insert(intent, intents) : undefined
    const endMove = hadFollowers ? followers.duringMove(source, target) : undefined
    /** Undefined if it is not known whether the backend has moved it. */
    let moved: boolean | undefined
    try {
      moved = await work()
    } catch (error) {
      // A failed call may have renamed the entry.
      moved = await hasMoved(storage, intent).catch(() => undefined)
      throw error
    } finally {
      try {
        if (id !== undefined) {
          await this.#end(intent.storageId, id, async () => {
            if (moved === undefined) this.#scheduleRetry(intent.storageId, 0)
            else await (moved ? intents.apply(id, storage.mountPoint) : intents.drop(id))
          })
        }
        // Rules and grants may have been created during the call. They must move too.
        const mustFollow = moved === true && (hadFollowers || followers.hasWithin(source))
        if (mustFollow && id === undefined) {
          await followers.updateSpelling(source)
          await followers.move(source, target)
        }
        if (mustFollow) await followers.reload()
      } finally {
        if (moved === undefined && id !== undefined && endMove)
          this.#unresolved.set(id, { storageId: intent.storageId, end: endMove })
        else endMove?.(moved === true)
        if (moved === true) await follow()
      }
    }
    return moved
  }

  /**
   * Renames the entry to a backup name. A file is copied instead if the backend cannot rename. Resolves to undefined
   * for a folder of a backend that cannot rename.
   *
   * The backup name is reserved and hidden. A backend that is itself a gateway rejects reserved names; a visible name
   * is used there.
   */
  async moveToBackup(place: MountedPath, signal: AbortSignal): Promise<Backup | undefined> {
    const { storage, inner } = place
    try {
      return await this.#moveToBackupAt(backupPathOf(inner), place, signal)
    } catch (error) {
      if (!isGatewayError(error, 'not_found', 'parent_missing', 'denied') || !(await exists(storage, inner)))
        throw error
      return this.#moveToBackupAt(siblingPathOf(inner, 'replaced'), place, signal)
    }
  }

  async #moveToBackupAt(at: Path, { storage, inner }: MountedPath, signal: AbortSignal): Promise<Backup | undefined> {
    const backup = await this.#createBackup({ storage, inner }, at, 'backup')
    try {
      if (await storage.tryMove(inner, backup.at, { signal })) return backup.markMoved()
      const entry = await storage.stat(inner, { signal, ofSymlink: true })
      if (entry.kind === 'file') {
        await backup.setKind('spare backup')
        await storage.copy(inner, backup.at, { signal })
        await backup.setKind('backup')
        await storage.remove(inner, { signal }).catch(async (error: unknown) => {
          const now = await storage.statOrUndefined(inner, { ofSymlink: true }).catch(() => undefined)
          if (now && isUnchanged(entry, now)) await backup.setKind('spare backup')
          throw error
        })
        return backup.markMoved()
      }
    } catch (error) {
      await backup.restoreOrDiscard()
      throw error
    }
    await backup.restoreOrDiscard()
    return undefined
  }

  /**
   * Records that the folder `from`, which was copied to `to`, begins to be removed as the second half of a move. Until
   * `endRemoval`, also after a crash, what is left of it is a remainder.
   */
  async beginRemoval(from: MountedPath, to: MountedPath): Promise<void> {
    const { intents } = this.dependencies.store
    const storageId = from.storage.row.id
    const target = to.storage.treePath(to.inner)
    const known = await this.#removals(from, to)
    this.#withRemovals.add(storageId)
    if (known.some(({ kind }) => kind === 'removal')) return
    await intents.insert({ storageId, kind: 'removal', from: from.inner, to: target })
  }

  /** Nothing is left of the folder at `place`. */
  async endRemoval({ storage, inner }: MountedPath): Promise<void> {
    const from = { storageId: storage.row.id, from: inner }
    await this.dependencies.store.intents.endRemovals(storage.treePath(inner), from)
  }

  /**
   * Runs `make`, which makes the folder `to`, at a free name, for a move of the folder `from`. If the move fails or is
   * interrupted from then on, `continues` recognizes it, and what is left of `from` is a remainder.
   */
  async makeTarget(from: MountedPath, to: MountedPath, make: () => Promise<void>): Promise<void> {
    const { intents } = this.dependencies.store
    const target = to.storage.treePath(to.inner)
    const storageId = from.storage.row.id
    this.#withRemovals.add(storageId)
    // The entries that earlier moves made there exist no longer.
    await intents.endRemovals(target)
    const id = await intents.insert({ storageId, kind: 'new target', from: from.inner, to: target })
    try {
      await make()
    } catch (error) {
      const isMade = isGatewayError(error, 'exists') ? false : await exists(to.storage, to.inner).catch(() => undefined)
      if (isMade === false) await intents.drop(id)
      throw error
    }
    await this.beginRemoval(from, to)
  }

  /**
   * Whether a move of the folder `from` to the folder `to` continues one that has made `to` and has ended before it was
   * complete. One that has ended before it was known whether it made `to` is continued only if `to` is empty.
   */
  async continues(from: MountedPath, to: MountedPath, signal: AbortSignal): Promise<boolean> {
    if (this.#running.has(moveKey(from, to))) return false
    const known = await this.#removals(from, to)
    if (!known.some(({ kind }) => kind === 'new target')) return false
    return known.some(({ kind }) => kind === 'removal') || isEmpty(to, signal)
  }

  /** Must be called before the folder `to` is replaced by another one: no move continues there. */
  async beforeReplacement({ storage, inner }: MountedPath): Promise<void> {
    const { intents } = this.dependencies.store
    const target = storage.treePath(inner)
    const removals = await this.#ifRemovals(storage, () => intents.removals(storage.row.id))
    for (const { id, kind, to } of removals ?? []) {
      if (kind !== 'new target' || !isWithin(target, to)) continue
      await intents.take(id)
      await intents.drop(id)
    }
  }

  /** Calls `work`, unless no node can have records of removals on the storage. */
  #ifRemovals<T>({ row }: Storage, work: () => Promise<T>): Promise<T> | undefined {
    return this.#withRemovals.has(row.id) ? work() : this.dependencies.ofOthers(work)
  }

  /** Runs `work`, a move item by item. The same move, made meanwhile, does not continue it. */
  async whileMoving(from: MountedPath, to: MountedPath, work: () => Promise<void>): Promise<void> {
    const key = moveKey(from, to)
    const isFirst = !this.#running.has(key)
    this.#running.add(key)
    try {
      await work()
    } finally {
      if (isFirst) this.#running.delete(key)
    }
  }

  /** The removals and new targets of moves of the folder `from` to `to`. */
  async #removals(from: MountedPath, to: MountedPath): Promise<Intent[]> {
    const target = to.storage.treePath(to.inner)
    const all = await this.dependencies.store.intents.removals(from.storage.row.id)
    return all.filter((each) => each.from === from.inner && each.to === target)
  }

  /**
   * Resolves to whether a folder of this storage is what a move of it, or of a folder above it, has left; `to` is the
   * path of its copy in the whole tree.
   */
  async remaindersOn({ row }: Storage): Promise<(from: Path, to: Path) => boolean> {
    const removals = await this.dependencies.store.intents.removals(row.id)
    return (from, to) =>
      removals.some((removal) => {
        const below = removal.kind === 'removal' ? within(removal.from, from) : undefined
        return below !== undefined && under(removal.to, below) === to
      })
  }

  /** Reserves a name for writing the replacement of an entry while that entry still exists. */
  async reserveBackup(place: MountedPath): Promise<Backup> {
    return this.#createBackup(place, backupPathOf(place.inner), 'spare backup')
  }

  async #createBackup({ storage, inner: from }: MountedPath, to: Path, kind: 'backup' | 'spare backup') {
    const { intents } = this.dependencies.store
    const storageId = storage.row.id
    const intent = { storageId, kind, from, to } as const
    const id = await this.#insert(intent, intents)
    const setKind = (now: typeof kind) => intents.setKind(id, now)
    const recover = async (wasMoved: boolean) => {
      const recovered = await this.#recoverBackup(storage, (await intents.get(id)) ?? { ...intent, id })
      if (!recovered && !wasMoved) await intents.drop(id)
      else if (!recovered) this.#scheduleRetry(storageId, 0)
    }
    let wasMoved = false
    const backup = {
      at: intent.to,
      markReplaced: () => setKind('spare backup'),
      restoreOrDiscard: () => this.#end(storageId, id, () => recover(wasMoved)),
      remove: () =>
        this.#end(storageId, id, async () => {
          await setKind('spare backup')
          try {
            await storage.removeTree(intent.to)
            await intents.drop(id)
          } catch (error) {
            await recover(true)
            throw error
          }
        }),
    }
    const markMoved = () => {
      wasMoved = true
      return backup
    }
    return { ...backup, setKind, markMoved }
  }

  async #insert(intent: Omit<Intent, 'id'>, intents: Store['intents']): Promise<number> {
    const id = await intents.insert(intent)
    this.#busy.add(id)
    return id
  }

  async #end(storageId: number, id: number, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#scheduleRetry(storageId, 0)
      throw error
    } finally {
      this.#busy.delete(id)
    }
  }

  async #recoverAll(storage: Storage, failures: number): Promise<void> {
    const { store, log } = this.dependencies
    const id = storage.row.id
    try {
      const intents = await store.intents.ofStorage(id)
      // Applying a move makes the backup of its target a spare one, so moves are recovered first.
      const moves = intents.filter(({ kind }) => kind === 'move')
      const recovered = await this.#recoverEach(storage, moves)
      const isOpen = (intentId: number) => intents.some((each) => each.id === intentId)
      const ofOthers = [...this.#unresolved].filter(([each, { storageId }]) => storageId === id && !isOpen(each))
      if (moves.length > 0 || ofOthers.length > 0) await this.dependencies.followers.reload()
      // Another node has recovered them.
      for (const [intentId] of ofOthers) this.#resolve(intentId, false)
      for (const { id, kind, from } of intents) {
        if ((kind === 'removal' || kind === 'new target') && !(await exists(storage, from)))
          await store.intents.drop(id)
      }
      if ((await store.intents.removals(id)).length > 0) this.#withRemovals.add(id)
      const backups = (await store.intents.ofStorage(id)).filter(isBackup)
      if ((await this.#recoverEach(storage, backups)) && recovered) return
    } catch (error) {
      if (!this.#closed)
        log.warn({ err: error, storage: storage.mountPoint }, 'could not read the intents of interrupted operations')
    }
    this.#scheduleRetry(id, failures)
  }

  /** Resolves to whether all of them are recovered. */
  async #recoverEach(storage: Storage, intents: readonly Intent[]): Promise<boolean> {
    let allRecovered = true
    for (const intent of intents) {
      if (this.#busy.has(intent.id)) continue
      this.#busy.add(intent.id)
      try {
        if (!(await this.#recoverIntent(storage, intent))) allRecovered = false
      } catch (error) {
        allRecovered = false
        const details = { err: error, storage: storage.mountPoint, path: storage.treePath(intent.from) }
        this.dependencies.log.warn(details, 'could not recover an interrupted operation; retrying later')
      } finally {
        this.#busy.delete(intent.id)
      }
    }
    return allRecovered
  }

  /** Resolves to false if neither name exists, as on a disk that is not mounted yet. */
  async #recoverIntent(storage: Storage, intent: Intent): Promise<boolean> {
    const { pathLocks } = this.dependencies
    const claims = [intent.from, intent.to].map((path) => ({ path: storage.treePath(path), tree: true }))
    const release = await pathLocks.acquire(claims)
    try {
      // Another node may have changed it before it had the locks.
      const current = await this.dependencies.store.intents.get(intent.id)
      if (!current) return true
      return await (isBackup(current) ? this.#recoverBackup(storage, current) : this.#recoverMove(storage, current))
    } finally {
      release()
    }
  }

  async #recoverMove(storage: Storage, intent: Intent): Promise<boolean> {
    const { intents } = this.dependencies.store
    const moved = await hasMoved(storage, intent)
    if (moved) await intents.apply(intent.id, storage.mountPoint)
    else if (await exists(storage, intent.from)) await intents.drop(intent.id)
    else return false
    this.#resolve(intent.id, moved)
    return true
  }

  #resolve(id: number, moved: boolean): void {
    this.#unresolved.get(id)?.end(moved)
    this.#unresolved.delete(id)
  }

  /**
   * Restores the backup if its name is free. Otherwise deletes it if it is a spare one, or preserves it beside the
   * entry. Resolves to false if neither name exists and the backup was no spare one.
   */
  async #recoverBackup(storage: Storage, { id, kind, from, to }: Intent): Promise<boolean> {
    const isSpare = kind === 'spare backup'
    const isTaken = await exists(storage, from)
    if (await exists(storage, to)) {
      if (!isTaken) await rename(storage, to, from)
      else if (isSpare) await storage.removeTree(to)
      else await this.#preserveBackup(storage, to, from)
    } else if (!isTaken && !isSpare) {
      return false
    }
    await this.dependencies.store.intents.drop(id)
    return true
  }

  /** The entry that has the name now may belong to another user, so both are preserved. */
  async #preserveBackup(storage: Storage, backup: Path, path: Path): Promise<void> {
    const visible = siblingPathOf(path, 'replaced')
    await rename(storage, backup, visible)
    const details = { path: storage.treePath(path), backup: storage.treePath(visible) }
    this.dependencies.log.warn(details, 'the name of a backup is taken; preserved the backup under another name')
  }

  #scheduleRetry(storageId: number, failures: number): void {
    if (this.#closed) return
    clearTimeout(this.#retries.get(storageId))
    const seconds = retryAfter[Math.min(failures, retryAfter.length - 1)] ?? 300
    const retry = () => {
      this.#retries.delete(storageId)
      // A storage that is not running recovers its intents when it starts.
      const storage = this.dependencies.storageOf(storageId)
      if (storage) void this.#recoverAll(storage, failures + 1)
    }
    this.#retries.set(storageId, setTimeout(retry, seconds * 1000).unref())
  }
}

function isBackup({ kind }: Intent): boolean {
  return kind === 'backup' || kind === 'spare backup'
}

async function exists(storage: Storage, path: Path): Promise<boolean> {
  return (await storage.statOrUndefined(path, { ofSymlink: true })) !== undefined
}

function moveKey(from: MountedPath, to: MountedPath): string {
  return [from, to].map(({ storage, inner }) => storage.treePath(inner)).join('\0')
}

async function isEmpty({ storage, inner }: MountedPath, signal: AbortSignal): Promise<boolean> {
  for await (const page of storage.pages(inner, { signal, refresh: true })) if (page.length > 0) return false
  return true
}

async function hasMoved(storage: Storage, { from, to }: Pick<Intent, 'from' | 'to'>): Promise<boolean> {
  return (await exists(storage, to)) && !(await exists(storage, from))
}

/** Copies and removes a file if the backend cannot rename. */
async function rename(storage: Storage, from: Path, to: Path): Promise<void> {
  if (await storage.tryMove(from, to)) return
  await storage.copy(from, to)
  await storage.remove(from)
}

/** Returns a new path in the same folder, for a backup of the entry at `path` while it is being replaced. */
function backupPathOf(path: Path): Path {
  return childOf(parentOf(path), `${reservedPrefix}backup-${randomUUID()}`)
}

function isUnchanged(entry: Entry, now: Entry): boolean {
  const isFile = now.kind === entry.kind && now.size === entry.size
  return isFile && now.modified.getTime() === entry.modified.getTime() && now.revision === entry.revision
}
