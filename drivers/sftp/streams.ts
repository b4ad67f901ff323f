/** Files as streams over pipelined requests: a round trip for each of them would be all that is waited for. */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Source } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import type { Connection } from './connection.js'
import { translated } from './errors.js'

/** Bytes that are on their way for one file, enough for 200 MB/s over 20 ms. */
const bytesAtOnce = 4 * 1024 * 1024
const piecesAtMost = 64

function piecesOf(connection: Connection): { readonly pieceSize: number; readonly piecesAtOnce: number } {
  const { pieceSize } = connection
  return { pieceSize, piecesAtOnce: Math.min(piecesAtMost, Math.ceil(bytesAtOnce / pieceSize)) }
}

export interface OpenRange {
  readonly connection: Connection
  readonly handle: Buffer
  readonly position: number
  readonly end: number
}

/** The bytes from `position` to `end`; `done` runs when the stream has ended, however it did. */
export function readingStream({ connection, handle, position, end }: OpenRange, done: () => Promise<void>): Readable {
  const { pieceSize, piecesAtOnce } = piecesOf(connection)
  async function* pieces(): AsyncGenerator<Buffer> {
    const asked: Promise<Buffer>[] = []
    let next = position
    try {
      while (next < end || asked.length > 0) {
        while (next < end && asked.length < piecesAtOnce) {
          const piece = Buffer.allocUnsafe(Math.min(pieceSize, end - next))
          const reading = connection.read(handle, piece, next).then((bytes) => piece.subarray(0, bytes))
          reading.catch(() => undefined) // told when its turn comes
          asked.push(reading)
          next += piece.length
        }
        const expected = Math.min(pieceSize, end - (next - pieceSize * asked.length))
        const piece = (await asked.shift()) ?? Buffer.alloc(0)
        if (piece.length > 0) yield piece
        // The file has become shorter than it was when it was opened.
        if (piece.length < Math.min(expected, pieceSize) && asked.length > 0) {
          throw new GatewayError('unavailable', { reason: 'the file was cut while it was read' })
        }
      }
    } finally {
      await done()
    }
  }
  return Readable.from(pieces(), { objectMode: false, highWaterMark: pieceSize })
}

/** Writes the whole source from the file's start; `invalid` where it is not as long as announced. Resolves to its length. */
export async function writeAll(
  source: Source,
  connection: Connection,
  handle: Buffer,
  signal: AbortSignal | undefined,
): Promise<number> {
  const { pieceSize, piecesAtOnce } = piecesOf(connection)
  const writing = new Set<Promise<void>>()
  const failures: GatewayError[] = []
  let position = 0
  const assertWritten = () => {
    const [failure] = failures
    if (failure) throw failure
  }
  const send = async (data: Buffer): Promise<void> => {
    const request = connection.write(handle, data, position)
    position += data.length
    const ended = request
      .catch((error: unknown) => failures.push(translated(error)))
      .then(() => void writing.delete(ended))
    writing.add(ended)
    if (writing.size >= piecesAtOnce) await Promise.race(writing)
    assertWritten()
  }
  const body = await source.read(undefined, { signal })
  try {
    await pipeline(
      body,
      async (chunks: AsyncIterable<Buffer | string>) => {
        let gathered: Buffer[] = []
        let length = 0
        for await (const text of chunks) {
          const chunk = typeof text === 'string' ? Buffer.from(text) : text
          if (source.size !== undefined && position + length + chunk.length > source.size) {
            throw new GatewayError('invalid', { reason: `the body is longer than the announced ${source.size} bytes` })
          }
          gathered.push(chunk)
          length += chunk.length
          if (length < pieceSize) continue
          let rest = gathered.length === 1 ? chunk : Buffer.concat(gathered)
          for (; rest.length >= pieceSize; rest = rest.subarray(pieceSize)) await send(rest.subarray(0, pieceSize))
          gathered = rest.length > 0 ? [rest] : []
          length = rest.length
        }
        if (length > 0) await send(Buffer.concat(gathered))
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
  return position
}
