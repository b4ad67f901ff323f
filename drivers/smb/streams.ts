/** Files as streams over pipelined requests: a round trip for each of them would be all that is waited for. */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Source } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import type { FileId } from './client/messages.js'
import type { Share } from './client/share.js'
import { translated } from './errors.js'

/** Requests that are on their way for one file, of at most 1 MiB each. */
const piecesAtOnce = 4

export interface OpenRange {
  readonly share: Share
  readonly id: FileId
  readonly position: number
  readonly end: number
}

/** The bytes from `position` to `end`; `done` runs when the stream has ended, however it did. */
export function readingStream({ share, id, position, end }: OpenRange, done: () => Promise<void>): Readable {
  const { maxRead } = share.agreement
  async function* pieces(): AsyncGenerator<Buffer> {
    const asked: { readonly length: number; readonly data: Promise<Buffer> }[] = []
    let next = position
    try {
      while (next < end || asked.length > 0) {
        while (next < end && asked.length < piecesAtOnce) {
          const length = Math.min(maxRead, end - next)
          const data = share.read(id, next, length)
          data.catch(() => undefined) // told when its turn comes
          asked.push({ length, data })
          next += length
        }
        const piece = asked.shift()
        if (piece === undefined) return
        const data = await piece.data
        if (data.length > 0) yield data
        if (data.length < piece.length) {
          throw new GatewayError('unavailable', { reason: 'the file was cut while it was read' })
        }
      }
    } catch (error) {
      throw translated(error)
    } finally {
      await done()
    }
  }
  return Readable.from(pieces(), { objectMode: false, highWaterMark: maxRead })
}

/** Reads until `into` is full or the file ends. Resolves to the bytes read. */
export async function readInto(share: Share, id: FileId, into: Buffer, position: number): Promise<number> {
  const { maxRead } = share.agreement
  const starts = Array.from({ length: Math.ceil(into.length / maxRead) }, (_, index) => index * maxRead)
  const lengths = await Promise.all(
    starts.map(async (start) => {
      const data = await share.read(id, position + start, Math.min(maxRead, into.length - start))
      return data.copy(into, start)
    }),
  )
  let read = 0
  for (const length of lengths) {
    read += length
    if (length < maxRead) break
  }
  return read
}

/** Writes all of it, in pieces that the server takes. */
export async function writeFrom(share: Share, id: FileId, from: readonly Buffer[], position: number): Promise<void> {
  const pieces = new Pieces(share.agreement.maxWrite)
  const writing: Promise<void>[] = []
  let at = position
  const send = (piece: readonly Buffer[], length: number) => {
    writing.push(share.write(id, at, piece))
    at += length
  }
  for (const part of from) pieces.push(part, send)
  pieces.flush(send)
  await Promise.all(writing)
}

/** Writes the whole source from the file's start; `invalid` where it is not as long as announced. */
export async function writeAll(
  source: Source,
  share: Share,
  id: FileId,
  signal: AbortSignal | undefined,
): Promise<void> {
  const writing = new Set<Promise<void>>()
  const failures: GatewayError[] = []
  let position = 0
  const send = (piece: readonly Buffer[], length: number) => {
    const ended = share
      .write(id, position, piece)
      .catch((error: unknown) => void failures.push(translated(error)))
      .finally(() => writing.delete(ended))
    position += length
    writing.add(ended)
  }
  const assertWritten = () => {
    const [failure] = failures
    if (failure) throw failure
  }
  const pieces = new Pieces(share.agreement.maxWrite)
  const body = await source.read(undefined, { signal })
  try {
    await pipeline(
      body,
      async (chunks: AsyncIterable<Buffer | string>) => {
        let arrived = 0
        for await (const chunk of chunks) {
          const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
          arrived += bytes.length
          if (source.size !== undefined && arrived > source.size) {
            throw new GatewayError('invalid', { reason: `the body is longer than the announced ${source.size} bytes` })
          }
          pieces.push(bytes, send)
          while (writing.size >= piecesAtOnce) await Promise.race(writing)
          assertWritten()
        }
        pieces.flush(send)
      },
      { signal },
    )
  } finally {
    await Promise.all(writing)
  }
  assertWritten()
  if (source.size !== undefined && position < source.size) {
    throw new GatewayError('invalid', { reason: `the body ended after ${position} of ${source.size} bytes` })
  }
}

type Send = (piece: readonly Buffer[], length: number) => void

/** Gathers chunks of any size to pieces of one. */
class Pieces {
  #gathered: Buffer[] = []
  #length = 0

  constructor(private readonly size: number) {}

  push(bytes: Buffer, send: Send): void {
    for (let rest = bytes; rest.length > 0;) {
      const taken = rest.subarray(0, this.size - this.#length)
      this.#gathered.push(taken)
      this.#length += taken.length
      rest = rest.subarray(taken.length)
      if (this.#length === this.size) this.flush(send)
    }
  }

  flush(send: Send): void {
    if (this.#length === 0) return
    const [gathered, length] = [this.#gathered, this.#length]
    this.#gathered = []
    this.#length = 0
    send(gathered, length)
  }
}
