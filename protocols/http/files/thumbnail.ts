/** Thumbnails of files, as responses of their own. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import { nameOf, type Path } from '../../../src/base/path.js'
import { thumbnailSizes, type ThumbnailSize } from '../../../src/contract/capabilities.js'
import { etagOf } from '../../../src/tree/preconditions.js'
import type { VirtualFs } from '../../../src/tree/virtual-fs.js'
import { evaluateConditions } from '../../lib/conditions.js'
import { contentDisposition, untrustedFileHeaders } from '../../lib/send.js'
import { signalOf, type HttpApi } from '../api/http-api.js'
import { thumbnailKind } from '../compat/file-types.js'

/** Which thumbnail a request asks for. */
interface RequestedThumbnail {
  readonly fs: VirtualFs
  readonly path: Path
  /** The query of the request. */
  readonly query: URLSearchParams
  /** The name by which the client knows the file. By default that of the path. */
  readonly name?: string
}

/** The parameters of the query, for the OpenAPI document. */
export const thumbnailQuery = {
  type: z.string().optional().describe('`thumb`: the thumbnail of the file, if it has one.'),
  size: z
    .string()
    .optional()
    .describe(
      'The pixels that the thumbnail needs: it fits into a square of 256 pixels, or with more than that of 1,024. ' +
        'Default: 256. An extension of this gateway.',
    ),
}

/** Whether the request asks for a thumbnail. */
export function asksForThumbnail(query: URLSearchParams): boolean {
  return query.get('type') === 'thumb'
}

/**
 * Responds to GET or HEAD with the thumbnail of a file. Resolves to false without a response if the storage has no
 * thumbnail of the file.
 */
export async function sendThumbnail(
  api: HttpApi,
  request: IncomingMessage,
  response: ServerResponse,
  { fs, path, query, name: fileName = nameOf(path) }: RequestedThumbnail,
): Promise<boolean> {
  const kind = thumbnailKind(api.fileTypes.classifier()(fileName))
  if (kind === undefined) return false
  const options = { signal: signalOf(response) }
  const { entry, folder } = await fs.view(path, options)
  if (entry.kind !== 'file' || !folder.thumbnails.includes(kind)) return false
  const size = sizeOf(query)
  const validators = { etag: etagOf(entry).replace(/^"/, `"thumb-${size}-`), modified: entry.modified }
  const headers = { ETag: validators.etag, 'Last-Modified': validators.modified.toUTCString(), ...untrustedFileHeaders }
  // The file may have another picture at any time, and the user may lose the right to it. What is set already is for
  // visitors of a share, and stricter.
  if (!response.hasHeader('Cache-Control')) response.setHeader('Cache-Control', 'private, no-cache')
  const conditionStatus = evaluateConditions(request.headers, validators)
  if (conditionStatus === 304) {
    response.writeHead(304, headers).end()
    return true
  }
  if (conditionStatus === 412) {
    response.writeHead(412, { ...headers, 'Content-Length': 0 }).end()
    return true
  }
  const thumbnail = await fs.thumbnail(path, kind, { ...options, size })
  if (!thumbnail) return false
  const { type, bytes } = thumbnail
  const name = `${fileName}.${type.slice(type.indexOf('/') + 1)}`
  response
    .writeHead(200, {
      ...headers,
      'Content-Type': type,
      'Content-Length': bytes.length,
      'Content-Disposition': contentDisposition(name),
    })
    .end(request.method === 'HEAD' ? undefined : bytes)
  return true
}

/** The size of at least so many pixels as the request needs. */
function sizeOf(query: URLSearchParams): ThumbnailSize {
  const needed = Number(query.get('size')) || 0
  const [small, large] = thumbnailSizes
  return needed <= small ? small : large
}
