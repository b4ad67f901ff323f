/** A body on its way into a stream to a server, without streams between: these would stop its sender after every chunk. */
import type { Writable } from 'node:stream'
import type { Intake } from './flow.js'

/** Bytes that wait for the connection before the sender is stopped. */
const waitingAtMost = 512 * 1024

export class Outlet implements Intake {
  /** The stream broke before it had all: what comes after that of the body is only a consequence. */
  isBroken = false
  #isFinished = false
  /** Rejects with the error of the stream, or one of `ERR_STREAM_PREMATURE_CLOSE`. */
  readonly broken: Promise<never>

  constructor(private readonly into: Writable) {
    this.broken = new Promise((_resolve, reject) => {
      const broke = (error: Error = closed()) => {
        this.isBroken = !this.#isFinished
        reject(error)
      }
      if (into.destroyed) broke(into.errored ?? undefined)
      else into.once('error', broke).once('close', () => broke())
    })
    this.broken.catch(() => undefined) // told to who sends more
  }

  take(chunk: Buffer, used: () => void): Promise<void> | undefined {
    // What failed may still be on its way in the system.
    this.into.write(chunk, (error) => {
      if (!error) used()
    })
    if (this.into.writableLength < waitingAtMost) return undefined
    return new Promise((resolve) => this.into.once('drain', resolve))
  }

  /** Ends the stream; resolves when the system has taken all. */
  async finish(): Promise<void> {
    const ended = new Promise<void>((resolve) => {
      this.into.end((error?: Error | null) => {
        this.#isFinished = !error
        resolve()
      })
    })
    await Promise.race([this.broken, ended])
    if (!this.#isFinished) await this.broken
  }
}

function closed(): Error {
  return Object.assign(new Error('the stream was closed'), { code: 'ERR_STREAM_PREMATURE_CLOSE' })
}
