/** Small pictures of files, where a link asks for one with `type=thumb`. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { etagOf } from '../../src/change.js'
import type { Thumbnail, ThumbnailKind } from '../../src/driver.js'
import { isGatewayError } from '../../src/errors.js'
import { nameOf, type Path } from '../../src/path.js'
import type { VirtualFs } from '../../src/virtual-fs.js'
import { judgeConditions } from '../lib/conditions.js'
import { attachment, untrusted } from '../lib/send.js'
import { signalOf, type Door } from './context.js'
import { WireError } from './errors.js'
import { thumbnailKind } from './file-types.js'

/** Answers GET or HEAD. false, and nothing answered, where the storage makes none of such a file: it is sent as it is. */
export async function answerThumbnail(
  door: Door,
  request: IncomingMessage,
  response: ServerResponse,
  fs: VirtualFs,
  path: Path,
): Promise<boolean> {
  const kind = thumbnailKind(door.fileTypes.reader()(nameOf(path)))
  if (kind === undefined) return false
  const ask = { signal: signalOf(response) }
  const { entry, folder } = await fs.view(path, ask)
  if (entry.kind !== 'file' || !folder.thumbnails.includes(kind)) return false
  const validators = { etag: etagOf(entry).replace(/^"/, '"thumb-'), modified: entry.modified }
  const headers = { ETag: validators.etag, 'Last-Modified': validators.modified.toUTCString(), ...untrusted }
  const verdict = judgeConditions(request.headers, validators)
  if (verdict === 304) {
    response.writeHead(304, headers).end()
    return true
  }
  if (verdict === 412) {
    response.writeHead(412, { ...headers, 'Content-Length': 0 }).end()
    return true
  }
  const made = await thumbnailOf(fs, path, kind, ask.signal)
  if (!made) return false
  const { type, bytes } = made
  const name = `${nameOf(path)}.${type.slice(type.indexOf('/') + 1)}`
  response
    .writeHead(200, {
      ...headers,
      'Content-Type': type,
      'Content-Length': bytes.length,
      'Content-Disposition': attachment(name),
    })
    .end(request.method === 'HEAD' ? undefined : bytes)
  return true
}

async function thumbnailOf(
  fs: VirtualFs,
  path: Path,
  kind: ThumbnailKind,
  signal: AbortSignal,
): Promise<Thumbnail | undefined> {
  try {
    return await fs.thumbnail(path, kind, { signal })
  } catch (error) {
    if (isGatewayError(error, 'unsupported')) return undefined
    // There is nothing wrong with the request, but with the file.
    if (isGatewayError(error, 'invalid')) throw new WireError(500, error.reason)
    throw error
  }
}
