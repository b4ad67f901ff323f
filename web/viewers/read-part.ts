/** Bytes of a file, never more than were asked for. */
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('viewers')

export interface FilePart {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** The size of the whole file in bytes. */
  readonly size: number
}

/** Reads at most `length` bytes from `offset`, by a range request (RFC 9110, 14.2). */
export async function readPart(url: string, offset: number, length: number, signal: AbortSignal): Promise<FilePart> {
  const headers = { Range: `bytes=${offset}-${offset + length - 1}` }
  const response = await fetch(url, { headers, signal, cache: 'no-store' })
  const [, total] = /\/(\d+)$/.exec(response.headers.get('Content-Range') ?? '') ?? []
  // There is nothing after `offset`.
  if (response.status === 416) return { bytes: new Uint8Array(), size: Number(total ?? 0) }
  const isPart = response.status === 206 && total !== undefined
  // A server that knows no ranges sends the whole file.
  if (!isPart && (response.status !== 200 || offset > 0)) throw new Error(texts.look.notRead)
  const bytes = await readBody(response, length)
  return { bytes, size: Number(isPart ? total : (response.headers.get('Content-Length') ?? bytes.length)) }
}

async function readBody({ body }: Response, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const pieces: Uint8Array[] = []
  let length = 0
  const reader = body?.getReader()
  while (reader) {
    const { done, value } = await reader.read()
    if (done) break
    const piece = value.subarray(0, most - length)
    pieces.push(piece)
    length += piece.length
    // There is more than was asked for.
    if (piece.length < value.length) {
      void reader.cancel().catch(() => undefined)
      break
    }
  }
  const bytes = new Uint8Array(length)
  let end = 0
  for (const piece of pieces) {
    bytes.set(piece, end)
    end += piece.length
  }
  return bytes
}
