/** Reads a stream chunk by chunk, and gives up one from which next to nothing comes. */
import type { Readable } from 'node:stream'
import { GatewayError } from '../errors.js'

/** Bytes a second, on the average of the time that a reader has waited for as long as its patience. */
const leastPace = 1024
/** Looks within that time. */
const looks = 20

/** Bytes that must come within so many milliseconds of waiting. */
export function leastBytes(patience: number): number {
  return Math.ceil((patience * leastPace) / 1000)
}

export class PatientReader {
  readonly #chunks: AsyncIterator<Buffer>
  readonly #timer: NodeJS.Timeout
  readonly #least: number
  #waits = false
  #waited = 0
  #came = 0

  /** `patience`: milliseconds of waiting; whoever reads slowly costs the sender nothing of it. */
  constructor(
    private readonly stream: Readable,
    patience: number,
  ) {
    this.#chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    this.#least = leastBytes(patience)
    this.#timer = setInterval(() => this.#look(), patience / looks).unref()
  }

  /** The next chunk; undefined at the end. Rejects with `timeout` where the patience is at its end. */
  async next(): Promise<Buffer | undefined> {
    this.#waits = true
    try {
      const next = await this.#chunks.next()
      if (next.done === true) return undefined
      this.#came += next.value.length
      return next.value
    } finally {
      this.#waits = false
    }
  }

  /** Ends the stream too. */
  close(): void {
    clearInterval(this.#timer)
    this.stream.destroy()
  }

  #look(): void {
    if (!this.#waits) return
    this.#waited += 1
    if (this.#waited < looks) return
    if (this.#came < this.#least) {
      this.stream.destroy(new GatewayError('timeout', { reason: 'the server sends next to nothing' }))
    }
    this.#waited = 0
    this.#came = 0
  }
}
