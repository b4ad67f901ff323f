/**
 * How a file gets its content, by one body or through a handle. What may stand in the way is asked before the body is read,
 * and again once it has arrived, under a reservation that lasts until the file has its name. Callers have judged the path.
 */
import type { Access, Reached } from './access.js'
import { atSpeed } from './bandwidth.js'
import type { Change, Changed } from './change.js'
import type { ChangeGuard } from './change-guard.js'
import type { Entry, OpenFile, Source } from './driver.js'
import { GatewayError, isGatewayError } from './errors.js'
import type { KeptUpload } from './kept-uploads.js'
import type { Place } from './mounts.js'
import { checkName, deepestFound, nameOf, parentOf, root, type Path } from './path.js'
import { joinSignals } from './signals.js'
import { spelledPath } from './spelling.js'
import type { TreeParts } from './tree-parts.js'
import type { WholeTree } from './whole-tree.js'

/** What a caller may bring along with a body. */
export interface BodyChange extends Change {
  /** Missing folders are made. */
  readonly parents?: boolean | undefined
  /** Of a task that may go on with it. */
  readonly kept?: KeptUpload | undefined
}

/** What a caller may bring along with a handle. */
export interface HandleChange extends Change {
  /** What is written can also be read before it has its name. */
  readonly readable?: boolean | undefined
  /** Permission bits, where they depend on what stands there. */
  readonly modeOver?: ((old: Entry | undefined) => number | undefined) | undefined
  /** Called once nobody else can take the name any more; a rejection leaves what stands there. */
  readonly beforePublish?: (() => Promise<void>) | undefined
}

/** A handle that writes. */
export interface WritingHandle extends OpenFile {
  /** What stood under the name when it was opened. */
  readonly old: Entry | undefined
}

/** The second asking, and what follows from it. */
interface Publication {
  /** Takes the reservation and asks; a rejection leaves the old file. */
  readonly before: () => Promise<void>
  /** Ends the reservation. */
  readonly after: () => void
  /** Whether nothing stood there at the second asking. */
  readonly created: () => boolean
}

export class Writing {
  constructor(
    private readonly parts: Pick<TreeParts, 'locks' | 'mounts' | 'reservations' | 'bandwidth'>,
    private readonly access: Access,
    private readonly tree: WholeTree,
    private readonly guard: ChangeGuard,
  ) {}

  /** Stores a body. */
  async put(reached: Reached, source: Source, change: BodyChange): Promise<Changed> {
    const { at } = reached
    const { storage, inner, old } = await this.assertWritable(reached, change)
    if (change.parents === true && !old) await this.makeParents(at, change)
    const { userId: user, signal: authority } = this.access.principal
    const joined = joinSignals(change.signal, authority)
    const published = this.#publication(at, { ...change, signal: joined.signal })
    const { createOnly, modified, mode, kept } = change
    const options = { signal: joined.signal, user, createOnly, modified, mode, kept, beforePublish: published.before }
    // A body may take longer than its sender asked the lock to stand.
    const letGo = this.parts.locks.keep(at, change.lockTokens ?? [], this.access.principal)
    try {
      const entry = await storage.write(inner, source, options)
      return { entry, created: published.created() }
    } finally {
      letGo()
      published.after()
      joined.release()
    }
  }

  /** Rejects where a body would be refused; resolves to where it goes and what stands there. */
  async assertWritable(reached: Reached, change: Change): Promise<Place & { readonly old: Entry | undefined }> {
    const { at } = reached
    if (this.parts.mounts.isVirtual(at)) throw new GatewayError('is_dir')
    const place = this.tree.place(at)
    place.storage.assertWritable()
    const old = await this.tree.standing(reached, change)
    if (!old) checkName(nameOf(at))
    if (old?.kind === 'folder') throw new GatewayError('is_dir')
    if (old && change.createOnly === true) throw new GatewayError('exists')
    await this.guard.assertFree([{ path: at, membership: !old }], at, old, change)
    return { ...place, old }
  }

  /** `path`: the principal's own, for what the handle's errors tell. Nothing is made behind a link. */
  async open(reached: Reached, path: Path, mode: 'update' | 'replace', change: HandleChange): Promise<WritingHandle> {
    const { at } = reached
    const { storage, inner } = this.tree.place(at)
    const old = await this.tree.standing(reached, change)
    if (!old) checkName(nameOf(at))
    if (old?.kind === 'folder') throw new GatewayError('is_dir')
    if (mode === 'replace' && old?.kind === 'link')
      throw new GatewayError('denied', { reason: 'a link that leads nowhere' })
    await this.guard.assertFree([{ path: at, membership: !old }], at, old, change)
    const published = this.#publication(at, change, mode === 'update')
    const { signal, createOnly, modified, mode: bits = change.modeOver?.(old), readable } = change
    const { userId: user } = this.access.principal
    const options =
      mode === 'update'
        ? { signal, user, readable: true, beforePublish: published.before }
        : { signal, user, createOnly, modified, mode: bits, readable, beforePublish: published.before }
    const { toClients, fromClients } = this.parts.bandwidth
    const file = await storage.open(inner, mode, options)
    return { ...this.access.guarded(path, atSpeed(file, toClients, fromClients), published.after), old }
  }

  #publication(at: Path, change: HandleChange, mustExist = false): Publication {
    let release: (() => void) | undefined
    let created = false
    let ended = false
    const after = () => {
      ended = true
      release?.()
      release = undefined
    }
    const check = async () => {
      // Somebody may have given it another spelling meanwhile.
      const now = await spelledPath(this.parts.mounts, at, { signal: change.signal })
      this.access.judge('write', now, change)
      const entry = await this.tree.standing(await this.access.assertSettled('write', now, change), change)
      if (entry && change.createOnly === true) throw new GatewayError('exists')
      if (entry?.kind === 'folder') throw new GatewayError('is_dir')
      if (!entry && mustExist) throw new GatewayError('not_found')
      created = !entry
      await this.guard.assertFree([{ path: now, membership: created }], now, entry, change)
    }
    return {
      before: async () => {
        const taken = release
          ? undefined
          : await this.parts.reservations.take([{ path: at, tree: false }], change.signal)
        release ??= taken
        // The backend gave up while this waited: nobody would end the reservation any more.
        if (ended) after()
        if (ended) throw new GatewayError('aborted')
        try {
          await check()
          await change.beforePublish?.()
        } catch (error) {
          after()
          throw error
        }
      },
      after,
      created: () => created,
    }
  }

  /** Makes the folders that lead to `at` and are not there yet; each of them is judged. */
  async makeParents(at: Path, change: Change): Promise<void> {
    for (const folder of await this.#missingAbove(at, change)) {
      checkName(nameOf(folder))
      this.access.judge('mkdir', folder, change)
      const { storage, inner } = this.tree.place(folder)
      this.guard.assertUnlocked({ path: folder, membership: true }, change)
      await storage.mkdir(inner, { signal: change.signal }).catch((error: unknown) => {
        // Somebody else made it meanwhile.
        if (!isGatewayError(error, 'exists')) throw error
      })
    }
  }

  /** The folders above that are not there, the outermost first. */
  async #missingAbove(at: Path, change: Change): Promise<readonly Path[]> {
    const parent = parentOf(at)
    const nearest = await deepestFound(parent, (folder) => this.tree.existing(folder, change))
    if (nearest && nearest.found.kind !== 'folder') throw new GatewayError('not_dir')
    const missing: Path[] = []
    for (let folder = parent; folder !== (nearest?.at ?? root); folder = parentOf(folder)) missing.unshift(folder)
    return missing
  }
}
