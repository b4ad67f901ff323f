/** Readable streams of files. */
import { read } from 'node:fs'
import { Readable } from 'node:stream'
import { GatewayError } from '../../src/contract/errors.js'
import { translateError } from './errors.js'

const chunkSize = 512 * 1024

/**
 * Reads `length` bytes from `position` on. Closes the descriptor when the stream ends or is destroyed. Fails with
 * `unavailable` if the file is shorter than that.
 */
export class FileStream extends Readable {
  #position: number
  readonly #end: number
  #reading = false
  #onReadDone: (() => void) | undefined

  constructor(
    private readonly fd: number,
    private readonly closeFile: () => void | Promise<void>,
    position: number,
    length: number,
  ) {
    super({ highWaterMark: chunkSize })
    this.#position = position
    this.#end = position + length
  }

  override _read(): void {
    const length = Math.min(chunkSize, this.#end - this.#position)
    if (length === 0) {
      this.push(null)
      return
    }
    this.#reading = true
    const buffer = Buffer.allocUnsafeSlow(length)
    read(this.fd, buffer, 0, length, this.#position, (error, bytes) => {
      this.#reading = false
      this.#onReadDone?.()
      if (this.destroyed) return
      if (error) this.destroy(translateError(error))
      else if (bytes === 0)
        this.destroy(new GatewayError('unavailable', { reason: 'the file was truncated while it was read' }))
      else {
        this.#position += bytes
        this.push(bytes === length ? buffer : buffer.subarray(0, bytes))
      }
    })
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    const close = () => {
      Promise.resolve(this.closeFile()).then(
        () => done(error),
        () => done(error),
      )
    }
    // A pending read must not use a descriptor number that was reused.
    if (this.#reading) this.#onReadDone = close
    else close()
  }
}

/** A stream of bytes that are in memory. */
export function bufferStream(bytes: Buffer): Readable {
  return new Readable({
    read() {
      if (bytes.length > 0) this.push(bytes)
      this.push(null)
    },
  })
}
