/**
 * Mutual exclusion by key: runs the operations of one key in the order of their calls. `p-queue` has no keys, and when
 * the signal of running work aborts, it starts the next work before that one has ended.
 */
import { throwIfAborted, untilAborted } from '../../src/base/cancellation.js'

export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>()

  /**
   * Runs `work` when all earlier operations of `key` are done. Rejects with `aborted`, without calling `work`, if the
   * signal aborts first; later operations still wait for the earlier ones. Does not abort `work` itself.
   */
  async run<Result>(key: string, work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    const previous = this.#tails.get(key) ?? Promise.resolve()
    let release: () => void = () => undefined
    const released = new Promise<void>((resolve) => (release = resolve))
    const tail = previous.then(() => released)
    this.#tails.set(key, tail)
    void tail.then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key)
    })
    try {
      await untilAborted(previous, signal)
      throwIfAborted(signal)
      return await work()
    } finally {
      release()
    }
  }
}
