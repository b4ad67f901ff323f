/** Links to files: /d and /p. A signature in the link, not a signed-in user, says what may be read. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { GatewayError, toGatewayError } from '../../src/errors.js'
import { resolvePath, root, type Path } from '../../src/path.js'
import { sendFile } from '../lib/send.js'
import type { Door } from './context.js'
import { isUnforeseen, wireAnswer } from './errors.js'
import { absoluteUrl } from './object.js'
import { sendErrorPage } from './pages.js'
import { answerThumbnail } from './thumbnail.js'

const redirectHeaders = {
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'max-age=0, no-cache, no-store, must-revalidate',
}

/** Whether this is a link to a file: `/d/…` or `/p/…`. */
export function isDownload(url: string): boolean {
  return url.startsWith('/d/') || url.startsWith('/p/')
}

/** Answers GET and HEAD of a link; never rejects. Failures are small HTML pages with their real status. */
export async function answerDownload(door: Door, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.writeHead(405, { Allow: 'GET, HEAD', 'Content-Length': 0 }).end()
      return
    }
    await download(door, request, response)
  } catch (error) {
    const { gateway } = door
    const known = toGatewayError(error)
    if (isUnforeseen(error)) gateway.log.error({ err: error, method: request.method }, 'a download failed')
    else if (response.headersSent) gateway.log.debug({ code: known.code }, 'a download was cut short')
    if (response.headersSent || response.destroyed) return
    const { status, message, retryAfter } = wireAnswer(error)
    if (retryAfter !== undefined) response.setHeader('Retry-After', Math.ceil(retryAfter))
    sendErrorPage(response, status, door.masks.apply(message))
  }
}

async function download(door: Door, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { path, query: text } = readLink(request.url ?? '/')
  const query = new URLSearchParams(text)
  // Clients put the signature into the query as it is, some with a slash behind.
  const signature = query.get('sign')?.replace(/\/$/, '')
  const fs = door.gateway.as(await door.gateway.links.open(path, signature))
  if (query.get('type') === 'thumb' && (await answerThumbnail(door, request, response, fs, path))) return
  const route = request.url?.startsWith('/p/') === true ? 'p' : 'd'
  const delivery = await fs.delivery(path, { route, withoutProxy: query.has('d') })
  if (delivery.kind === 'stream') {
    await sendFile(request, response, { fs, path })
    return
  }
  const url = delivery.kind === 'direct' ? withParameters(door, delivery.url, query) : delivery.url
  const location = absoluteUrl(door.clientOf(request).baseUrl, url)
  response.writeHead(302, { ...redirectHeaders, Location: location, 'Content-Length': 0 }).end()
}

/** Where the settings say so, what the query of a link holds goes along to the backend, sorted by name. */
function withParameters({ gateway: { settings } }: Door, url: string, query: URLSearchParams): string {
  if (!settings.bool('forward_direct_link_params')) return url
  const forwarded = new URLSearchParams(query)
  for (const name of settings.get('ignore_direct_link_params').split(',')) forwarded.delete(name.trim())
  if (forwarded.size === 0) return url
  forwarded.sort()
  return `${url}${url.includes('?') ? '&' : '?'}${forwarded.toString()}`
}

/** The path that a link names, percent-escapes decoded and dots resolved, and its query. */
function readLink(url: string): { path: Path; query: string } {
  const mark = url.indexOf('?')
  const encoded = url.slice(2, mark < 0 ? undefined : mark)
  let text: string
  try {
    text = decodeURIComponent(encoded)
  } catch {
    throw new GatewayError('invalid', { reason: 'the link holds a bad percent-escape' })
  }
  return { path: resolvePath(root, text.replaceAll('\\', '/')), query: mark < 0 ? '' : url.slice(mark + 1) }
}
