/**
 * The HTTP protocol: the JSON API, downloads, and pages for browsers. Downloads bypass Koa for performance
 * (docs/decisions/0004).
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import Router from '@koa/router'
import Koa from 'koa'
import type { ProtocolGateway } from '../../src/gateway/protocol-gateway.js'
import { sitePath, type ClientOptions } from '../lib/client.js'
import { handleCors } from '../lib/cors.js'
import { davClasses } from '../lib/dav-classes.js'
import type { RequestHandler } from '../lib/protocol.js'
import { HttpApi, type Exchange, type Routes, type State } from './api/http-api.js'
import { serveDownload, isDownload } from './files/download.js'
import { FileTypes } from './compat/file-types.js'
import { newShareLink } from './files/old-share-links.js'
import { ZipDownloads } from './files/zip-downloads.js'
import { endpoints } from './endpoints.js'
import { http } from './index.js'
import { withErrorEnvelopes } from './api/envelope.js'
import { refused } from './api/errors.js'
import { sendErrorPage } from './site/pages.js'
import { endpointMissing } from './api/refusals.js'
import { register } from './api/register.js'
import type { WebClient } from './site/web-client.js'

/**
 * Returns the handler of all requests that are not for another protocol. `clients` holds the public URL of the server
 * and the trusted proxies. `web` is the web client that is the site; undefined if there is none.
 */
export function httpHandler(gateway: ProtocolGateway, clients: ClientOptions, web?: WebClient): RequestHandler {
  const api = httpApi(gateway, clients)
  const handleApi = apiHandler(api, web)
  const site = sitePath(clients.siteUrl)
  const { cors_origins: origins } = gateway.config
  return (request, response) => {
    if (handleCors(request, response, origins, 'any')) return
    // RFC 9110 §9.3.7: the server in general.
    if (request.method === 'OPTIONS' && request.url === '*') {
      answerRootOptions(response)
      return
    }
    const url = relativeToSite(request.url ?? '/', site)
    if (url === undefined) {
      answerOutsideSite(request, response, site)
      return
    }
    request.url = url
    if (isDownload(url)) void serveDownload(api, request, response)
    else if (web?.isFileTarget(url) === true) void web.sendFile(request, response)
    else handleApi(request, response)
  }
}

/** Makes the state that all parts of the protocol share. */
export function httpApi(gateway: ProtocolGateway, clients: ClientOptions): HttpApi {
  const fileTypes = new FileTypes(gateway.settings)
  return new HttpApi(gateway, clients, { protocol: http, fileTypes, zips: new ZipDownloads() })
}

/** The request target, in origin form, relative to the path of the site; undefined if it is outside. */
function relativeToSite(target: string, site: string): string | undefined {
  if (!target.startsWith(site)) return undefined
  const relativeTarget = target.slice(site.length)
  if (relativeTarget.startsWith('/')) return relativeTarget
  return relativeTarget === '' || relativeTarget.startsWith('?') ? `/${relativeTarget}` : undefined
}

function answerOutsideSite(request: IncomingMessage, response: ServerResponse, site: string): void {
  if (request.url === '/') response.writeHead(302, { Location: `${site}/`, 'Content-Length': 0 }).end()
  else sendErrorPage(response, 404, 'There is nothing here.')
}

/**
 * The routes of all endpoints, by `routeKey` of their paths, because a router tries its routes one by one. Downloads
 * are not among them.
 */
export function apiRoutes(api: HttpApi): ReadonlyMap<string, Routes> {
  const routers = new Map<string, Routes>()
  for (const endpoint of endpoints) {
    const key = routeKey(endpoint.path)
    const routes: Routes = routers.get(key) ?? new Router<State>({ strict: true, sensitive: true })
    routers.set(key, routes)
    register(routes, api, endpoint)
  }
  return routers
}

/** A path without parameters is its own key. */
function routeKey(path: string): string {
  return path.includes('{') ? firstSegmentsOf(path) : path
}

/** `/api/task` of `/api/task/{kind}/info`. */
function firstSegmentsOf(path: string): string {
  return path.split('/', 3).join('/')
}

function apiHandler(api: HttpApi, web: WebClient | undefined): RequestHandler {
  const app = new Koa()
  // Errors of routes are handled by the envelopes. These are connection errors; they contain request bytes, so log only
  // the code.
  app.on('error', (error: NodeJS.ErrnoException) => {
    api.gateway.log.debug({ code: error.code }, 'connection failed')
  })
  const routers = new Map([...apiRoutes(api)].map(([key, routes]) => [key, routes.routes()]))
  app.use(
    withErrorEnvelopes(api, (context): Promise<unknown> => {
      const exchange = context as unknown as Exchange
      const unknown = () => answerUnknown(api, web, exchange)
      const routes = routers.get(context.path) ?? routers.get(firstSegmentsOf(context.path))
      return routes ? (routes(exchange, unknown) as Promise<unknown>) : unknown()
    }),
  )
  const handle = app.callback()
  return (request: IncomingMessage, response: ServerResponse) => void handle(request, response)
}

/** Responds to requests without a route: an envelope below /api, a page for browsers, 405 for other methods. */
async function answerUnknown(api: HttpApi, web: WebClient | undefined, context: Exchange): Promise<void> {
  const isApi = context.path.startsWith('/api/')
  const methods = new Set(context.matched?.flatMap((layer) => layer.methods))
  if (isApi && methods.size > 0) refuseMethod(context, [...methods].sort())
  const isPageMethod = ['GET', 'HEAD', 'POST'].includes(context.method)
  const moved = ['GET', 'HEAD'].includes(context.method) && newShareLink(api, context.req.url ?? '/')
  if (moved) {
    context.respond = false
    const headers = { Location: moved, 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer' }
    context.res.writeHead(302, { ...headers, 'Content-Length': 0 }).end()
    return
  }
  if (isPageMethod && isApi) throw refused(endpointMissing)
  context.respond = false
  // An unknown path of the API has no methods.
  const allow = isApi ? {} : { Allow: 'GET, HEAD, POST' }
  if (context.method === 'OPTIONS' && context.path === '/') answerRootOptions(context.res)
  else if (!isPageMethod) context.res.writeHead(405, { ...allow, 'Content-Length': 0 }).end()
  else if (web !== undefined) await web.sendIndexPage(context.req, context.res, api.gateway.settings)
  else sendErrorPage(context.res, 404, consoleMissing)
}

/** Throws the error for a method that the endpoint of the path does not have. No client of the family sends one. */
function refuseMethod(context: Exchange, methods: readonly string[]): never {
  const allowed = methods.join(', ')
  context.set('Allow', allowed)
  context.state.refusalStatus = 405
  const text = `${context.path} does not accept ${context.method}, but ${allowed}`
  throw refused({ code: 405, text, error: 'method_not_allowed' })
}

const consoleMissing =
  'The console is not part of this installation, because it was not built. WebDAV, SFTP and the HTTP API work without it.'

/** Windows sends OPTIONS to the root to detect WebDAV before it opens a folder below it (nextcloud/server#2979). */
function answerRootOptions(response: ServerResponse): void {
  response.writeHead(200, { ...davClasses, Allow: 'OPTIONS, GET, HEAD, POST', 'Content-Length': 0 }).end()
}
