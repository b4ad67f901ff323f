/** Keeps pipelined requests about the same names in the order in which they came; all others run side by side. */
import { isWithin, parentOf, type Path } from '../../src/path.js'

interface Running {
  readonly paths: readonly Path[]
  readonly changes: boolean
  readonly ended: Promise<unknown>
}

export class PathOrder {
  readonly #running = new Set<Running>()

  /**
   * Starts `work` when all earlier work has ended that its outcome could depend on, or that could depend on its own: changes of
   * something at, above or below one of the paths, and looks at what is changed, at what is in it, and at the folder that holds it.
   */
  run<T>(paths: readonly Path[], changes: boolean, work: () => Promise<T>): Promise<T> {
    const before = [...this.#running].filter((other) => clash(other, { paths, changes }))
    const started = before.length === 0 ? work() : Promise.all(before.map((other) => other.ended)).then(() => work())
    const running: Running = { paths, changes, ended: started.catch(() => undefined) }
    this.#running.add(running)
    void running.ended.then(() => this.#running.delete(running))
    return started
  }
}

type Asked = Pick<Running, 'paths' | 'changes'>

function clash(one: Asked, other: Asked): boolean {
  if (one.changes && other.changes) return anyPair(one, other, (a, b) => isWithin(a, b) || isWithin(b, a))
  if (!one.changes && !other.changes) return false
  const [change, look] = one.changes ? [one, other] : [other, one]
  // Further up nothing of it is seen: a storage that does not answer holds up nobody who looks at the folders above it.
  return anyPair(change, look, (changed, seen) => isWithin(changed, seen) || parentOf(changed) === seen)
}

function anyPair(one: Asked, other: Asked, holds: (a: Path, b: Path) => boolean): boolean {
  return one.paths.some((a) => other.paths.some((b) => holds(a, b)))
}
