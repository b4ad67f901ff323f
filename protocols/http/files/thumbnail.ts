/** Thumbnails of files, as responses of their own. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { nameOf, type Path } from '../../../src/base/path.js'
import { etagOf } from '../../../src/tree/preconditions.js'
import type { VirtualFs } from '../../../src/tree/virtual-fs.js'
import { evaluateConditions } from '../../lib/conditions.js'
import { contentDisposition, untrustedFileHeaders } from '../../lib/send.js'
import { signalOf, type HttpApi } from '../api/http-api.js'
import { thumbnailKind } from '../compat/file-types.js'

/**
 * Responds to GET or HEAD with the thumbnail of a file. Resolves to false without a response if the storage has no
 * thumbnail of the file. `fileName`: the name by which the client knows it.
 */
export async function sendThumbnail(
  api: HttpApi,
  request: IncomingMessage,
  response: ServerResponse,
  fs: VirtualFs,
  path: Path,
  fileName = nameOf(path),
): Promise<boolean> {
  const kind = thumbnailKind(api.fileTypes.classifier()(fileName))
  if (kind === undefined) return false
  const options = { signal: signalOf(response) }
  const { entry, folder } = await fs.view(path, options)
  if (entry.kind !== 'file' || !folder.thumbnails.includes(kind)) return false
  const validators = { etag: etagOf(entry).replace(/^"/, '"thumb-'), modified: entry.modified }
  const headers = { ETag: validators.etag, 'Last-Modified': validators.modified.toUTCString(), ...untrustedFileHeaders }
  const conditionStatus = evaluateConditions(request.headers, validators)
  if (conditionStatus === 304) {
    response.writeHead(304, headers).end()
    return true
  }
  if (conditionStatus === 412) {
    response.writeHead(412, { ...headers, 'Content-Length': 0 }).end()
    return true
  }
  const thumbnail = await fs.thumbnail(path, kind, options)
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
