/**
 * Runs pipelined requests for related paths in the order of arrival, and all others concurrently. The jobs of a
 * `p-queue` cannot wait for some of the others only.
 */
import { isWithin, parentOf, type Path } from '../../src/base/path.js'

interface Running {
  readonly paths: readonly Path[]
  readonly changes: boolean
  readonly ended: Promise<unknown>
}

export class PathSerializer {
  readonly #running = new Set<Running>()

  /**
   * Starts `work` when all earlier work that conflicts with it has ended. Two changes conflict if one path is at, above
   * or below the other. A change and a read conflict if the path read is at or below the changed path, or is its parent
   * folder.
   */
  run<T>(paths: readonly Path[], changes: boolean, work: () => Promise<T>): Promise<T> {
    const conflicts: Promise<unknown>[] = []
    for (const other of this.#running) if (isConflict(other, { paths, changes })) conflicts.push(other.ended)
    const started = conflicts.length === 0 ? work() : Promise.all(conflicts).then(() => work())
    const end = () => this.#running.delete(running)
    const running: Running = { paths, changes, ended: started.then(end, end) }
    this.#running.add(running)
    return started
  }
}

type Requested = Pick<Running, 'paths' | 'changes'>

function isConflict(one: Requested, other: Requested): boolean {
  if (one.changes && other.changes) return anyPair(one, other, (a, b) => isWithin(a, b) || isWithin(b, a))
  if (!one.changes && !other.changes) return false
  const [change, read] = one.changes ? [one, other] : [other, one]
  // Folders above the parent do not show the change. A storage that does not respond must not block reads of them.
  return anyPair(change, read, (changed, path) => isWithin(changed, path) || parentOf(changed) === path)
}

function anyPair(one: Requested, other: Requested, holds: (a: Path, b: Path) => boolean): boolean {
  return one.paths.some((a) => other.paths.some((b) => holds(a, b)))
}
