/** Keeps pipelined requests about the same names in the order in which they came; all others run side by side. */
import { isWithin, type Path } from '../../src/path.js'

interface Running {
  readonly paths: readonly Path[]
  readonly changes: boolean
  readonly ended: Promise<unknown>
}

export class PathOrder {
  readonly #running = new Set<Running>()

  /**
   * Starts `work` when all earlier work has ended that touches one of the paths, or something above or below it, and
   * where one of the two changes something.
   */
  run<T>(paths: readonly Path[], changes: boolean, work: () => Promise<T>): Promise<T> {
    const before = [...this.#running].filter((other) => (changes || other.changes) && touch(other.paths, paths))
    const started = before.length === 0 ? work() : Promise.all(before.map((other) => other.ended)).then(() => work())
    const running: Running = { paths, changes, ended: started.catch(() => undefined) }
    this.#running.add(running)
    void running.ended.then(() => this.#running.delete(running))
    return started
  }
}

function touch(some: readonly Path[], others: readonly Path[]): boolean {
  return some.some((one) => others.some((other) => isWithin(one, other) || isWithin(other, one)))
}
