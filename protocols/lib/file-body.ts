/** The bytes of an open file on their way into an HTTP response, through a few buffers that are used again and again. */
import type { ServerResponse } from 'node:http'
import type { OpenFile } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import type { Part } from './ranges.js'

const bufferSize = 512 * 1024
/** One is read into while the socket still holds the others. */
const buffersInUse = 3
/** In use by all transfers together: 64 MiB. Slow clients hold theirs for long; whoever comes later gets small ones. */
const largeAtOnce = 128
const smallBufferSize = 64 * 1024
let largeInUse = 0
/** Kept for the next transfer: 12 MiB at most. */
const spareLimit = 24
const spare: Buffer[] = []

/**
 * Reads exactly `part.length` bytes, fewer only at the end of a file that has shrunk since it was opened: that is
 * `aborted`, as the length has been promised already.
 */
export async function readWhole(file: OpenFile, part: Part): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(part.length)
  await fill(file, buffer, part.offset)
  return buffer
}

async function fill(file: OpenFile, into: Buffer, position: number): Promise<void> {
  let done = 0
  while (done < into.length) {
    const count = await file.read(done === 0 ? into : into.subarray(done), position + done)
    if (count === 0) throw new GatewayError('aborted', { reason: 'the file became shorter while it was sent' })
    done += count
  }
}

/**
 * Writes one part of the file into the response. A buffer is free again when the socket has taken it over, so memory does not
 * grow however slow the client is. Rejects with `aborted` as soon as the client has gone.
 */
export async function sendPart(file: OpenFile, part: Part, response: ServerResponse): Promise<void> {
  const flow = new Flow(response)
  try {
    const end = part.offset + part.length
    for (let position = part.offset; position < end;) {
      const buffer = await flow.take()
      const piece = buffer.subarray(0, Math.min(end - position, buffer.length, file.atOnce ?? Infinity))
      try {
        await fill(file, piece, position)
      } catch (error) {
        flow.giveBack(buffer)
        throw error
      }
      flow.write(buffer, piece)
      position += piece.length
    }
    await flow.idle()
  } finally {
    flow.end()
  }
}

/** The buffers of one transfer. */
class Flow {
  readonly #response: ServerResponse
  readonly #free: Buffer[] = []
  #made = 0
  #large = 0
  #inFlight = 0
  #gone: GatewayError | undefined
  #wake: (() => void) | undefined

  constructor(response: ServerResponse) {
    this.#response = response
    response.on('close', this.#onClose)
    if (response.destroyed) this.#onClose()
  }

  /** The next buffer that nobody uses. */
  async take(): Promise<Buffer> {
    while (this.#gone === undefined) {
      const buffer = this.#free.pop()
      if (buffer !== undefined) return buffer
      if (this.#made < buffersInUse) {
        this.#made += 1
        return this.#make()
      }
      await this.#change()
    }
    throw this.#gone
  }

  #make(): Buffer {
    if (largeInUse >= largeAtOnce) return Buffer.allocUnsafeSlow(smallBufferSize)
    largeInUse += 1
    this.#large += 1
    return spare.pop() ?? Buffer.allocUnsafeSlow(bufferSize)
  }

  giveBack(buffer: Buffer): void {
    this.#free.push(buffer)
  }

  write(buffer: Buffer, piece: Buffer): void {
    this.#inFlight += 1
    this.#response.write(piece, () => {
      this.#inFlight -= 1
      this.#free.push(buffer)
      this.#wake?.()
    })
  }

  /** Everything is with the socket. */
  async idle(): Promise<void> {
    while (this.#gone === undefined && this.#inFlight > 0) await this.#change()
    if (this.#gone !== undefined) throw this.#gone
  }

  end(): void {
    this.#response.off('close', this.#onClose)
    largeInUse -= this.#large
    this.#large = 0
    // One still in flight may be read by the socket: it is left to the garbage collector.
    for (const buffer of this.#free) {
      if (buffer.length === bufferSize && spare.length < spareLimit) spare.push(buffer)
    }
    this.#free.length = 0
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined
        resolve()
      }
    })
  }

  readonly #onClose = (): void => {
    this.#gone = new GatewayError('aborted', { reason: 'the client has gone' })
    this.#wake?.()
  }
}
