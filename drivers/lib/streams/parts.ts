/** Uploads in parts: a body is read into parts, which are sent in order or in parallel, and may be resumed. */
import type { Readable } from 'node:stream'
import { joinSignals } from '../../../src/base/cancellation.js'
import type { Upload } from '../../../src/contract/capabilities.js'
import type { Entry } from '../../../src/contract/entry.js'
import { GatewayError, toGatewayError } from '../../../src/base/errors.js'

/** Maximum number of bytes of all parts in memory, unless a single part is larger. */
const memoryLimit = 64 * 1024 * 1024

/** The layout of the parts into which a body is split. They are numbered from 1. */
export interface PartLayout {
  /** Bytes of the part with this number; the last part has the remaining bytes. */
  readonly partLength: (part: number) => number
  readonly maxParts: number
  /**
   * Maximum number of parts that are sent at the same time; fewer if they are large. 1: in order, one after the other.
   */
  readonly parallel: number
  /** Number of the first part to send. */
  readonly firstPart: number
  /** The content of the first part, where it has already been read. */
  readonly firstBytes?: Buffer
  /** The upload can be resumed: if the body fails, parts in flight are completed instead of aborted. */
  readonly isResumable?: boolean
}

/**
 * Sends one part. Resolves when it is stored; the memory of `bytes` is used for another part then. It is not called
 * again for a part that has failed.
 */
export type SendPart = (part: number, bytes: Buffer, signal: AbortSignal) => Promise<unknown>

/** Sends the whole body. No part is being sent when this settles. Rejects with the first error, a GatewayError. */
export async function sendParts(
  pieces: BodyReader,
  layout: PartLayout,
  send: SendPart,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { partLength, maxParts, parallel, firstPart, firstBytes, isResumable } = layout
  const running = new Set<Promise<unknown>>()
  // Parts are large. If each had new memory, that of the sent ones would wait for the garbage collector.
  const free: Buffer[] = []
  const failed = new AbortController()
  const joined = joinSignals(signal, failed.signal)
  let failure: unknown
  const fail = (error: unknown) => {
    failure ??= error
    failed.abort()
    // Ends a pending read of the body, which cannot be stored any more.
    pieces.destroy(toGatewayError(error))
  }
  try {
    let bytes = firstBytes ?? (await pieces.next(partLength(firstPart)))
    for (let part = firstPart; bytes.length > 0; part++) {
      if (part > maxParts) throw new GatewayError('too_large', { reason: 'more parts than an upload may have' })
      const sent = bytes
      const sending: Promise<unknown> = send(part, sent, joined.signal)
        .then(() => void free.push(sent), fail)
        .finally(() => running.delete(sending))
      running.add(sending)
      if (pieces.isExhausted()) break
      const nextLength = partLength(part + 1)
      while (running.size >= Math.max(1, Math.min(parallel, Math.floor(memoryLimit / nextLength)))) {
        await Promise.race(running)
      }
      if (failed.signal.aborted) break
      bytes = await pieces.next(nextLength, free.pop())
    }
    await Promise.all(running)
  } catch (error) {
    if (isResumable !== true) failed.abort()
    await Promise.all(running)
    failure ??= error
  } finally {
    joined.release()
  }
  if (failure !== undefined) throw toGatewayError(failure)
}

/** A part that a backend has stored. */
export interface StoredPart {
  readonly number: number
  /** The size in bytes. */
  readonly size: number
}

/**
 * The contiguous stored parts from the first one on, each of the expected size, and the number of their bytes. The
 * others are sent again. `parts`: by ascending number. `length`: bytes of each part but the last of a file of `size`
 * bytes.
 */
export async function contiguousParts<Part extends StoredPart>(
  parts: AsyncIterable<Part> | Iterable<Part>,
  length: number,
  size: number,
): Promise<{ readonly parts: readonly Part[]; readonly bytes: number }> {
  const contiguous: Part[] = []
  let bytes = 0
  for await (const part of parts) {
    const isNext = part.number === contiguous.length + 1 && bytes < size
    if (!isNext || part.size !== Math.min(length, size - bytes)) break
    contiguous.push(part)
    bytes += part.size
  }
  return { parts: contiguous, bytes }
}

export interface ResumablePlan {
  /** Identifies the upload to a later run. */
  readonly token: string
  /** Bytes of the whole file. */
  readonly size: number
  /** Bytes of each part but the last. */
  readonly partLength: number
  /** Bytes that the backend has stored, in whole parts. */
  readonly committedOffset: number
  readonly maxParts: number
  readonly parallel: number
  readonly send: SendPart
  /** Publishes the file, when all parts are stored. It calls `beforePublish` before its last request. */
  readonly commit: () => Promise<Entry>
  readonly signal: AbortSignal | undefined
}

/** An upload whose parts the backend keeps until it is completed; see `Driver.upload`. */
export function resumableUpload(plan: ResumablePlan): Upload {
  const { token, size, partLength, committedOffset, maxParts, parallel, send, commit, signal } = plan
  return {
    token,
    committedOffset,
    write: (from) =>
      withBody(from, signal, () => {
        const firstPart = Math.ceil(committedOffset / partLength) + 1
        const layout = { partLength: () => partLength, maxParts, parallel, firstPart, isResumable: true }
        return sendParts(new BodyReader(from, size - committedOffset), layout, send, signal)
      }),
    commit,
    // The parts are stored on the server; there is nothing to close.
    close: () => Promise.resolve(),
  }
}

/** Runs `work`, destroying the body when the signal is aborted and when `work` has settled. */
export async function withBody<T>(body: Readable, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  const abort = () => body.destroy(new GatewayError('aborted'))
  signal?.addEventListener('abort', abort, { once: true })
  if (signal?.aborted) abort()
  try {
    return await work()
  } catch (error) {
    throw signal?.aborted ? new GatewayError('aborted', { cause: error }) : error
  } finally {
    signal?.removeEventListener('abort', abort)
    body.destroy()
  }
}

/** Reads a body in pieces of requested lengths. */
export class BodyReader {
  /** Bytes that have been received. */
  receivedBytes = 0
  #ended = false
  /** The part of the last chunk that no piece contains yet. */
  #rest: Buffer = Buffer.alloc(0)
  readonly #chunks: AsyncIterator<Buffer | string, undefined>

  constructor(
    private readonly body: Readable,
    private readonly size: number | undefined,
  ) {
    this.#chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer | string, undefined>
  }

  isExhausted(): boolean {
    return this.#ended && this.#rest.length === 0
  }

  /** Destroys the body. */
  destroy(reason: GatewayError): void {
    this.body.destroy(reason)
  }

  /**
   * Resolves to `length` bytes, or fewer at the end of the body. The last piece is returned only after the end was
   * received. Rejects with `invalid` if the body is not of the announced size, and with `aborted` if the sender
   * disconnected. `memory`: where the bytes may be stored, if it is as long.
   */
  async next(length: number, memory?: Buffer): Promise<Buffer> {
    // Filled as the bytes arrive: chunks that are collected first would occupy as much memory again.
    const piece = memory?.length === length ? memory : Buffer.allocUnsafeSlow(length)
    let filled = 0
    for (;;) {
      const copied = this.#rest.copy(piece, filled)
      filled += copied
      this.#rest = this.#rest.subarray(copied)
      if (this.#ended || (filled === length && this.receivedBytes !== this.size)) return piece.subarray(0, filled)
      await this.#receive()
    }
  }

  /** Receives the next chunk. `#rest` must be empty unless all bytes of the announced size have been received. */
  async #receive(): Promise<void> {
    const { value, done } = await this.#chunks.next().catch((error: unknown) => {
      throw bodyError(error)
    })
    if (done === true) {
      this.#ended = true
      if (this.size === undefined || this.receivedBytes === this.size) return
      throw new GatewayError('invalid', { reason: `the body ended after ${this.receivedBytes} of ${this.size} bytes` })
    }
    const chunk = typeof value === 'string' ? Buffer.from(value) : value
    this.receivedBytes += chunk.length
    if (this.size !== undefined && this.receivedBytes > this.size) {
      throw new GatewayError('invalid', { reason: `the body is longer than the announced ${this.size} bytes` })
    }
    this.#rest = chunk
  }
}

/** A body that is cut off was canceled by its sender. */
function bodyError(error: unknown): GatewayError {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  const isCut = code === 'ERR_STREAM_PREMATURE_CLOSE' || code === 'ECONNRESET'
  return isCut ? new GatewayError('aborted', { cause: error }) : toGatewayError(error)
}
