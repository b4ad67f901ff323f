/** The speed of a transfer, as a mean over the last seconds. */

/** Milliseconds over which the mean is taken, and the least after which it is known. */
const longest = 8000
const shortest = 1000

export class Speed {
  readonly #samples: { readonly time: number; readonly bytes: number }[] = []

  /** Records that `bytes` have been sent in all at this time, in milliseconds. */
  add(time: number, bytes: number): void {
    this.#samples.push({ time, bytes })
    while (time - (this.#samples[0]?.time ?? time) > longest) this.#samples.shift()
  }

  /** Forgets the samples: the transfer has been interrupted. */
  clear(): void {
    this.#samples.length = 0
  }

  /** The speed in bytes per second; undefined if it is not known yet. */
  get perSecond(): number | undefined {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)]
    if (!first || !last || last.time - first.time < shortest) return undefined
    return (Math.max(0, last.bytes - first.bytes) / (last.time - first.time)) * 1000
  }
}
