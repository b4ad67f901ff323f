/** The failures of an operation on a tree, while it goes on with the other members. */
import { isTransient, TreeError, type MemberFailure } from './errors.js'

/** Maximum number of failures in memory, so that a tree of any size can fail. */
export const maxKept = 10_000

export class Failures {
  readonly #kept: MemberFailure[] = []
  #count = 0
  #hasTransient = false

  /** All of them, also those that are not kept. */
  get count(): number {
    return this.#count
  }

  add(failure: MemberFailure): void {
    this.#count += 1
    const decides = !this.#hasTransient && isTransient(failure.error)
    if (decides) this.#hasTransient = true
    if (this.#kept.length < maxKept) this.#kept.push(failure)
    // Whether a task is tried again is decided by the failures that are kept.
    else if (decides) this.#kept[maxKept - 1] = failure
  }

  /** Throws a TreeError with the first failures, if there are any. */
  throwIfAny(): void {
    const [first, ...others] = this.#kept
    if (first) throw new TreeError([first, ...others], {}, this.#count)
  }
}
