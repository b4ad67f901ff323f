/**
 * The HTTP door: the JSON API, links to files, and a page for whoever comes with a browser. Links are answered before koa:
 * they are the ones asked for thousands of times a second (docs/decisions/0004).
 */
import Router from '@koa/router'
import Koa from 'koa'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Gateway } from '../../src/gateway.js'
import { sitePath, type ClientOptions } from '../lib/client.js'
import { answerCors } from '../lib/cors.js'
import { davClasses } from '../lib/dav-classes.js'
import type { RequestHandler } from '../lib/handler.js'
import { Door, type Context, type Routes, type State } from './context.js'
import { answerDownload, isDownload } from './download.js'
import { endpoints } from './endpoints.js'
import { envelopes } from './envelope.js'
import { WireError } from './errors.js'
import { sendErrorPage, sendPage, welcomePage } from './pages.js'
import { register } from './register.js'
import type { WebClient } from './site/web-client.js'

/**
 * Answers every request but those of other doors. `clients` says where clients reach this server and which proxies are
 * believed; `web` are the pages for browsers, where an admin brought some.
 */
export function httpDoor(gateway: Gateway, clients: ClientOptions, web?: WebClient): RequestHandler {
  const door = new Door(gateway, clients)
  const api = apiHandler(door, web)
  const site = sitePath(clients.siteUrl)
  const { cors_origins: origins } = gateway.config
  return (request, response) => {
    if (answerCors(request, response, origins, 'any')) return
    const url = belowSite(request.url ?? '/', site)
    if (url === undefined) {
      answerOutside(request, response, site)
      return
    }
    request.url = url
    if (isDownload(url)) void answerDownload(door, request, response)
    else if (web?.servesFile(url) === true) void web.answerFile(request, response)
    else api(request, response)
  }
}

/** The target below the path of the site; undefined for one beside it. A proxy may send the absolute form (RFC 9112 §3.2.2). */
function belowSite(target: string, site: string): string | undefined {
  const url = target.startsWith('/') ? target : target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '')
  if (!url.startsWith(site)) return undefined
  const below = url.slice(site.length)
  if (below.startsWith('/')) return below
  return below === '' || below.startsWith('?') ? `/${below}` : undefined
}

function answerOutside(request: IncomingMessage, response: ServerResponse, site: string): void {
  if (request.url === '/') response.writeHead(302, { Location: `${site}/`, 'Content-Length': 0 }).end()
  else sendErrorPage(response, 404, 'There is nothing here.')
}

/** Everything that is answered by path, the links to files aside. */
export function apiRoutes(door: Door): Routes {
  const routes: Routes = new Router<State>({ strict: true, sensitive: true })
  register(routes, door, endpoints)
  return routes
}

function apiHandler(door: Door, web: WebClient | undefined): RequestHandler {
  const app = new Koa()
  // What routes throw is told elsewhere; here are broken connections, whose errors carry the bytes of the request along.
  app.on('error', (error: NodeJS.ErrnoException) => {
    door.gateway.log.debug({ code: error.code }, 'a connection failed')
  })
  app.use(envelopes(door))
  app.use(apiRoutes(door).routes())
  app.use((ctx) => answerUnknown(door, web, ctx as unknown as Context))
  const handle = app.callback()
  return (request: IncomingMessage, response: ServerResponse) => void handle(request, response)
}

/** What no route answers: the API says so in its envelope, browsers get a page, other methods 405. */
async function answerUnknown(door: Door, web: WebClient | undefined, ctx: Context): Promise<void> {
  const isPageMethod = ['GET', 'HEAD', 'POST'].includes(ctx.method)
  if (isPageMethod && ctx.path.startsWith('/api/')) throw new WireError(404, 'no such endpoint')
  ctx.respond = false
  // An endpoint of the API has its own methods, of which nothing is known here.
  const allow = ctx.path.startsWith('/api/') ? {} : { Allow: 'GET, HEAD, POST' }
  if (ctx.method === 'OPTIONS' && ctx.path === '/') answerRootOptions(ctx.res)
  else if (!isPageMethod) ctx.res.writeHead(405, { ...allow, 'Content-Length': 0 }).end()
  else if (web !== undefined) await web.answerPage(ctx.req, ctx.res, door.gateway.settings)
  else if (ctx.path === '/') sendPage(ctx.res, 200, welcomePage(door.gateway, door.clientOf(ctx.req)))
  else sendErrorPage(ctx.res, 404, 'There is nothing here.')
}

/** Windows asks the root whether this server speaks WebDAV before it asks for a folder below it. */
function answerRootOptions(response: ServerResponse): void {
  response.writeHead(200, { ...davClasses, Allow: 'OPTIONS, GET, HEAD, POST', 'Content-Length': 0 }).end()
}
