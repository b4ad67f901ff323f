/** Files and listings on their way: what comes as a stream, what goes as the body of an upload. */
import { addAbortSignal, Readable } from 'node:stream'
import type { Source } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { flow } from '../lib/flow.js'
import { Outlet } from '../lib/outlet.js'
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
  const { socket } = transfer
  const outlet = new Outlet(socket)
  // It may come when only the last bytes wait for the server.
  if (signal) addAbortSignal(signal, socket)
  breakWhenStalled(socket, () => socket.writableLength === 0)
  try {
    const sent = await flow(source, outlet, signal)
    await outlet.finish()
    await connection.end(transfer)
    // The server has all, but may never close its side.
    socket.destroy()
    return sent
  } catch (error) {
    const isOfBody = !outlet.isBroken
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
