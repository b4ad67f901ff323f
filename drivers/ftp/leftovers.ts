/** What killed runs of the program have left: removed beside the calls that come across it, one file after another. */
import type { Connection } from './connection.js'
import { ifRefused } from './errors.js'

/** Files that are waited for at once; what is beyond that goes when its folder is listed again. */
export const leftOverAtMost = 1000

export class Leftovers {
  readonly #wires = new Set<string>()
  #isRemoving = false

  /** `use` does work on a connection, when it is its turn. */
  constructor(private readonly use: (work: (on: Connection) => Promise<unknown>) => Promise<unknown>) {}

  /** `wire`: the server's path of one. */
  add(wire: string): void {
    if (this.#wires.size < leftOverAtMost) this.#wires.add(wire)
    if (!this.#isRemoving) void this.#remove()
  }

  async #remove(): Promise<void> {
    this.#isRemoving = true
    try {
      for (const wire of this.#wires) {
        await this.use((on) => on.ask(`DELE ${wire}`).catch(ifRefused))
        this.#wires.delete(wire)
      }
    } catch {
      // Whoever lists the folder again comes across them again.
      this.#wires.clear()
    }
    this.#isRemoving = false
  }
}
