/** Bytes of an open file as a stream. */
import { read } from 'node:fs'
import { Readable } from 'node:stream'
import { GatewayError } from '../../src/errors.js'
import { translated } from './errors.js'

const chunkSize = 512 * 1024

/** Reads `length` bytes from `position` on and closes the descriptor at its end, whatever that is. */
export class FileStream extends Readable {
  #position: number
  readonly #end: number
  #reading = false
  #whenRead: (() => void) | undefined

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
      this.#whenRead?.()
      if (this.destroyed) return
      if (error) this.destroy(translated(error))
      else if (bytes === 0) this.destroy(new GatewayError('unavailable', { reason: 'the file became shorter' }))
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
    // A read on its way must not find the descriptor of somebody else.
    if (this.#reading) this.#whenRead = close
    else close()
  }
}

/** Bytes that are here already. */
export function streamOf(bytes: Buffer): Readable {
  return new Readable({
    read() {
      if (bytes.length > 0) this.push(bytes)
      this.push(null)
    },
  })
}
