/** Operations on an open file, split into requests of the size that the server accepts. */
import type { OpenFile } from '../../src/contract/capabilities.js'
import { readPieces, writeBuffers, type PipelinedFile } from '../lib/pipelined-io.js'
import type { FileId } from './client/messages.js'
import type { Share } from './client/share.js'
import { translateError } from './errors.js'

/** Concurrent requests for one file, of at most 1 MiB each. */
const piecesAtOnce = 4

/** An open file for pipelined reads and writes. Rejects with GatewayErrors. */
export function pipelinedFile(share: Share, id: FileId): PipelinedFile {
  return {
    pieceSize: Math.min(share.negotiated.maxRead, share.negotiated.maxWrite),
    maxInFlight: piecesAtOnce,
    read: (position, length) => withErrorTranslation(share.read(id, position, length)),
    write: (position, piece) => withErrorTranslation(share.write(id, position, piece)),
  }
}

/** The operations of an `OpenFile` except `close` and `commit`. Rejects with GatewayErrors. */
export function fileOperations(
  share: Share,
  id: FileId,
): Required<Pick<OpenFile, 'read' | 'write' | 'truncate' | 'sync'>> {
  const pieces = pipelinedFile(share, id)
  return {
    read: (into, position) => readInto(pieces, into, position),
    write: (from, position) => writeBuffers(pieces, from, position),
    truncate: (size) => withErrorTranslation(share.truncate(id, size)),
    sync: () => withErrorTranslation(share.flush(id)),
  }
}

/** Reads until `into` is full or the file ends. Resolves to the number of bytes read. */
function readInto(pieces: PipelinedFile, into: Buffer, position: number): Promise<number> {
  return readPieces(into, pieces.pieceSize, async (piece, start) =>
    (await pieces.read(position + start, piece.length)).copy(piece),
  )
}

async function withErrorTranslation<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw translateError(error)
  }
}
