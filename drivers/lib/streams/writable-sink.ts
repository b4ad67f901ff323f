/** Writes a body to a stream of a connection directly: a stream in between would stop the sender after every chunk. */
import type { Writable } from 'node:stream'
import type { Sink } from './pump.js'

/** Buffered bytes at which the sender is paused. */
const maxBuffered = 512 * 1024

export class WritableSink implements Sink {
  /** Whether the stream failed before it received everything. Errors of the body after that are consequences. */
  isBroken = false
  #isFinished = false
  /** Rejects with the error of the stream, or with `ERR_STREAM_PREMATURE_CLOSE` if it closes. */
  readonly failed: Promise<never>

  constructor(private readonly into: Writable) {
    this.failed = new Promise((_resolve, reject) => {
      const fail = (error: Error = closed()) => {
        this.isBroken = !this.#isFinished
        reject(error)
      }
      if (into.destroyed) fail(into.errored ?? undefined)
      else into.once('error', fail).once('close', () => fail())
    })
    this.failed.catch(() => undefined) // reported to the next writer
  }

  write(chunk: Buffer, used: () => void): Promise<void> | undefined {
    // After an error, the system may still read the chunk.
    this.into.write(chunk, (error) => {
      if (!error) used()
    })
    if (this.into.writableLength < maxBuffered) return undefined
    return new Promise((resolve) => this.into.once('drain', resolve))
  }

  /** Ends the stream. Resolves when all bytes are passed to the system. */
  async finish(): Promise<void> {
    const ended = new Promise<void>((resolve) => {
      this.into.end((error?: Error | null) => {
        this.#isFinished = !error
        resolve()
      })
    })
    await Promise.race([this.failed, ended])
    if (!this.#isFinished) await this.failed
  }
}

function closed(): Error {
  return Object.assign(new Error('the stream was closed'), { code: 'ERR_STREAM_PREMATURE_CLOSE' })
}
