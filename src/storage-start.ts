/** The first try to start a storage, which those wait for who ask for what is in it. */
import { untilAborted } from './aborting.js'

export class StorageStart {
  #resolve: () => void = () => undefined
  readonly #ended = new Promise<boolean>((resolve) => {
    this.#resolve = () => resolve(true)
  })

  /** It has come up, or failed to, or is not wanted any more. */
  end(): void {
    this.#resolve()
  }

  /** Whether it ends within so many milliseconds. Rejects with `aborted` when the signal says so. */
  async endsWithin(milliseconds: number, signal: AbortSignal | undefined): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(resolve, milliseconds, false)
    })
    try {
      return await untilAborted(Promise.race([this.#ended, late]), signal)
    } finally {
      clearTimeout(timer)
    }
  }
}
