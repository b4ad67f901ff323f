/**
 * Streams over files of a server with several requests in flight, so that throughput does not depend on the round-trip
 * time.
 */
import { Readable } from 'node:stream'
import type { ByteRange, Source } from '../../../src/contract/call-options.js'
import { GatewayError, toGatewayError } from '../../../src/base/errors.js'
import { detach } from './detach-buffer.js'
import { pump, type Sink } from './pump.js'

/** Requests on one open file. */
export interface PipelinedFile {
  /** Maximum bytes of one request, and maximum number of requests in flight. */
  readonly pieceSize: number
  readonly maxInFlight: number
  /** Resolves to fewer bytes than requested only at the end of the file. Rejects with GatewayErrors only. */
  read(position: number, length: number): Promise<Buffer>
  /** Writes at most `pieceSize` bytes. The buffers are not used after it settles. Rejects with GatewayErrors only. */
  write(position: number, piece: readonly Buffer[]): Promise<void>
}

interface ReadStreamOptions {
  /** Size of the whole file in bytes. */
  readonly size: number
  readonly signal: AbortSignal | undefined
  /** Called when the stream has ended, failed or was destroyed; may be called twice. */
  readonly onEnd: () => Promise<void>
}

/** Streams a range of the file. Fails with `unavailable` if the file is shorter than `size`. */
export function createReadStream(
  file: Omit<PipelinedFile, 'write'>,
  { offset, length: rangeLength = Number.POSITIVE_INFINITY }: ByteRange,
  { size, signal, onEnd: done }: ReadStreamOptions,
): Readable {
  const { pieceSize, maxInFlight: piecesAtOnce } = file
  const end = Math.min(size, offset + rangeLength)
  async function* pieces(): AsyncGenerator<Buffer> {
    const pending: { readonly length: number; readonly data: Promise<Buffer> }[] = []
    let next = offset
    try {
      while (next < end || pending.length > 0) {
        while (next < end && pending.length < piecesAtOnce) {
          const length = Math.min(pieceSize, end - next)
          const data = file.read(next, length)
          data.catch(() => undefined) // reported when it is awaited
          pending.push({ length, data })
          next += length
        }
        const piece = pending.shift()
        if (piece === undefined) return
        const data = await piece.data
        if (data.length > 0) yield data
        if (data.length < piece.length) {
          throw new GatewayError('unavailable', { reason: 'the file was truncated while it was read' })
        }
      }
    } finally {
      await done()
    }
  }
  const stream = Readable.from(pieces(), { objectMode: false, highWaterMark: pieceSize })
  const abort = () => stream.destroy(new GatewayError('aborted'))
  signal?.addEventListener('abort', abort, { once: true })
  stream.once('close', () => {
    signal?.removeEventListener('abort', abort)
    // The generator of a stream that was never read does not run its `finally` block.
    void done()
  })
  if (signal?.aborted) abort()
  return stream
}

/**
 * Fills `into` in pieces of `pieceSize` bytes that are requested together. `read` fills a piece, which starts at
 * `start` of `into`, and resolves to its bytes: fewer only at the end of the file. Resolves to the number of bytes read
 * when no request is pending.
 */
export async function readPieces(
  into: Buffer,
  pieceSize: number,
  read: (piece: Buffer, start: number) => Promise<number>,
): Promise<number> {
  const starts = Array.from({ length: Math.ceil(into.length / pieceSize) }, (_, index) => index * pieceSize)
  // Also after an error, no request is pending that would fill `into`: the caller uses it for something else then.
  const results = await Promise.allSettled(starts.map((start) => read(into.subarray(start, start + pieceSize), start)))
  let filled = 0
  for (const result of results) {
    if (result.status === 'rejected') throw result.reason
    filled += result.value
    if (result.value < pieceSize) break
  }
  return filled
}

/** Receives the progress of a write. */
interface WriteProgress {
  /** Position in the file at which writing starts. */
  readonly start: number
  /** Minimum interval of reports in milliseconds. */
  readonly interval: number
  /**
   * Called repeatedly, and awaited, with a position up to which all bytes are written and behind which no write is
   * pending.
   */
  onWritten(position: number): Promise<void>
}

/**
 * Writes the whole source from the start of the file, or from `progress.start` on. Rejects with `invalid` if the length
 * differs from the announced size.
 */
export async function writeAll(
  source: Source,
  file: PipelinedFile,
  signal: AbortSignal | undefined,
  progress?: WriteProgress,
): Promise<void> {
  const writer = new PipelinedWriter(file, progress?.start ?? 0)
  const pieceBuffer = new PieceBuffer(writer, Math.min(file.pieceSize, source.size ?? Infinity))
  try {
    await pump(source, progress ? new ProgressSink(pieceBuffer, writer, progress) : pieceBuffer, signal)
    await pieceBuffer.finish()
  } finally {
    await pieceBuffer.release()
    await writer.flushed().then(
      (position) => progress?.onWritten(position),
      () => undefined,
    )
  }
}

/** Writes the buffers from `position` on. They are not used after the promise settles. */
export async function writeBuffers(file: PipelinedFile, from: readonly Buffer[], position: number): Promise<void> {
  const writer = new PipelinedWriter(file, position)
  try {
    for (const piece of piecesIn(from, file.pieceSize)) {
      await writer.waitForSlot()
      writer.send(piece)
    }
    await writer.flushed()
  } finally {
    await writer.idle()
  }
}

/** Splits the buffers into pieces of `pieceSize` bytes; the last one may be smaller. */
function* piecesIn(from: readonly Buffer[], pieceSize: number): Generator<readonly Buffer[]> {
  let piece: Buffer[] = []
  let length = 0
  for (const bytes of from) {
    for (let rest = bytes; rest.length > 0;) {
      const part = rest.subarray(0, pieceSize - length)
      piece.push(part)
      length += part.length
      rest = rest.subarray(part.length)
      if (length < pieceSize) continue
      yield piece
      piece = []
      length = 0
    }
  }
  if (length > 0) yield piece
}

/** Writes consecutive pieces with several requests in flight. */
class PipelinedWriter {
  readonly #inFlight = new Set<Promise<void>>()
  #failure: GatewayError | undefined
  #rejectBroken: (failure: GatewayError) => void = () => undefined
  /** Rejects as soon as one write fails. */
  readonly broken = new Promise<never>((_resolve, reject) => (this.#rejectBroken = reject))

  constructor(
    private readonly file: PipelinedFile,
    private position: number,
  ) {
    this.broken.catch(() => undefined) // reported to the next writer
  }

  get hasFreeSlot(): boolean {
    return this.#inFlight.size < this.file.maxInFlight
  }

  /** `written` is called after the write succeeds, when the piece is no longer used. */
  send(piece: readonly Buffer[], written?: () => void): void {
    const sent = this.file
      .write(this.position, piece)
      .then(written, (error: unknown) => {
        this.#failure ??= toGatewayError(error)
        this.#rejectBroken(this.#failure)
      })
      .finally(() => this.#inFlight.delete(sent))
    this.#inFlight.add(sent)
    this.position += piece.reduce((sum, { length }) => sum + length, 0)
  }

  /** Resolves when another request may be sent. Rejects if an earlier write failed. */
  async waitForSlot(): Promise<void> {
    while (!this.hasFreeSlot) await Promise.race(this.#inFlight)
    if (this.#failure) throw this.#failure
  }

  /**
   * Waits until no write is pending. Resolves to the position up to which all bytes are written. Rejects if a write
   * failed.
   */
  async flushed(): Promise<number> {
    await this.idle()
    if (this.#failure) throw this.#failure
    return this.position
  }

  /** Resolves when no write is pending. Never rejects. */
  async idle(): Promise<void> {
    await Promise.all(this.#inFlight)
  }
}

/**
 * Collects the chunks of a body into pieces. Buffers are reused: allocating and collecting new ones costs more than
 * copying.
 */
class PieceBuffer implements Sink {
  readonly failed: Promise<never>
  readonly #free: Buffer[] = []
  /** Full pieces that are not sent yet. */
  readonly #full: Buffer[] = []
  /** The piece that is being filled, and its fill level in bytes. */
  #current: Buffer | undefined
  #filled = 0

  constructor(
    private readonly writer: PipelinedWriter,
    private readonly pieceSize: number,
  ) {
    this.failed = writer.broken
  }

  write(chunk: Buffer, used: () => void): Promise<void> | undefined {
    for (let from = 0; from < chunk.length;) {
      this.#current ??= this.#free.pop() ?? Buffer.allocUnsafeSlow(this.pieceSize)
      const copied = chunk.copy(this.#current, this.#filled, from)
      from += copied
      this.#filled += copied
      if (this.#filled < this.pieceSize) break
      this.#full.push(this.#current)
      this.#current = undefined
      this.#filled = 0
    }
    used()
    this.#sendFull()
    return this.#full.length === 0 ? undefined : this.#sendRemaining()
  }

  #sendFull(): void {
    while (this.writer.hasFreeSlot) {
      const piece = this.#full.shift()
      if (piece === undefined) return
      this.writer.send([piece], () => this.#free.push(piece))
    }
  }

  async #sendRemaining(): Promise<void> {
    while (this.#full.length > 0) {
      await this.writer.waitForSlot()
      this.#sendFull()
    }
  }

  /** Sends the remaining bytes. Resolves when all bytes are written. */
  async finish(): Promise<void> {
    await this.#sendRemaining()
    const last = this.#current
    if (last !== undefined) {
      await this.writer.waitForSlot()
      this.writer.send([last.subarray(0, this.#filled)], () => this.#free.push(last))
    }
    await this.writer.flushed()
  }

  /**
   * Discards unsent pieces. Resolves when no write is pending. Buffers of failed writes are left to the garbage
   * collector.
   */
  async release(): Promise<void> {
    this.#full.length = 0
    await this.writer.idle()
    for (const piece of this.#free.splice(0)) detach(piece)
  }
}

/** Reports the progress at intervals. */
class ProgressSink implements Sink {
  readonly failed: Promise<never>
  #reportedAt = performance.now()

  constructor(
    private readonly pieceBuffer: PieceBuffer,
    private readonly writer: PipelinedWriter,
    private readonly progress: WriteProgress,
  ) {
    this.failed = writer.broken
  }

  write(chunk: Buffer, used: () => void): Promise<void> | undefined {
    const room = this.pieceBuffer.write(chunk, used)
    return performance.now() - this.#reportedAt < this.progress.interval ? room : this.#report(room)
  }

  async #report(room: Promise<void> | undefined): Promise<void> {
    await room
    await this.progress.onWritten(await this.writer.flushed())
    this.#reportedAt = performance.now()
  }
}
