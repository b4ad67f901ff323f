/** Sends the content of an open file as an HTTP response body, with a few reused buffers. */
import type { ServerResponse } from 'node:http'
import type { OpenFile } from '../../src/contract/capabilities.js'
import { releaseWhenIdle } from '../../src/base/idle-memory.js'
import { GatewayError } from '../../src/base/errors.js'
import type { Part } from './ranges.js'

const bufferSize = 512 * 1024
/** Maximum buffers per transfer: one is filled while the socket still holds the others. */
const maxBuffers = 3
/**
 * Maximum large buffers of all transfers: 64 MiB. Slow clients hold theirs for long; further transfers get small ones.
 */
const maxLargeBuffers = 128
const smallBufferSize = 64 * 1024
let largeInUse = 0
/** Maximum large buffers in the pool: 12 MiB. */
const poolLimit = 24
const pool: Buffer[] = []
releaseWhenIdle(() => (pool.length = 0))

/**
 * Reads exactly `part.length` bytes. Rejects with `aborted` if the file has shrunk since it was opened, because
 * Content-Length is already determined.
 */
export async function readPart(file: OpenFile, part: Part): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(part.length)
  const count = await file.read(buffer, part.offset)
  if (count < part.length) await fill(file, buffer, part.offset, count)
  return buffer
}

/** `done`: the bytes that are read already. */
async function fill(file: OpenFile, into: Buffer, position: number, done = 0): Promise<void> {
  while (done < into.length) {
    const count = await file.read(done === 0 ? into : into.subarray(done), position + done)
    if (count === 0) throw new GatewayError('aborted', { reason: 'the file became shorter while it was sent' })
    done += count
  }
}

/**
 * Writes one part of the file into the response, after `begin`, which is called when the first bytes have been read.
 * Buffers are reused only after the socket has written them, so memory is bounded for slow clients. Rejects with
 * `aborted` if the file has shrunk, or as soon as the client disconnects.
 */
export async function sendPart(
  file: OpenFile,
  part: Part,
  response: ServerResponse,
  begin: () => void = () => undefined,
): Promise<void> {
  const transfer = new BodyTransfer(response)
  try {
    const end = part.offset + part.length
    for (let position = part.offset; position < end;) {
      const buffer = await transfer.acquire()
      const chunk = buffer.subarray(0, Math.min(end - position, buffer.length, file.preferredReadSize ?? Infinity))
      try {
        await fill(file, chunk, position)
      } catch (error) {
        transfer.release(buffer)
        throw error
      }
      if (position === part.offset) begin()
      transfer.write(buffer, chunk)
      position += chunk.length
    }
    await transfer.flushed()
  } finally {
    transfer.end()
  }
}

/** The buffers of one transfer. */
class BodyTransfer {
  readonly #response: ServerResponse
  readonly #free: Buffer[] = []
  #allocated = 0
  #large = 0
  #inFlight = 0
  #closeError: GatewayError | undefined
  #wake: (() => void) | undefined

  constructor(response: ServerResponse) {
    this.#response = response
    response.on('close', this.#onClose)
    if (response.destroyed) this.#onClose()
  }

  /** Resolves to a buffer that is not in use. Rejects with `aborted` if the client disconnects. */
  async acquire(): Promise<Buffer> {
    while (this.#closeError === undefined) {
      const buffer = this.#free.pop()
      if (buffer !== undefined) return buffer
      if (this.#allocated < maxBuffers) {
        this.#allocated += 1
        return this.#allocate()
      }
      await this.#nextChange()
    }
    throw this.#closeError
  }

  #allocate(): Buffer {
    if (largeInUse >= maxLargeBuffers) return Buffer.allocUnsafeSlow(smallBufferSize)
    largeInUse += 1
    this.#large += 1
    return pool.pop() ?? Buffer.allocUnsafeSlow(bufferSize)
  }

  release(buffer: Buffer): void {
    this.#free.push(buffer)
  }

  /** Writes `chunk`, a view of `buffer`, and releases the buffer afterwards. */
  write(buffer: Buffer, chunk: Buffer): void {
    this.#inFlight += 1
    this.#response.write(chunk, () => {
      this.#inFlight -= 1
      this.#free.push(buffer)
      this.#wake?.()
    })
  }

  /** Resolves when all chunks are written to the socket. Rejects with `aborted` if the client disconnects. */
  async flushed(): Promise<void> {
    while (this.#closeError === undefined && this.#inFlight > 0) await this.#nextChange()
    if (this.#closeError !== undefined) throw this.#closeError
  }

  end(): void {
    this.#response.off('close', this.#onClose)
    largeInUse -= this.#large
    this.#large = 0
    // The socket may still read a buffer in flight: only free ones return to the pool.
    for (const buffer of this.#free) {
      if (buffer.length === bufferSize && pool.length < poolLimit) pool.push(buffer)
    }
    this.#free.length = 0
  }

  #nextChange(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = undefined
        resolve()
      }
    })
  }

  readonly #onClose = (): void => {
    this.#closeError = new GatewayError('aborted', { reason: 'the client disconnected' })
    this.#wake?.()
  }
}
