/**
 * What one principal may do, and how they see it: every operation of `VirtualFs` is judged here. The only way from a principal's
 * own paths to those of the whole tree and back, errors and locks included. Beside this, `judge()` is called where no operation is:
 * by `base-folders.ts` before a user's own root is made, and by `search/visible-names.ts` for what a search may find.
 */
import { TreeError, type Ask } from './change.js'
import type { Look, OpenFile } from './driver.js'
import { GatewayError, toGatewayError } from './errors.js'
import { hooked } from './handles.js'
import { LockedError, type Lock } from './locks.js'
import {
  childOf,
  isWithin,
  nameOf,
  parentOf,
  reservedPrefix,
  resolvePath,
  root,
  segmentsOf,
  under,
  upwardFrom,
  within,
  type Path,
} from './path.js'
import { isHidden, isSystemFile, judge, throughLinks, type Action } from './policy.js'
import type { Principal } from './principal.js'
import { spelledPath, spelledTarget } from './spelling.js'
import type { TreeParts } from './tree-parts.js'
import { isClosedOrHidden, isUnseen } from './visibility.js'

/** Errors that tell of a lock as their reader may see it already. */
const seenLocks = new WeakSet<LockedError>()

/** A path of the whole tree that was judged and followed. */
export interface Reached {
  readonly at: Path
  /** What stood there when it was followed; undefined where that was not told. */
  readonly seen: Look | undefined
}

type Parts = Pick<TreeParts, 'mounts' | 'bases' | 'rules' | 'settings' | 'log'>

export class Access {
  readonly #parts: Parts
  /** As the accounts know them. */
  readonly #given: Principal
  /** Their paths as the backends spell them, as far as that is known yet. */
  #spelled: Principal

  constructor(parts: Parts, principal: Principal) {
    this.#parts = parts
    this.#given = principal
    this.#spelled = principal
  }

  get principal(): Principal {
    return this.#spelled
  }

  // May they

  /** The path in the whole tree, as the backends spell it. What the core sets aside is nobody's. */
  async resolve(path: Path, ask: Ask): Promise<Path> {
    const asked = this.#underBase(path)
    await this.#parts.mounts.startOf(asked, ask)
    const at = await spelledPath(this.#parts.mounts, asked, { signal: ask.signal })
    this.#respell(asked, at)
    return at
  }

  /** The same for the place that `source`, of the whole tree, is to be moved to. */
  async resolveTarget(path: Path, source: Path, ask: Ask): Promise<Path> {
    const asked = this.#underBase(path)
    await this.#parts.mounts.startOf(asked, ask)
    return spelledTarget(this.#parts.mounts, source, asked, { signal: ask.signal })
  }

  #underBase(path: Path): Path {
    const at = under(this.#given.base, path)
    if (at.toLowerCase().includes(`/${reservedPrefix}`)) throw new GatewayError('not_found')
    return at
  }

  /** The first segments of every path of the principal's are those of their base. */
  #respell(asked: Path, at: Path): void {
    const given = this.#given
    if (asked === at) {
      this.#spelled = given
      return
    }
    const base = segmentsOf(at).slice(0, segmentsOf(given.base).length).reduce(childOf, root)
    this.#spelled = { ...given, base, ...(given.onlyPath === asked && { onlyPath: at }) }
  }

  /** The path in the whole tree, judged, and followed as `follow` does. */
  async admit(action: Action, path: Path, ask: Ask, last = throughLinks.has(action)): Promise<Path> {
    const at = await this.resolve(path, ask)
    this.judge(action, at, ask)
    return this.follow(action, at, ask, last)
  }

  /**
   * The path that `at` is another way to, judged as if it had been asked for: what links lead to is bound by the rules and
   * locks of where it is, and lies below the principal's own root, whoever made the links. `last`: where the last name is a link,
   * that is followed too; one that is read keeps its name.
   */
  async follow(action: Action, at: Path, ask: Ask, last = throughLinks.has(action)): Promise<Path> {
    const { mounts } = this.#parts
    if (this.#readsAll(action)) return at
    // By this name it is the principal's root, whatever the storage has there.
    if (at === this.principal.base && !last) return at
    const found = await mounts.realPath(at, { signal: ask.signal, last })
    if (found === at) return at
    const real = await spelledPath(mounts, found, { signal: ask.signal })
    await this.#judgeReal(action, at, real, ask)
    if (action !== 'read' || !last) return real
    const way = await mounts.realPath(at, { signal: ask.signal })
    if (way !== at && way !== real) await this.#judgeReal(action, at, way, ask)
    return way
  }

  /** As `admit`, for an action that means what a link leads to; `seen`: what stands there, where the same look told. */
  async reach(action: Action, path: Path, ask: Ask): Promise<Reached> {
    const at = await this.resolve(path, ask)
    this.judge(action, at, ask)
    return this.#reached(action, at, ask)
  }

  async #reached(action: Action, at: Path, ask: Ask): Promise<Reached> {
    if (this.#readsAll(action)) return { at, seen: undefined }
    const look = await this.#parts.mounts.look(at, { signal: ask.signal })
    return look?.path === at ? { at, seen: look } : { at: await this.follow(action, at, ask), seen: undefined }
  }

  /** Rejects with `busy` where a link has meanwhile come to stand on the way to what `follow` found. */
  async assertSettled(action: Action, at: Path, ask: Ask): Promise<Reached> {
    const reached = await this.#reached(action, at, ask)
    if (reached.at !== at) throw linkChanged()
    return reached
  }

  /** The same of a folder that was found without one. */
  async assertNoLink(action: Action, folder: Path, ask: Ask): Promise<void> {
    if ((await this.follow(action, folder, ask, true)) !== folder) throw linkChanged()
  }

  /** Whether nothing in the tree is closed to them: no link could lead there, and no lock stands against reading. */
  #readsAll(action: Action): boolean {
    return this.principal.base === root && this.#parts.rules.isEmpty && (action === 'read' || action === 'list')
  }

  async #judgeReal(action: Action, at: Path, real: Path, ask: Ask): Promise<void> {
    const { base, onlyPath } = this.principal
    if (onlyPath !== undefined) {
      // A signature speaks for one path. What another rule closes is signed by its own.
      const { rules } = this.#parts
      const isSame = rules.nearest(real) === rules.nearest(at) && isClosedOrHidden(rules, at)
      const isOpen = isSame || !isClosedOrHidden(rules, real)
      if (onlyPath !== at || !isOpen || isHidden(this.principal, real, rules.nearest(parentOf(real)))) {
        throw new GatewayError('denied')
      }
      return
    }
    const isOurs = isWithin(base, real) || isWithin(await this.#parts.mounts.realPath(base, { last: true }), real)
    if (!isOurs) throw new GatewayError('denied', { reason: 'a link that leads out of your folder' })
    this.judge(action, real, ask)
  }

  /** `at` is of the whole tree, here and below. */
  judge(action: Action, at: Path, ask: Ask): void {
    const { rules } = this.#parts
    const ruling = { own: rules.nearest(at), folder: rules.nearest(parentOf(at)) }
    const verdict = judge(this.principal, action, at, ruling, ask.password)
    if (verdict === 'allow') {
      if (action === 'write' || action === 'mkdir') this.assertWanted(nameOf(at))
      return
    }
    if (verdict === 'denied' && action === 'refresh')
      throw new GatewayError('denied', { reason: 'Refresh without permission' })
    throw new GatewayError(verdict)
  }

  /** Whether something may have this new name, as far as an admin wants no system files. */
  assertWanted(name: string): void {
    if (isSystemFile(name) && this.#parts.settings.bool('ignore_system_files')) {
      throw new GatewayError('denied', { reason: 'system file upload ignored' })
    }
  }

  /** A change of a tree is a change of every ruled folder in it. A copy leaves out what is not seen. */
  judgeBelow(action: Action, at: Path, ask: Ask): void {
    const { rules } = this.#parts
    const nearest = rules.nearest(at)
    // What is copied of the folder itself is judged as reading, and member by member.
    const own = nearest?.path === at && action !== 'copy' ? [nearest] : []
    const below = rules.below(at).filter((rule) => action !== 'copy' || !this.#isUnseenBelow(at, rule.path))
    for (const rule of [...own, ...below]) {
      const verdict = judge(this.principal, action, childOf(rule.path, '*'), { own: rule, folder: rule }, ask.password)
      if (verdict !== 'allow') throw new GatewayError(verdict, { reason: 'permission denied below this folder' })
    }
  }

  /** Whether a walk that starts at `top` and sees what they see never comes to `at`. */
  #isUnseenBelow(top: Path, at: Path): boolean {
    for (const path of upwardFrom(at)) {
      if (path === top) return false
      if (isUnseen(this.#parts.rules, this.principal, path)) return true
    }
    return false
  }

  /** Mount points, what leads to them, and the principal's own root stay where they are. */
  assertMovable(at: Path, reason: string): void {
    if (at === this.principal.base || this.#parts.mounts.isVirtual(at)) throw new GatewayError('denied', { reason })
  }

  /**
   * A link must not lead to what its maker could not read: out of its storage, above their own root, into what a rule
   * closes. Resolves to the target within the storage.
   */
  async assertLeadsInside(mount: Path, at: Path, target: string, ask: Ask): Promise<Path> {
    const isRelative = !target.startsWith('/')
    // Behind the name of another link, `..` would mean the folder above what that one leads to.
    const names = target.split('/').filter((name) => name !== '' && name !== '.')
    const first = names.findIndex((name) => name !== '..')
    if (isRelative && first >= 0 && names.includes('..', first)) {
      throw new GatewayError('denied', { reason: 'a link may climb at its beginning alone' })
    }
    const leadsTo = isRelative
      ? await spelledPath(this.#parts.mounts, resolvePath(parentOf(at), target), { signal: ask.signal })
      : await this.resolve(resolvePath(root, target), ask)
    const inner = within(mount, leadsTo)
    if (inner === undefined) throw new GatewayError('denied', { reason: 'a link cannot lead out of its storage' })
    if (!isWithin(this.principal.base, leadsTo)) throw new GatewayError('denied')
    this.judge('read', leadsTo, ask)
    return inner
  }

  /** Whether this principal may look around at all: what they find is judged name by name. */
  assertSearching(): void {
    const verdict = judge(this.principal, 'list', this.principal.base, { own: undefined, folder: undefined })
    if (verdict !== 'allow') throw new GatewayError(verdict)
  }

  assertAuthority(): void {
    if (this.principal.signal.aborted) throw new GatewayError('unauthenticated')
  }

  /** Each use of a handle asks whether its principal still has authority. */
  guarded(path: Path, file: OpenFile, ended?: () => void): OpenFile {
    return hooked(file, {
      before: () => this.assertAuthority(),
      failed: (error, op) => this.seen(error).at(op, path),
      ...(ended && { ended }),
    })
  }

  /** Runs an operation on the principal's own `path`, judged before anything else; `at` is that path in the whole tree. */
  judged<T>(op: string, action: Action, path: Path, ask: Ask, work: (at: Path) => Promise<T>): Promise<T> {
    return this.told(op, path, async () => work(await this.admit(action, path, ask)))
  }

  /** To be awaited before anything is asked: the principal's own root may have to be made. */
  async enter(): Promise<void> {
    await this.#parts.bases.ensure(this.#given)
  }

  // How they see it

  /** A path of the whole tree as the principal sees it; what lies above the base shows as the base. */
  view(at: Path): Path {
    return within(this.principal.base, at) ?? root
  }

  lockSeen(lock: Lock): Lock {
    return { ...lock, path: this.view(lock.path) }
  }

  /** As the principal may read it: without what lies above their own root. */
  locked(lock: Lock): LockedError {
    const error = new LockedError(this.lockSeen(lock))
    seenLocks.add(error)
    return error
  }

  /** Runs an operation on the principal's own `path`; what it rejects with tells of both, and of nothing they may not see. */
  async told<T>(op: string, path: Path, work: () => Promise<T>): Promise<T> {
    try {
      await this.#parts.bases.ensure(this.#given)
      return await work()
    } catch (error) {
      const seen = this.failed(error, path)
      if (!(seen instanceof TreeError)) throw seen.at(op, path)
      throw seen.seenFrom(
        (at) => this.view(at),
        (failure) => this.seen(failure),
      )
    }
  }

  /** What an operation on the principal's own `path` rejected with, as they may see it. */
  failed(error: unknown, path: Path): GatewayError {
    const seen = this.seen(error)
    const missesBase = seen.code === 'parent_missing' || (seen.code === 'not_found' && path === root)
    if (missesBase) this.#parts.bases.forget(this.#given.base)
    return seen
  }

  /** An operation that was stopped because its principal lost authority says so. */
  seen(error: unknown): GatewayError {
    const known = toGatewayError(error)
    if (known instanceof LockedError && !seenLocks.has(known)) return this.locked(known.lock)
    if (known.code === 'internal') this.#parts.log.error({ err: known.cause ?? known }, 'an unforeseen error')
    return known.code === 'aborted' && this.principal.signal.aborted ? new GatewayError('unauthenticated') : known
  }
}

function linkChanged(): GatewayError {
  return new GatewayError('busy', { reason: 'a link has changed meanwhile' })
}
