/**
 * Downloads below /d and /p. They are authorized by the signature in the URL, not by a session. One of the console lets
 * /p show files that the storage would not have sent through this server.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { GatewayError, toGatewayError } from '../../src/contract/errors.js'
import { resolvePath, root, type Path } from '../../src/contract/path.js'
import { networkOf } from '../../src/net/addresses.js'
import { percentDecoded } from '../../src/contract/utf8.js'
import { requestDetails } from '../lib/request-details.js'
import { urlClientOf } from '../lib/client.js'
import { sendFile, type DownloadRequestKind, type RedirectRoute } from '../lib/send.js'
import { isOfConsole } from './authenticate.js'
import type { HttpApi } from './http-api.js'
import { logUnexpected, toErrorResponse } from './errors.js'
import { parseQuery } from './fields.js'
import { http } from './index.js'
import { absoluteUrl } from './object.js'
import { sendErrorPage } from './pages.js'
import { sendThumbnail } from './thumbnail.js'

const redirectHeaders = {
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'max-age=0, no-cache, no-store, must-revalidate',
}

/** Whether the URL is that of a download: `/d/…` or `/p/…`. */
export function isDownload(url: string): boolean {
  return url.startsWith('/d/') || url.startsWith('/p/')
}

/** Responds to GET and HEAD of a download. Never rejects. Errors are HTML pages with the matching status code. */
export async function serveDownload(api: HttpApi, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.writeHead(405, { Allow: 'GET, HEAD', 'Content-Length': 0 }).end()
      return
    }
    await download(api, request, response)
  } catch (error) {
    const { gateway } = api
    const failure = toGatewayError(error)
    logUnexpected(gateway.log, error, { protocol: http.name, ...requestDetails(request) })
    if (response.headersSent) gateway.log.debug({ code: failure.code }, 'download aborted')
    if (response.headersSent || response.destroyed) return
    const { status, message, retryAfter } = toErrorResponse(error)
    if (retryAfter !== undefined) response.setHeader('Retry-After', Math.ceil(retryAfter))
    const linkFails = { title: gateway.settings.get('site_title'), meaning: 'This link is not valid, or has expired.' }
    sendErrorPage(response, status, api.masks.apply(message), status === 401 ? linkFails : undefined)
  }
}

async function download(api: HttpApi, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { path, query: text } = parseDownloadUrl(request.url ?? '/')
  const query = parseQuery(text)
  // Some clients append a slash to the signature, which AList accepts too (server/middlewares/down.go).
  const signature = query.get('sign')?.replace(/\/$/, '')
  const network = networkOf(api.clientOf(request).address)
  const fs = api.gateway.as(await api.gateway.signedUrls.authorize(path, signature, http, network))
  if (query.get('type') === 'thumb' && (await sendThumbnail(api, request, response, fs, path))) return
  const route = await routeOf(api, request)
  const redirect = ({ kind, url }: RedirectRoute) => {
    const target = kind === 'direct' ? withParameters(api, url, query) : url
    const location = absoluteUrl(api.clientOf(request).baseUrl, target)
    response.writeHead(302, { ...redirectHeaders, Location: location, 'Content-Length': 0 }).end()
  }
  const client = urlClientOf(request, api.clientOf(request))
  const withoutProxy = query.has('d')
  await sendFile(request, response, { fs, path, redirection: { route, withoutProxy, client, redirect } })
}

async function routeOf(api: HttpApi, request: IncomingMessage): Promise<DownloadRequestKind> {
  if (request.url?.startsWith('/p/') !== true) return 'download'
  return (await isOfConsole(api, request)) ? 'preview' : 'proxied download'
}

/**
 * Adds the query parameters of the request, sorted by name, to the backend's URL if `forward_direct_link_params` is
 * set. Leaves out those in `ignore_direct_link_params`.
 */
function withParameters({ gateway: { settings } }: HttpApi, url: string, query: URLSearchParams): string {
  if (!settings.bool('forward_direct_link_params')) return url
  const forwarded = new URLSearchParams(query)
  for (const name of settings.get('ignore_direct_link_params').split(',')) forwarded.delete(name.trim())
  if (forwarded.size === 0) return url
  forwarded.sort()
  return `${url}${url.includes('?') ? '&' : '?'}${forwarded.toString()}`
}

/** The path of a download URL, percent-decoded and with dot segments resolved, and its query. Throws `invalid`. */
function parseDownloadUrl(url: string): { path: Path; query: string } {
  const queryStart = url.indexOf('?')
  const encoded = url.slice(2, queryStart < 0 ? undefined : queryStart)
  const text = percentDecoded(encoded)
  if (text === undefined)
    throw new GatewayError('invalid', { reason: 'the URL holds a bad percent-escape, or is not UTF-8' })
  return { path: resolvePath(root, text.replaceAll('\\', '/')), query: queryStart < 0 ? '' : url.slice(queryStart + 1) }
}
