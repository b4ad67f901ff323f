/** The first attempt to start a storage. Requests for the storage wait for its end. */
import { untilAborted } from '../contract/cancellation.js'

export class StorageStart {
  #resolve: () => void = () => undefined
  readonly #ended = new Promise<boolean>((resolve) => {
    this.#resolve = () => resolve(true)
  })

  /** To be called when the storage has started, has failed to start, or was removed. */
  end(): void {
    this.#resolve()
  }

  /** Resolves to whether the attempt ends within `milliseconds`. Rejects with `aborted`. */
  async endsWithin(milliseconds: number, signal: AbortSignal | undefined): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined
    const timedOut = new Promise<boolean>((resolve) => {
      timer = setTimeout(resolve, milliseconds, false)
    })
    try {
      return await untilAborted(Promise.race([this.#ended, timedOut]), signal)
    } finally {
      clearTimeout(timer)
    }
  }
}
