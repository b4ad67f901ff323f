/** Work on one key after another, each when those before it are done. */
import { assertGoing, untilAborted } from '../../src/aborting.js'

export class Turns {
  readonly #last = new Map<string, Promise<void>>()

  /**
   * Rejects with `aborted` where the signal says so before the turn has come; nothing is done then, and whoever waits behind goes on
   * waiting for those before. Work that has begun ends the signal's way by itself.
   */
  async run<Result>(key: string, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    const before = this.#last.get(key) ?? Promise.resolve()
    let end: () => void = () => undefined
    const mine = new Promise<void>((resolve) => (end = resolve))
    const over = before.then(() => mine)
    this.#last.set(key, over)
    void over.then(() => {
      if (this.#last.get(key) === over) this.#last.delete(key)
    })
    try {
      await untilAborted(before, signal)
      assertGoing(signal)
      return await work()
    } finally {
      end()
    }
  }
}
