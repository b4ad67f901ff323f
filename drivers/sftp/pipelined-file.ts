/** Access to an open file in concurrent requests of the size that the server accepts. */
import { readPieces, type PipelinedFile } from '../lib/streams/pipelined-io.js'
import type { ServerConnection } from './connection.js'

/** Maximum bytes in flight for one file: enough for 200 MB/s with a round trip of 20 ms. */
const maxBytesInFlight = 4 * 1024 * 1024
const maxRequests = 64

interface SftpFile extends PipelinedFile {
  /** Fills `into` from this position. Resolves to the number of bytes: fewer only at the end of the file. */
  readInto(into: Buffer, position: number): Promise<number>
}

export function pipelinedFile(connection: ServerConnection, handle: Buffer): SftpFile {
  const { pieceSize } = connection
  return {
    pieceSize,
    maxInFlight: Math.min(maxRequests, Math.ceil(maxBytesInFlight / pieceSize)),
    read: async (position, length) => {
      const piece = Buffer.allocUnsafe(length)
      return piece.subarray(0, await connection.read(handle, piece, position))
    },
    readInto: (into, position) =>
      readPieces(into, pieceSize, (piece, start) => connection.read(handle, piece, position + start)),
    write: (position, piece) => {
      const [first] = piece
      return connection.write(handle, piece.length === 1 && first ? first : Buffer.concat(piece), position)
    },
  }
}
