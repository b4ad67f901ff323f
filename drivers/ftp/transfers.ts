/** Downloads as streams, and uploads of a source, over a data connection. */
import type { Socket } from 'node:net'
import { addAbortSignal, Readable } from 'node:stream'
import type { Source } from '../../src/contract/call-options.js'
import { GatewayError } from '../../src/base/errors.js'
import { pump } from '../lib/streams/pump.js'
import { WritableSink } from '../lib/streams/writable-sink.js'
import type { FtpConnection, FtpTransfer } from './connection.js'
import { destroyWhenStalled } from './data-connection.js'
import { translated } from './errors.js'

export interface DownloadOptions {
  readonly connection: FtpConnection
  readonly transfer: FtpTransfer
  /** Maximum bytes to read; all by default. */
  readonly length?: number | undefined
  /** Bytes to buffer for a reader that is slower than the server. */
  readonly bufferSize: number
  /** Called once, when the control connection is about to become available. */
  readonly ending?: (() => void) | undefined
  /** Called once, when the control connection is available or broken. */
  readonly done: () => void
}

/**
 * The bytes that the server sends. The stream ends only after the server has confirmed the transfer, because a lost
 * data connection may look like the end of the file.
 */
export class Download extends Readable {
  readonly #options: DownloadOptions
  #remaining: number
  #isFinished = false

  constructor(options: DownloadOptions) {
    super({ highWaterMark: options.bufferSize })
    this.#options = options
    this.#remaining = options.length ?? Infinity
    const { socket } = options.transfer
    socket.on('data', (chunk: Buffer) => this.#receive(chunk))
    // Before the socket's own listener, which sends FIN: after that a connection that has ended normally may be closed.
    socket.prependOnceListener('end', () => {
      if (wasReset(socket)) this.destroy(transferAborted())
      else void this.#finish(false)
    })
    // Closed without an end: bytes are missing, even if the server confirms the transfer, as it may not have noticed.
    const onClosed = () => {
      if (!this.#isFinished) this.destroy(translated(socket.errored ?? transferAborted()))
    }
    // An empty file may already have ended.
    if (socket.readableEnded) process.nextTick(() => void this.#finish(false))
    else if (socket.destroyed) process.nextTick(onClosed)
    else socket.once('close', onClosed)
    destroyWhenStalled(socket, () => socket.isPaused())
  }

  override _read(): void {
    this.#options.transfer.socket.resume()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    void this.#finish(true)
    done(error)
  }

  #receive(chunk: Buffer): void {
    if (this.#isFinished) return
    const part = chunk.length > this.#remaining ? chunk.subarray(0, this.#remaining) : chunk
    this.#remaining -= part.length
    const hasCapacity = this.push(part)
    if (this.#remaining === 0) {
      void this.#finish(true)
      this.push(null)
    } else if (!hasCapacity) {
      this.#options.transfer.socket.pause()
    }
  }

  /** Waits for the final reply, or aborts the transfer if `early`, and releases the connection. */
  async #finish(early: boolean): Promise<void> {
    if (this.#isFinished) return
    this.#isFinished = true
    const { connection, transfer, ending, done } = this.#options
    ending?.()
    try {
      if (early) {
        await connection.abortTransfer(transfer)
      } else {
        await connection.completeTransfer(transfer)
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

/**
 * Sends the whole source. Resolves to its length in bytes once the server has confirmed the transfer. Rejects with
 * `invalid` if the source is not of the announced size.
 */
export async function sendSource(
  source: Source,
  { connection, transfer }: { readonly connection: FtpConnection; readonly transfer: FtpTransfer },
  signal: AbortSignal | undefined,
): Promise<number> {
  const { socket } = transfer
  const sink = new WritableSink(socket)
  // Also covers the time after the source was read, while the last bytes are pending.
  if (signal) addAbortSignal(signal, socket)
  destroyWhenStalled(socket, () => socket.writableLength === 0)
  try {
    const sent = await pump(source, sink, signal)
    await sink.finish()
    await connection.completeTransfer(transfer)
    // The server has received everything, but may never close its side.
    socket.destroy()
    return sent
  } catch (error) {
    const isSourceError = !sink.isBroken
    const refusal = await connection.abortTransfer(transfer)
    if (signal?.aborted) throw new GatewayError('aborted', { cause: error })
    if (isSourceError) throw translated(error)
    // The server reports the cause, such as a full disk, on the control connection.
    throw refusal ?? transferAborted(error)
  }
}

/**
 * Whether a socket that has just ended was reset by its peer. If libuv notices the reset together with the last bytes,
 * it reports the end of the stream, and no error (libuv: `uv__stream_io` in src/unix/stream.c, POLLHUP after a partial
 * read). A connection that was reset has no address of its peer any more (getpeername(2), ENOTCONN); one whose peer has
 * sent FIN has. Nothing may have read `remoteAddress` before, which would be remembered.
 */
function wasReset(socket: Socket): boolean {
  return socket.remoteAddress === undefined
}

function transferAborted(cause?: unknown): GatewayError {
  return new GatewayError('unavailable', { reason: 'the transfer from or to the FTP server was broken off', cause })
}
