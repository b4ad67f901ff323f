/** Files of a server as streams over requests that go side by side: a round trip for each of them would be all that is waited for. */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ByteRange, Source } from '../../src/driver.js'
import { GatewayError, toGatewayError } from '../../src/errors.js'

/** Requests about one open file. */
export interface OpenPieces {
  /** Bytes of one request, and how many requests are on their way at once. */
  readonly pieceSize: number
  readonly piecesAtOnce: number
  /** Fewer bytes than asked for only where the file ends. Rejects with GatewayErrors alone. */
  read(position: number, length: number): Promise<Buffer>
  /** At most `pieceSize` bytes. Rejects with GatewayErrors alone. */
  write(position: number, piece: readonly Buffer[]): Promise<void>
}

export interface ReadingOptions {
  /** Of the whole file, in bytes. */
  readonly size: number
  readonly signal: AbortSignal | undefined
  /** Runs when the stream has ended, however it did; maybe twice. */
  readonly done: () => Promise<void>
}

/** A part of the file; all of that part, or an error. */
export function readingStream(
  file: OpenPieces,
  { offset, length = Number.POSITIVE_INFINITY }: ByteRange,
  { size, signal, done }: ReadingOptions,
): Readable {
  const { pieceSize, piecesAtOnce } = file
  const end = Math.min(size, offset + length)
  async function* pieces(): AsyncGenerator<Buffer> {
    const asked: { readonly length: number; readonly data: Promise<Buffer> }[] = []
    let next = offset
    try {
      while (next < end || asked.length > 0) {
        while (next < end && asked.length < piecesAtOnce) {
          const wanted = Math.min(pieceSize, end - next)
          const data = file.read(next, wanted)
          data.catch(() => undefined) // told when its turn comes
          asked.push({ length: wanted, data })
          next += wanted
        }
        const piece = asked.shift()
        if (piece === undefined) return
        const data = await piece.data
        if (data.length > 0) yield data
        if (data.length < piece.length) {
          throw new GatewayError('unavailable', { reason: 'the file was cut while it was read' })
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
    // A stream that nobody reads runs no code of its own when it is destroyed.
    void done()
  })
  if (signal?.aborted) abort()
  return stream
}

/** Somebody who wants to know how far a body is written. */
export interface Progress {
  /** From where on in the file it is written. */
  readonly start: number
  /** Milliseconds. */
  readonly every: number
  /** Told now and then, and waited for, up to where all is written and nothing behind it is on its way. */
  written(position: number): Promise<void>
}

/** Writes the whole source from the file's start, or where `progress` says; `invalid` where it is not as long as announced. */
export async function writeAll(
  source: Source,
  file: OpenPieces,
  signal: AbortSignal | undefined,
  progress?: Progress,
): Promise<void> {
  const { size = Number.POSITIVE_INFINITY } = source
  const sending = new Sending(file, progress?.start ?? 0)
  let told = performance.now()
  const tell = async () => {
    if (!progress || performance.now() - told < progress.every) return
    await progress.written(await sending.written())
    told = performance.now()
  }
  let arrived = 0
  const body = await source.read(undefined, { signal })
  try {
    await pipeline(
      body,
      async (chunks: AsyncIterable<Buffer | string>) => {
        for await (const chunk of chunks) {
          const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
          arrived += bytes.length
          if (arrived > size) {
            throw new GatewayError('invalid', { reason: `the body is longer than the announced ${size} bytes` })
          }
          await sending.add(bytes)
          await tell()
        }
        await sending.finish()
      },
      { signal },
    )
  } finally {
    await sending.settled()
    await sending.written().then(
      (position) => progress?.written(position),
      () => undefined,
    )
  }
  if (source.size !== undefined && arrived < source.size) {
    throw new GatewayError('invalid', { reason: `the body ended after ${arrived} of ${source.size} bytes` })
  }
}

/** Writes these bytes from `position` on. Nothing uses them any more once it has settled. */
export async function writeFrom(file: OpenPieces, from: readonly Buffer[], position: number): Promise<void> {
  const sending = new Sending(file, position)
  try {
    for (const bytes of from) await sending.add(bytes)
    await sending.finish()
  } finally {
    await sending.settled()
  }
}

/** Gathers chunks of any size to pieces of one, and sends these without waiting for each. */
class Sending {
  readonly #onTheirWay = new Set<Promise<void>>()
  readonly #failures: GatewayError[] = []
  #gathered: Buffer[] = []
  #length = 0

  constructor(
    private readonly file: OpenPieces,
    private position: number,
  ) {}

  /** Rejects where one of the pieces before could not be written. */
  async add(bytes: Buffer): Promise<void> {
    for (let rest = bytes; rest.length > 0;) {
      const taken = rest.subarray(0, this.file.pieceSize - this.#length)
      this.#gathered.push(taken)
      this.#length += taken.length
      rest = rest.subarray(taken.length)
      if (this.#length === this.file.pieceSize) await this.#send()
    }
  }

  /** Up to where all was written, once nothing is on its way; what is gathered lies behind. */
  async written(): Promise<number> {
    await this.settled()
    this.#assertWritten()
    return this.position
  }

  /** Resolves when all was written. */
  async finish(): Promise<void> {
    if (this.#length > 0) await this.#send()
    await this.settled()
    this.#assertWritten()
  }

  /** Nothing is on its way any more. Never rejects. */
  async settled(): Promise<void> {
    await Promise.all(this.#onTheirWay)
  }

  async #send(): Promise<void> {
    const sent = this.file
      .write(this.position, this.#gathered)
      .catch((error: unknown) => void this.#failures.push(toGatewayError(error)))
      .finally(() => this.#onTheirWay.delete(sent))
    this.#onTheirWay.add(sent)
    this.position += this.#length
    this.#gathered = []
    this.#length = 0
    while (this.#onTheirWay.size >= this.file.piecesAtOnce) await Promise.race(this.#onTheirWay)
    this.#assertWritten()
  }

  #assertWritten(): void {
    const [failure] = this.#failures
    if (failure) throw failure
  }
}
