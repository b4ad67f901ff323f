/** Downloads of shares, below /sd. They are authorized by the id of the share, and its code if it has one. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { GatewayError } from '../../../src/base/errors.js'
import { root, type Path } from '../../../src/base/path.js'
import { asVisitor } from '../../../src/shares/visitor-errors.js'
import type { VirtualFs } from '../../../src/tree/virtual-fs.js'
import { urlClientOf } from '../../lib/client.js'
import { sendFile } from '../../lib/send.js'
import { visitorCaching } from '../../lib/visitor-headers.js'
import { withResponses } from '../api/errors.js'
import { parseQuery } from '../api/fields.js'
import type { HttpApi } from '../api/http-api.js'
import { openShare } from '../api/visitors.js'
import { codeOf, parseShareUrl } from './share-url.js'
import { asksForThumbnail, sendThumbnail } from './thumbnail.js'

/** A folder is not sent, and a client that asks for one has followed a wrong link. */
const downloadResponses = { is_folder: { code: 500, status: 404 }, not_folder: { code: 500, status: 404 } } as const

/** Responds to GET and HEAD. Rejects with an error that tells visitors no more than they may know. */
export async function downloadShared(api: HttpApi, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { id, path, query: text } = parseShareUrl(request.url ?? '/')
  const query = parseQuery(text)
  await withResponses(downloadResponses, () =>
    asVisitor(async () => {
      const share = await openShare(api, request, response, id, codeOf(request, query))
      const { code, mode } = share.share
      response.setHeader('Cache-Control', visitorCaching(code))
      const place = share.at(path)
      if (place.kind === 'roots') throw new GatewayError('is_folder')
      if (mode === 'upload') throw new GatewayError(path === root ? 'is_folder' : 'not_found')
      const { fs, name } = place
      const thumbnail = { fs, path: place.path, query, name }
      if (asksForThumbnail(query) && (await sendThumbnail(api, request, response, thumbnail))) return
      const url = await directUrl(api, request, fs, place.path)
      if (url === undefined) await sendFile(request, response, { fs, path: place.path, name })
      else response.writeHead(302, { 'Cache-Control': 'no-store', Location: url, 'Content-Length': 0 }).end()
    }),
  )
}

/**
 * Where the visitor is redirected, if a setting allows that. Never to the proxy of the storage, which would get a
 * signature of the file, nor to another path of this server.
 */
async function directUrl(
  api: HttpApi,
  request: IncomingMessage,
  fs: VirtualFs,
  path: Path,
): Promise<string | undefined> {
  if (api.gateway.settings.bool('share_force_proxy')) return undefined
  const client = urlClientOf(request, api.clientOf(request))
  const route = await fs.downloadRoute(path, { route: 'download', withoutProxy: true, client })
  return route.kind === 'direct' && !route.url.startsWith('/') ? route.url : undefined
}
