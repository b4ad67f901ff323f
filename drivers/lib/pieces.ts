/** Files of a server as streams over requests that go side by side: a round trip for each of them would be all that is waited for. */
import { Readable } from 'node:stream'
import type { ByteRange, Source } from '../../src/driver.js'
import { GatewayError, toGatewayError } from '../../src/errors.js'
import { flow, type Intake } from './flow.js'
import { free } from './freeing.js'

/** Requests about one open file. */
export interface OpenPieces {
  /** Bytes of one request, and how many requests are on their way at once. */
  readonly pieceSize: number
  readonly piecesAtOnce: number
  /** Fewer bytes than asked for only where the file ends. Rejects with GatewayErrors alone. */
  read(position: number, length: number): Promise<Buffer>
  /** At most `pieceSize` bytes, which nothing looks at any more once it resolves. Rejects with GatewayErrors alone. */
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
  const sending = new Sending(file, progress?.start ?? 0)
  const gathering = new Gathering(sending, Math.min(file.pieceSize, source.size ?? Infinity))
  try {
    await flow(source, progress ? new Telling(gathering, sending, progress) : gathering, signal)
    await gathering.finish()
  } finally {
    await gathering.release()
    await sending.written().then(
      (position) => progress?.written(position),
      () => undefined,
    )
  }
}

/** Writes these bytes from `position` on. Nothing uses them any more once it has settled. */
export async function writeFrom(file: OpenPieces, from: readonly Buffer[], position: number): Promise<void> {
  const sending = new Sending(file, position)
  try {
    for (const piece of piecesIn(from, file.pieceSize)) {
      await sending.room()
      sending.send(piece)
    }
    await sending.written()
  } finally {
    await sending.settled()
  }
}

/** The same bytes in pieces of one size, the last of which may be smaller. */
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

/** Sends pieces one behind the other, without waiting for each. */
class Sending {
  readonly #onTheirWay = new Set<Promise<void>>()
  #failure: GatewayError | undefined
  #break: (failure: GatewayError) => void = () => undefined
  /** Rejects as soon as one of them could not be written. */
  readonly broken = new Promise<never>((_resolve, reject) => (this.#break = reject))

  constructor(
    private readonly file: OpenPieces,
    private position: number,
  ) {
    this.broken.catch(() => undefined) // told to who sends more
  }

  get hasRoom(): boolean {
    return this.#onTheirWay.size < this.file.piecesAtOnce
  }

  /** `written` is called when it was, and nothing looks at the piece any more. */
  send(piece: readonly Buffer[], written?: () => void): void {
    const sent = this.file
      .write(this.position, piece)
      .then(written, (error: unknown) => {
        this.#failure ??= toGatewayError(error)
        this.#break(this.#failure)
      })
      .finally(() => this.#onTheirWay.delete(sent))
    this.#onTheirWay.add(sent)
    this.position += piece.reduce((sum, { length }) => sum + length, 0)
  }

  /** Resolves when there is room for one more. Rejects where one of those before could not be written. */
  async room(): Promise<void> {
    while (!this.hasRoom) await Promise.race(this.#onTheirWay)
    if (this.#failure) throw this.#failure
  }

  /** Up to where all was written, once nothing is on its way. Rejects where one of them could not be written. */
  async written(): Promise<number> {
    await this.settled()
    if (this.#failure) throw this.#failure
    return this.position
  }

  /** Nothing is on its way any more. Never rejects. */
  async settled(): Promise<void> {
    await Promise.all(this.#onTheirWay)
  }
}

/**
 * Makes pieces of the chunks of a body, in buffers that are used again: to make new ones, and to find out that nobody needs the old
 * ones, costs more than to copy what they hold.
 */
class Gathering implements Intake {
  readonly broken: Promise<never>
  readonly #free: Buffer[] = []
  /** Those that wait for room on the way. */
  readonly #full: Buffer[] = []
  /** The one that is filled now, and how far. */
  #current: Buffer | undefined
  #filled = 0

  constructor(
    private readonly sending: Sending,
    private readonly pieceSize: number,
  ) {
    this.broken = sending.broken
  }

  take(chunk: Buffer, used: () => void): Promise<void> | undefined {
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
    return this.#full.length === 0 ? undefined : this.#rest()
  }

  #sendFull(): void {
    while (this.sending.hasRoom) {
      const piece = this.#full.shift()
      if (piece === undefined) return
      this.sending.send([piece], () => this.#free.push(piece))
    }
  }

  async #rest(): Promise<void> {
    while (this.#full.length > 0) {
      await this.sending.room()
      this.#sendFull()
    }
  }

  /** All chunks are there; resolves when they are written. */
  async finish(): Promise<void> {
    await this.#rest()
    const last = this.#current
    if (last !== undefined) {
      await this.sending.room()
      this.sending.send([last.subarray(0, this.#filled)], () => this.#free.push(last))
    }
    await this.sending.written()
  }

  /** What was not sent yet never is. Resolves when nothing is on its way any more. The buffers of what failed are the collector's to find. */
  async release(): Promise<void> {
    this.#full.length = 0
    await this.sending.settled()
    for (const piece of this.#free.splice(0)) free(piece)
  }
}

/** Tells now and then how far it is. */
class Telling implements Intake {
  readonly broken: Promise<never>
  #told = performance.now()

  constructor(
    private readonly gathering: Gathering,
    private readonly sending: Sending,
    private readonly progress: Progress,
  ) {
    this.broken = sending.broken
  }

  take(chunk: Buffer, used: () => void): Promise<void> | undefined {
    const room = this.gathering.take(chunk, used)
    return performance.now() - this.#told < this.progress.every ? room : this.#tell(room)
  }

  async #tell(room: Promise<void> | undefined): Promise<void> {
    await room
    await this.progress.written(await this.sending.written())
    this.#told = performance.now()
  }
}
