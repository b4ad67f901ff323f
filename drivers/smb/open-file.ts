/** What can be done with an open file, in requests of the size that the server takes. */
import type { OpenFile } from '../../src/driver.js'
import { writeFrom, type OpenPieces } from '../lib/pieces.js'
import type { FileId } from './client/messages.js'
import type { Share } from './client/share.js'
import { translated } from './errors.js'

/** Requests that are on their way for one file, of at most 1 MiB each. */
const piecesAtOnce = 4

export function piecesOf(share: Share, id: FileId): OpenPieces {
  return {
    pieceSize: Math.min(share.agreement.maxRead, share.agreement.maxWrite),
    piecesAtOnce,
    read: (position, length) => told(share.read(id, position, length)),
    write: (position, piece) => told(share.write(id, position, piece)),
  }
}

/** What a handle can do beside being closed. */
export function accessTo(share: Share, id: FileId): Required<Pick<OpenFile, 'read' | 'write' | 'truncate' | 'sync'>> {
  const pieces = piecesOf(share, id)
  return {
    read: (into, position) => readInto(pieces, into, position),
    write: (from, position) => writeFrom(pieces, from, position),
    truncate: (size) => told(share.truncate(id, size)),
    sync: () => told(share.flush(id)),
  }
}

/** Reads until `into` is full or the file ends. Resolves to the bytes read. */
async function readInto(pieces: OpenPieces, into: Buffer, position: number): Promise<number> {
  const { pieceSize } = pieces
  const starts = Array.from({ length: Math.ceil(into.length / pieceSize) }, (_, index) => index * pieceSize)
  const lengths = await Promise.all(
    starts.map(async (start) => {
      const data = await pieces.read(position + start, Math.min(pieceSize, into.length - start))
      return data.copy(into, start)
    }),
  )
  let filled = 0
  for (const length of lengths) {
    filled += length
    if (length < pieceSize) break
  }
  return filled
}

async function told<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw translated(error)
  }
}
