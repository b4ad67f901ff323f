/** Files and listings on their way: what comes as a stream, what goes as the body of an upload. */
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Source } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import type { Connection, Transfer } from './connection.js'
import { breakWhenStalled } from './data-connection.js'
import { translated } from './errors.js'

export interface DownloadOptions {
  readonly connection: Connection
  readonly transfer: Transfer
  /** Bytes wanted; all by default. */
  readonly length?: number | undefined
  /** Bytes that are kept for a reader who is slower than the server. */
  readonly ahead: number
  /** Runs once, when the connection will be free in a moment; and once, when it is, or is broken. */
  readonly ending?: (() => void) | undefined
  readonly done: () => void
}

/** What the server sends. It ends only when the server has said that this was all: a connection that breaks looks like an end too. */
export class Download extends Readable {
  readonly #options: DownloadOptions
  #left: number
  #isSettled = false

  constructor(options: DownloadOptions) {
    super({ highWaterMark: options.ahead })
    this.#options = options
    this.#left = options.length ?? Infinity
    const { socket } = options.transfer
    socket.on('data', (chunk: Buffer) => this.#take(chunk))
    socket.once('end', () => void this.#settle(false))
    // Without an end it broke, and bytes are missing, whatever the server says on the other connection: it may not know.
    const broke = () => {
      if (!this.#isSettled) this.destroy(translated(socket.errored ?? brokenOff()))
    }
    // An empty file may have come to its end by now.
    if (socket.readableEnded) process.nextTick(() => void this.#settle(false))
    else if (socket.destroyed) process.nextTick(broke)
    else socket.once('close', broke)
    breakWhenStalled(socket, () => socket.isPaused())
  }

  override _read(): void {
    this.#options.transfer.socket.resume()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    void this.#settle(true)
    done(error)
  }

  #take(chunk: Buffer): void {
    if (this.#isSettled) return
    const part = chunk.length > this.#left ? chunk.subarray(0, this.#left) : chunk
    this.#left -= part.length
    const wantsMore = this.push(part)
    if (this.#left === 0) {
      void this.#settle(true)
      this.push(null)
    } else if (!wantsMore) {
      this.#options.transfer.socket.pause()
    }
  }

  async #settle(early: boolean): Promise<void> {
    if (this.#isSettled) return
    this.#isSettled = true
    const { connection, transfer, ending, done } = this.#options
    ending?.()
    try {
      if (early) {
        await connection.breakOff(transfer)
      } else {
        await connection.end(transfer)
        this.push(null)
      }
    } catch (error) {
      this.destroy(translated(error))
    } finally {
      transfer.socket.destroy()
      done()
    }
  }
}

/** Sends the whole source; `invalid` where it is not as long as announced. Resolves to its length once the server has confirmed it. */
export async function sendAll(
  source: Source,
  { connection, transfer }: { readonly connection: Connection; readonly transfer: Transfer },
  signal: AbortSignal | undefined,
): Promise<number> {
  const { size } = source
  let sent = 0
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      sent += chunk.length
      if (size === undefined || sent <= size) done(null, chunk)
      else done(new GatewayError('invalid', { reason: `the body is longer than the announced ${size} bytes` }))
    },
    flush(done) {
      if (size === undefined || sent === size) done()
      else done(new GatewayError('invalid', { reason: `the body ended after ${sent} of ${size} bytes` }))
    },
  })
  const { socket } = transfer
  const seen = { broken: false }
  // Heard before the pipeline is: what ends the socket first is not the body.
  const lookWhoEnded = () => (seen.broken ||= !counted.destroyed)
  socket.once('error', lookWhoEnded).once('close', lookWhoEnded)
  breakWhenStalled(socket, () => socket.writableLength === 0)
  try {
    const body = await source.read(undefined, { signal })
    if (body.errored) throw body.errored // while the server made up its mind
    await pipeline(body, counted, socket, { signal })
    await connection.end(transfer)
    // The server has all, but may never close its side.
    socket.destroy()
    return sent
  } catch (error) {
    const isOfBody = !seen.broken
    const refusal = await connection.breakOff(transfer)
    if (signal?.aborted) throw new GatewayError('aborted', { cause: error })
    if (isOfBody) throw translated(error)
    // Why it broke, as of a full disk, the server tells on the other connection.
    throw refusal ?? brokenOff(error)
  }
}

function brokenOff(cause?: unknown): GatewayError {
  return new GatewayError('unavailable', { reason: 'the transfer from or to the FTP server was broken off', cause })
}
