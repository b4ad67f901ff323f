/** Links to files: /d and /p. A signature in the link, not a signed-in user, says what may be read. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { GatewayError, toGatewayError } from '../../src/errors.js'
import { nameOf, resolvePath, root, type Path } from '../../src/path.js'
import { sendFile } from '../lib/send.js'
import type { Door } from './context.js'
import { isUnforeseen, wireAnswer, WireError } from './errors.js'
import { extensionOf, extensionsOf } from './file-types.js'
import { sendErrorPage } from './pages.js'

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
    sendErrorPage(response, status, message)
  }
}

async function download(door: Door, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { links, settings } = door.gateway
  const { path, query } = readLink(request.url ?? '/')
  // Clients put the signature into the query as it is, some with a slash behind.
  const signature = query === '' ? undefined : new URLSearchParams(query).get('sign')?.replace(/\/$/, '')
  const fs = door.gateway.as(await links.open(path, signature))
  const direct = await fs.link(path)
  if (direct !== undefined) {
    const extension = extensionOf(nameOf(path))
    const listed = (key: string): boolean => extensionsOf(settings.get(key)).includes(extension)
    const wantsProxy = request.url?.startsWith('/p/') === true
    if (!listed('proxy_types')) {
      if (!wantsProxy) {
        response.writeHead(302, { ...redirectHeaders, Location: direct.url, 'Content-Length': 0 }).end()
        return
      }
      if (!listed('text_types')) throw new WireError(403, 'proxy not allowed')
    }
  }
  await sendFile(request, response, { fs, path })
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
