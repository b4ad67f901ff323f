/** Reads a stream chunk by chunk, and destroys it if it is slower than a minimum speed. */
import type { Readable } from 'node:stream'
import { GatewayError } from '../contract/errors.js'

/** Minimum average speed over one timeout of waiting, in bytes per second. */
const minBytesPerSecond = 1024
/** Samples within one timeout. */
const samplesPerTimeout = 20

/** The bytes that must arrive within `timeout` milliseconds of waiting. */
export function minBytesWithin(timeout: number): number {
  return Math.ceil((timeout * minBytesPerSecond) / 1000)
}

export class MinimumSpeedReader {
  readonly #chunks: AsyncIterator<Buffer>
  readonly #timer: NodeJS.Timeout
  readonly #minBytes: number
  #isWaiting = false
  #waitingSamples = 0
  #received = 0

  /** `timeout`: in milliseconds. Only time in which `next` waits counts: a slow reader is not the sender's fault. */
  constructor(
    private readonly stream: Readable,
    timeout: number,
  ) {
    this.#chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    this.#minBytes = minBytesWithin(timeout)
    this.#timer = setInterval(() => this.#sample(), timeout / samplesPerTimeout).unref()
  }

  /** The next chunk; undefined at the end. Rejects with `timeout` if the stream is too slow. */
  async next(): Promise<Buffer | undefined> {
    this.#isWaiting = true
    try {
      const next = await this.#chunks.next()
      if (next.done === true) return undefined
      this.#received += next.value.length
      return next.value
    } finally {
      this.#isWaiting = false
    }
  }

  /** Stops the timer and destroys the stream. */
  close(): void {
    clearInterval(this.#timer)
    this.stream.destroy()
  }

  #sample(): void {
    if (!this.#isWaiting) return
    this.#waitingSamples += 1
    if (this.#waitingSamples < samplesPerTimeout) return
    if (this.#received < this.#minBytes) {
      this.stream.destroy(new GatewayError('timeout', { reason: 'the server sends next to nothing' }))
    }
    this.#waitingSamples = 0
    this.#received = 0
  }
}
