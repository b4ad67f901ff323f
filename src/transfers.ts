/**
 * Moves and copies within the tree, both alike: what may stand in the way is asked first, then it is done in one step of the
 * backend under a reservation, else item by item. Properties, rules and locks follow. Callers have judged the source.
 */
import type { Access } from './access.js'
import type { Ask, Change, Changed } from './change.js'
import type { ChangeGuard } from './change-guard.js'
import { copyTree, moveTree } from './copy.js'
import type { CopyJob, CopyJournal } from './copy-job.js'
import { isFolder, isLink } from './copy-member.js'
import type { Entry } from './driver.js'
import { GatewayError, isGatewayError } from './errors.js'
import type { LeftOut } from './listed-names.js'
import type { Touch } from './locks.js'
import { MemoryJournal } from './memory-journal.js'
import type { Place } from './mounts.js'
import { checkName, childOf, isWithin, nameOf, parentOf, root, under, within, type Path } from './path.js'
import { holds } from './principal.js'
import type { Claim } from './reservations.js'
import { covers } from './rules.js'
import { joinSignals } from './signals.js'
import { spelledPath } from './spelling.js'
import type { Storage } from './storage.js'
import type { TreeParts } from './tree-parts.js'
import { isUnseen } from './visibility.js'
import type { WholeTree } from './whole-tree.js'

export interface CopyAsk extends Change {
  /** false: `exists` if the target is there. */
  readonly overwrite: boolean
  /** false: a folder without its members (WebDAV's Depth 0). */
  readonly deep?: boolean | undefined
  /** Existing target folders are entered, existing files in them are left alone. */
  readonly merge?: boolean | undefined
  /** Of work that outlives the request, and may have begun before. */
  readonly journal?: CopyJournal | undefined
  /** Told how many bytes more are done, or fewer, of what failed. */
  readonly advance?: ((bytes: number) => void) | undefined
  /** Called for each folder of the source of which names are left out, because no path can hold them. */
  readonly leftOut?: ((folder: Path, leftOut: LeftOut) => void) | undefined
}

type Kind = 'move' | 'copy'

/** One that nothing was found to stand in the way of. Paths are of the whole tree. */
interface Transfer {
  readonly kind: Kind
  readonly source: Path
  readonly target: Path
  readonly from: Place
  readonly to: Place
  /** The source, of a link itself. */
  readonly entry: Entry
  /** The target is another spelling of the source. */
  readonly respells: boolean
  readonly touches: readonly Touch[]
  readonly ask: CopyAsk
}

export class Transfers {
  constructor(
    private readonly parts: Pick<
      TreeParts,
      'mounts' | 'rules' | 'locks' | 'reservations' | 'store' | 'turns' | 'intents'
    >,
    private readonly access: Access,
    private readonly tree: WholeTree,
    private readonly guard: ChangeGuard,
  ) {}

  /** Rejects with TreeError where only a part of it could be done. */
  async transfer(source: Path, target: Path, ask: CopyAsk, kind: Kind): Promise<Changed> {
    this.access.judge('receive', target, ask)
    // What was begun there must not go on in whatever lies below that storage.
    if (ask.journal?.resumes === true && this.parts.mounts.isDisabled(target)) {
      throw new GatewayError('unavailable', { reason: 'the storage is disabled' })
    }
    if (nameOf(source) !== nameOf(target)) this.access.assertWanted(nameOf(target))
    if (kind === 'move') this.access.assertMovable(source, 'move root folder is not allowed')
    const from = this.tree.place(source)
    const entry = await from.storage
      .stat(from.inner, { signal: ask.signal, link: true })
      .catch(async (error: unknown) => {
        if (kind === 'move' && (await this.#wasMoved(source, ask, error))) return undefined
        throw error
      })
    if (!entry) return this.#followMoved(source, target, ask)
    if (source === target) return { entry, created: false }
    const respells = (await spelledPath(this.parts.mounts, target, ask)) === source
    // Under another spelling, a thing stands in its own way.
    const old = respells ? undefined : await this.tree.existing(target, ask)
    this.#assertReplaceable(source, target, entry, old, ask, kind)
    const parent = await this.tree.existing(parentOf(target), ask)
    if (!parent) throw new GatewayError('parent_missing')
    if (parent.kind !== 'folder') throw new GatewayError('not_dir')
    const to = this.parts.mounts.find(target, from.storage)
    const touches: Touch[] = [{ path: target, tree: old?.kind === 'folder', membership: !old }]
    if (kind === 'move') touches.unshift({ path: source, tree: isFolder(entry), membership: true })
    const transfer: Transfer = { kind, source, target, from, to, entry, respells, touches, ask }
    await this.#assertLinkMayMove(transfer)
    await this.guard.assertFree(touches, source, entry, ask)
    if (old && isFolder(old) && ask.overwrite && ask.merge !== true) {
      await this.guard.assertAllSeen(to.storage, to.inner, ask.signal ?? this.access.principal.signal)
    }

    const joined = joinSignals(ask.signal, this.access.principal.signal)
    try {
      const atOnce = kind === 'move' && ask.merge !== true && ask.journal?.resumes !== true
      const done = atOnce && (await this.#moveAtOnce(transfer, joined.signal))
      if (!done && respells)
        throw new GatewayError('unsupported', { reason: 'this storage cannot change the spelling of a name' })
      if (!done) await this.#itemByItem(transfer, joined.signal)
    } finally {
      joined.release()
    }
    return { entry: await to.storage.stat(to.inner, { signal: ask.signal }), created: !old }
  }

  // What may stand in the way

  /** `old` is what stands at the target. */
  #assertReplaceable(source: Path, target: Path, entry: Entry, old: Entry | undefined, ask: CopyAsk, kind: Kind): void {
    // What stands there may be what an earlier run made: that is looked at item by item.
    const isTaken = old && !ask.overwrite && ask.merge !== true && ask.journal?.resumes !== true
    if (isTaken === true) throw nameTaken(target)
    if (!old) checkName(nameOf(target))
    if (isFolder(entry) && isWithin(source, target)) {
      throw new GatewayError('invalid', { reason: 'the destination folder is a subfolder of the source folder' })
    }
    if (isWithin(target, source))
      throw new GatewayError('invalid', { reason: 'a folder cannot be replaced by what is in it' })
    if (this.parts.mounts.isVirtual(target))
      throw new GatewayError('denied', { reason: 'a mount point cannot be replaced' })
    const replaced = ask.overwrite && ask.merge !== true ? old : undefined
    if (replaced?.kind === 'folder') {
      this.access.judge('remove', target, ask)
      this.access.judgeBelow('remove', target, ask)
    }
    // Taking the place of a file is overwriting it, by whatever name.
    if (replaced && replaced.kind !== 'folder') this.access.judge('write', target, ask)
    if (isFolder(entry)) this.access.judgeBelow(kind, source, ask)
    if (isFolder(entry) && kind === 'move') this.#assertStaysHidden(source, target)
  }

  /** A rule above the source does not go along: what it hides in there must not come to light in another place. */
  #assertStaysHidden(source: Path, target: Path): void {
    const { rules } = this.parts
    const rule = rules.nearest(source)
    const seesHidden = holds(this.access.principal, 'seeHidden')
    if (!rule || rule.path === source || rule.hide === '' || !rule.hideSub || seesHidden) return
    const there = rules.nearest(parentOf(target))
    if (there?.hide === rule.hide && covers(there, there.hideSub, target)) return
    throw new GatewayError('denied', { reason: 'a folder rule hides things here that would be seen there' })
  }

  /** A relative link means something else in another folder. */
  async #assertLinkMayMove({ kind, source, target, from, to, entry, ask }: Transfer): Promise<void> {
    if (!isLink(entry) || parentOf(source) === parentOf(target)) return
    const text = await from.storage.readLink(from.inner, { signal: ask.signal })
    if (text.startsWith('/')) return
    const { mount } = to.storage
    if (kind === 'move' || mount === from.storage.mount) await this.access.assertLeadsInside(mount, target, text, ask)
  }

  /** The same for the links in a folder. Whoever could read all that a link may lead to is not kept waiting for a look. */
  async #assertLinksMayMove({ storage, inner }: Place, target: Path, ask: Ask): Promise<void> {
    const { mount } = storage
    const { base, role } = this.access.principal
    if (role === 'admin' || (isWithin(base, mount) && this.parts.rules.list().length === 0)) return
    for await (const page of storage.pages(inner, { signal: ask.signal })) {
      for (const member of page) {
        const [from, to] = [childOf(inner, member.name), childOf(target, member.name)]
        if (isLink(member)) {
          const text = await storage.readLink(from, { signal: ask.signal })
          if (!text.startsWith('/')) await this.access.assertLeadsInside(mount, to, text, ask)
        } else if (member.kind === 'folder') {
          await this.#assertLinksMayMove({ storage, inner: from }, to, ask)
        }
      }
    }
  }

  // In one step

  /** By the backend, the old target set aside meanwhile; false where the backend has no such step. */
  async #moveAtOnce(transfer: Transfer, signal: AbortSignal): Promise<boolean> {
    const { source, target, from, to, entry, respells, touches, ask } = transfer
    if (from.storage !== to.storage) return false
    const claims = [source, target].map((path) => ({ path, tree: true }))
    return this.guard.reserved(claims, { signal }, async () => {
      await this.guard.assertFree(touches, source, await this.guard.now(source, entry, ask), ask)
      if (isFolder(entry) && parentOf(source) !== parentOf(target)) {
        await this.#assertLinksMayMove(from, target, { ...ask, signal })
      }
      const old = respells ? undefined : await this.tree.existing(target, { signal })
      if (old && !ask.overwrite) throw nameTaken(target)
      // A file takes the place of a file by itself; everything else needs the place to be free.
      const replaces = old !== undefined && (old.kind === 'folder' || entry.kind === 'folder')
      const aside = replaces ? await this.parts.intents.setAside(to, signal) : undefined
      if (replaces && !aside) return false
      try {
        return await this.#moveByBackend(transfer, replaces, signal)
      } finally {
        await aside?.settle()
      }
    })
  }

  /** `replaces`: the old target was set aside. */
  async #moveByBackend(
    { source, target, from, to }: Transfer,
    replaces: boolean,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { storage } = from
    const { intents, rules, locks } = this.parts
    await rules.respell(source)
    const move = () => storage.move(from.inner, to.inner, { signal })
    return intents.move(from, to, replaces, move, async () => {
      await locks.dropWithin(source, true)
      await locks.dropWithin(target, false)
    })
  }

  // Item by item

  /** Whether an earlier run copied all of it and removed it, and had only to say so. */
  async #wasMoved(source: Path, { journal }: CopyAsk, error: unknown): Promise<boolean> {
    return (
      journal?.resumes === true && isGatewayError(error, 'not_found') && (await journal.copied(source)) !== undefined
    )
  }

  async #followMoved(source: Path, target: Path, ask: CopyAsk): Promise<Changed> {
    const { storage, inner } = this.parts.mounts.find(target)
    const entry = await storage.stat(inner, { signal: ask.signal, link: true })
    await this.#followWhole(source, target, 'move', true)
    return { entry, created: true }
  }

  async #itemByItem(transfer: Transfer, signal: AbortSignal): Promise<void> {
    const { kind, source, target, ask } = transfer
    const job = this.#job(transfer, signal)
    let whole = false
    try {
      await (kind === 'copy' ? copyTree(job) : moveTree(job))
      whole = ask.merge !== true
    } finally {
      if (whole) await this.#followWhole(source, target, kind, ask.deep !== false)
      else await this.#followItems(transfer, job)
    }
  }

  #job({ source, target, from, to, ask }: Transfer, signal: AbortSignal): CopyJob {
    const { mounts, rules, reservations, turns, intents } = this.parts
    const moving = parentOf(source) === parentOf(target) ? 'rename' : 'move'
    /** Takes the reservation and asks; what is rejected releases it. */
    const claiming = async <T>(claims: readonly Claim[], check: (release: () => void) => Promise<T>): Promise<T> => {
      const release = await reservations.take(claims, signal)
      try {
        return await check(release)
      } catch (error) {
        release()
        throw error
      }
    }
    return {
      from,
      to,
      signal,
      deep: ask.deep !== false,
      merge: ask.merge === true,
      overwrite: ask.overwrite,
      turns,
      journal: ask.journal ?? new MemoryJournal(),
      advance: (bytes) => ask.advance?.(bytes),
      // What the principal cannot see is not copied for them.
      leaveOut: (path) => path !== source && isUnseen(rules, this.access.principal, path),
      leftOut: (folder, { count, names }) => {
        const seen = names.filter((name) => !isUnseen(rules, this.access.principal, childOf(folder, name)))
        const seenCount = count - (names.length - seen.length)
        if (seenCount > 0) ask.leftOut?.(this.access.view(folder), { count: seenCount, names: seen })
      },
      setAside: (place) => intents.setAside(place, signal),
      writeAside: (place) => intents.writeAside(place),
      assertReadable: async (path) => {
        await this.access.follow('read', path, ask)
      },
      assertLink: async (path, text) => {
        if (!text.startsWith('/')) await this.access.assertLeadsInside(to.storage.mount, path, text, ask)
      },
      beforePublish: async (targets, replaces) => {
        const paths = await Promise.all(targets.map((to) => spelledPath(mounts, to, { signal })))
        const claims = paths.map((path) => ({ path, tree: false }))
        return claiming(claims, async (release) => {
          return { refused: await this.#refused(targets, paths, replaces, { ...ask, signal }), release }
        })
      },
      beforeRemove: async (what, inner, tree) => {
        const { storage } = what === 'source' ? from : to
        // Taking the place of a file is overwriting it.
        const action = what === 'source' ? moving : what === 'surplus' || tree ? 'remove' : 'write'
        const path = storage.treePath(inner)
        return claiming([{ path, tree }], async (release) => {
          this.access.judge(action, path, ask)
          if (tree) this.access.judgeBelow(action, path, ask)
          this.guard.assertUnlocked({ path, tree, membership: true }, ask)
          if (tree) await this.guard.assertAllSeen(storage, inner, signal)
          return release
        })
      },
    }
  }

  /** Why some of these names cannot be taken, by `targets`, of which `paths` are the spellings. Rejects with `busy` where a link leads there. */
  async #refused(
    targets: readonly Path[],
    paths: readonly Path[],
    replaces: boolean,
    ask: CopyAsk,
  ): Promise<ReadonlyMap<Path, unknown>> {
    for (const folder of new Set(paths.map(parentOf))) await this.access.assertNoLink('receive', folder, ask)
    const refused = new Map<Path, unknown>()
    for (const [index, path] of paths.entries()) {
      try {
        this.access.judge('receive', path, ask)
        this.guard.assertUnlocked({ path }, ask)
        // A link that is written to is not replaced: what it leads to is.
        const real = replaces ? await this.access.follow('receive', path, ask, true) : path
        if (real !== path) this.guard.assertUnlocked({ path: real }, ask)
      } catch (error) {
        refused.set(targets[index] ?? path, error)
      }
    }
    return refused
  }

  /** Properties, rules and locks after a copy or a move that went item by item, all of it: nothing is left of the old target. */
  async #followWhole(source: Path, target: Path, kind: Kind, deep: boolean): Promise<void> {
    const { store, locks } = this.parts
    if (!deep) await store.properties.delete(target)
    await this.#follow(source, target, kind, deep)
    await locks.dropWithin(target, false)
  }

  /** Properties and rules, and of a move the locks. `deep`: with all that is below. */
  async #follow(source: Path, target: Path, kind: Kind, deep: boolean): Promise<void> {
    const { store, locks, rules } = this.parts
    if (kind === 'copy') {
      await store.properties.copy(source, target, deep)
      return
    }
    await rules.respell(source)
    // Attributes are not moved: those of the source went with it, those of the target came with its writing.
    await store.properties.move(source, target)
    await store.rules.move(source, target)
    await rules.reload()
    await locks.dropWithin(source, true)
  }

  /** The same where only some of it was copied or moved: of every path that anything is kept of, on either side. */
  async #followItems({ kind, source, target, from }: Transfer, { journal }: CopyJob): Promise<void> {
    const { store, rules, locks } = this.parts
    const isDone = async (path: Path) => {
      if (!(await journal.copied(path))) return false
      return kind === 'copy' || (await isThere(from.storage, within(from.storage.mount, path) ?? path)) === false
    }
    const targetFor = (path: Path) => under(target, within(source, path) ?? root)
    // The target first: what its old files had goes where the source has nothing in its stead.
    const sides = [
      [target, (path: Path) => under(source, within(target, path) ?? root)],
      [source, (path: Path) => path],
    ] as const
    for (const [top, sourceFor] of sides) {
      for await (const paths of store.properties.within(top)) {
        const done: [Path, Path][] = []
        for (const path of paths.map(sourceFor)) if (await isDone(path)) done.push([path, targetFor(path)])
        await store.properties.follow(done, kind === 'copy')
      }
    }
    if (kind === 'copy') return
    await rules.respell(source)
    for (const { path } of rules.list()) {
      if (isWithin(source, path) && (await isDone(path))) await store.rules.move(path, targetFor(path))
    }
    await rules.reload()
    for (const { path } of locks.list()) {
      if (isWithin(source, path) && (await isDone(path))) await locks.dropWithin(path, true)
    }
  }
}

/** Whether something of this name stands there; undefined where the storage does not tell. */
async function isThere(storage: Storage, path: Path): Promise<boolean | undefined> {
  return storage.has(path).catch(() => undefined)
}

function nameTaken(target: Path): GatewayError {
  return new GatewayError('exists', { reason: `file [${nameOf(target)}] exists` })
}
