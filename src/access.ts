/**
 * What one principal may do, and how they see it. The only place that asks `judge()`, and the only way from a principal's
 * own paths to those of the whole tree and back, errors and locks included.
 */
import { TreeError, type Ask } from './change.js'
import type { OpenFile } from './driver.js'
import { GatewayError, toGatewayError } from './errors.js'
import { hooked } from './handles.js'
import { LockedError, type Lock } from './locks.js'
import { childOf, isWithin, parentOf, reservedPrefix, resolvePath, root, under, within, type Path } from './path.js'
import { judge, type Action } from './policy.js'
import type { Principal } from './principal.js'
import type { TreeParts } from './tree-parts.js'

/** Errors that tell of a lock as their reader may see it already. */
const seenLocks = new WeakSet<LockedError>()

export class Access {
  readonly #parts: Pick<TreeParts, 'mounts' | 'rules' | 'log'>

  constructor(
    parts: Pick<TreeParts, 'mounts' | 'rules' | 'log'>,
    readonly principal: Principal,
  ) {
    this.#parts = parts
  }

  // May they

  /** The path in the whole tree. What the core sets aside is nobody's. */
  resolve(path: Path): Path {
    const at = under(this.principal.base, path)
    if (at.toLowerCase().includes(`/${reservedPrefix}`)) throw new GatewayError('not_found')
    return at
  }

  /** The path in the whole tree, judged. */
  admit(action: Action, path: Path, ask: Ask): Path {
    const at = this.resolve(path)
    this.judge(action, at, ask)
    return at
  }

  /** `at` is of the whole tree, here and below. */
  judge(action: Action, at: Path, ask: Ask): void {
    const { rules } = this.#parts
    const ruling = { own: rules.nearest(at), folder: rules.nearest(parentOf(at)) }
    const verdict = judge(this.principal, action, at, ruling, ask.password)
    if (verdict === 'allow') return
    if (verdict === 'denied' && action === 'refresh')
      throw new GatewayError('denied', { reason: 'Refresh without permission' })
    throw new GatewayError(verdict)
  }

  /** A change of a tree is a change of every ruled folder in it. */
  judgeBelow(action: Action, at: Path, ask: Ask): void {
    const { rules } = this.#parts
    const nearest = rules.nearest(at)
    // What is copied of the folder itself is judged as reading, and member by member.
    const own = nearest?.path === at && action !== 'copy' ? [nearest] : []
    for (const rule of [...own, ...rules.below(at)]) {
      const verdict = judge(this.principal, action, childOf(rule.path, '*'), { own: rule, folder: rule }, ask.password)
      if (verdict !== 'allow') throw new GatewayError(verdict, { reason: 'permission denied below this folder' })
    }
  }

  /** Mount points, what leads to them, and the principal's own root stay where they are. */
  assertMovable(at: Path, reason: string): void {
    if (at === this.principal.base || this.#parts.mounts.isVirtual(at)) throw new GatewayError('denied', { reason })
  }

  /**
   * A link must not lead to what its maker could not read: out of its storage, above their own root, into what a rule
   * closes. Resolves to the target within the storage.
   */
  assertLeadsInside(mount: Path, at: Path, target: string, ask: Ask): Path {
    const leadsTo = target.startsWith('/') ? this.resolve(resolvePath(root, target)) : resolvePath(parentOf(at), target)
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
    return this.told(op, path, async () => work(this.admit(action, path, ask)))
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
      return await work()
    } catch (error) {
      const seen = this.seen(error)
      if (!(seen instanceof TreeError)) throw seen.at(op, path)
      throw seen.seenFrom(
        (at) => this.view(at),
        (failure) => this.seen(failure),
      )
    }
  }

  /** An operation that was stopped because its principal lost authority says so. */
  seen(error: unknown): GatewayError {
    const known = toGatewayError(error)
    if (known instanceof LockedError && !seenLocks.has(known)) return this.locked(known.lock)
    if (known.code === 'internal') this.#parts.log.error({ err: known.cause ?? known }, 'an unforeseen error')
    return known.code === 'aborted' && this.principal.signal.aborted ? new GatewayError('unauthenticated') : known
  }
}
