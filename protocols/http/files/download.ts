/**
 * Downloads below /d and /p. They are authorized by the signature in the URL, not by a session. One of the console lets
 * /p show files that the storage would not have sent through this server. Those of shares are in `share-download.ts`.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import { toGatewayError } from '../../../src/base/errors.js'
import { resolvePath, root } from '../../../src/base/path.js'
import { requestDetails } from '../../lib/request-target.js'
import { noteCaller } from '../../lib/callers.js'
import { urlClientOf } from '../../lib/client.js'
import { sendFile, type RequestedRoute, type RedirectRoute } from '../../lib/send.js'
import { isOfConsole } from '../api/authenticate.js'
import type { HttpApi } from '../api/http-api.js'
import { passwordHeaders } from '../api/access-options.js'
import { logUnexpected, toErrorResponse, withResponses } from '../api/errors.js'
import { parseQuery } from '../api/fields.js'
import { absoluteUrl } from '../compat/object.js'
import { sendErrorPage } from '../site/pages.js'
import type { EndpointDescription, PlainResponse } from '../api/endpoint.js'
import { splitDownloadUrl } from './download-url.js'
import { downloadShared } from './share-download.js'
import { isShareUpload, uploadShared } from './share-upload.js'
import { isShareUrl } from './share-url.js'
import { asksForThumbnail, sendThumbnail, thumbnailQuery } from './thumbnail.js'

const redirectHeaders = {
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'max-age=0, no-cache, no-store, must-revalidate',
}

/** Whether the URL is that of a download: `/d/…`, `/p/…` or `/sd/…`. */
export function isDownload(url: string): boolean {
  return url.startsWith('/d/') || url.startsWith('/p/') || isShareUrl(url)
}

/**
 * Responds to GET and HEAD of a download, and to uploads to shares. Never rejects. Errors are HTML pages with the
 * matching status code.
 */
export async function serveDownload(api: HttpApi, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const isOfShare = isShareUrl(request.url ?? '/')
    if (isOfShare && isShareUpload(request)) {
      await uploadShared(api, request, response)
      return
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.writeHead(405, { Allow: isOfShare ? 'GET, HEAD, PUT, POST' : 'GET, HEAD', 'Content-Length': 0 }).end()
      return
    }
    await (isOfShare ? downloadShared : download)(api, request, response)
  } catch (error) {
    const { gateway } = api
    const failure = toGatewayError(error)
    logUnexpected(gateway.log, error, { protocol: api.protocol.name, ...requestDetails(request) })
    if (response.headersSent) gateway.log.debug({ code: failure.code }, 'download aborted')
    if (response.headersSent || response.destroyed) return
    const { status, message, retryAfter } = toErrorResponse(error)
    if (retryAfter !== undefined) response.setHeader('Retry-After', Math.ceil(retryAfter))
    const linkFails = { title: gateway.settings.get('site_title'), meaning: 'This link is not valid, or has expired.' }
    sendErrorPage(response, status, api.masks.apply(message), status === 401 ? linkFails : undefined)
  }
}

async function download(api: HttpApi, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { rest, query: text } = splitDownloadUrl(request.url ?? '/', '/d'.length)
  const path = resolvePath(root, rest)
  const query = parseQuery(text)
  // Some clients append a slash to the signature, which AList accepts too (server/middlewares/down.go).
  const signature = query.get('sign')?.replace(/\/$/, '')
  const { address } = api.clientOf(request)
  const principal = await api.gateway.signedUrls.authorize(path, signature, api.protocol, address)
  const { userId, username } = principal
  noteCaller(request, { protocol: api.protocol.name, user: { id: userId, name: username }, address })
  const fs = api.gateway.as(principal)
  // The file is invalid, not the request: 500 instead of 400.
  const answers = { invalid: { code: 500, status: 500 } } as const
  const thumbnail = () => sendThumbnail(api, request, response, { fs, path, query })
  if (asksForThumbnail(query) && (await withResponses(answers, thumbnail))) return
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

async function routeOf(api: HttpApi, request: IncomingMessage): Promise<RequestedRoute> {
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

const page = ['text/html']
const responses: readonly PlainResponse[] = [
  { status: 200, description: 'The content of the file.', types: ['*/*'] },
  { status: 206, description: 'The ranges that the `Range` header requests.', types: ['*/*'] },
  { status: 302, description: 'Redirects to the direct URL of the file, or to the `down_proxy_url` of the storage.' },
  { status: 304, description: 'The copy of the client is current, according to the conditional headers.' },
  { status: 400, description: 'The path is malformed or that of a folder.', types: page },
  { status: 401, description: 'The signature is missing, wrong or expired.', types: page },
  { status: 403, description: 'A folder rule denies access, or the path contains `..`.', types: page },
  { status: 404, description: 'There is no such file.', types: page },
  { status: 412, description: 'A precondition of the request failed.' },
  { status: 416, description: 'The range is outside of the file.' },
  { status: 500, description: 'Unexpected error; the log of the server has details.', types: page },
  { status: 501, description: 'The storage does not support the operation.', types: page },
  { status: 502, description: 'The storage failed.', types: page },
  { status: 503, description: 'The storage is busy.', types: page },
  { status: 504, description: 'The storage timed out.', types: page },
]

const shared = {
  method: 'get',
  tag: 'Downloads',
  access: 'anybody',
  params: z.object({
    path: z
      .string()
      .meta({ example: 'folder/file.txt' })
      .describe('The absolute path of the file, with each segment percent-encoded and slashes unencoded.'),
  }),
  query: z.object({
    sign: z.string().optional().describe('The signature: the field `sign` of the file. Not needed if that is empty.'),
    ...thumbnailQuery,
    d: z.string().optional().describe('If present, with any value, the `down_proxy_url` of the storage is not used.'),
  }),
} as const

const codeHeader = z.object({ password: passwordHeaders.password.describe('The code of the share.') })

const shareDownload = {
  method: 'get',
  tag: 'Shares',
  access: 'anybody',
  description:
    'HEAD is supported. The first request sets a cookie, which later requests of the visit send; those of a client ' +
    'without cookies are known by its address and user agent.',
  query: z.object({
    pwd: z
      .string()
      .optional()
      .describe('The code of the share, if it has one. Default: the header `Password`, which no log has.'),
    ...thumbnailQuery,
  }),
  headers: codeHeader,
  plain: [
    ...responses.filter(({ status }) => status < 400 || status === 412 || status === 416 || status >= 500),
    { status: 400, description: 'The path is malformed.', types: page },
    { status: 403, description: 'The code of the share is missing or wrong.', types: page },
    { status: 404, description: 'There is no such share, or no such file in it.', types: page },
    { status: 410, description: 'The share has expired or is no longer valid.', types: page },
    { status: 429, description: 'The network of the client has sent too many wrong codes.', types: page },
  ].sort((one, other) => one.status - other.status),
} as const
/** Like `shareDownload`, for uploads. */
const toShare = {
  tag: 'Shares',
  access: 'anybody',
  query: z.object({ pwd: z.string().optional().describe('The code of the share. Default: the header `Password`.') }),
  headers: codeHeader,
  plain: [
    { status: 200, description: 'The file is replaced. The body is its name.', types: ['text/plain'] },
    { status: 201, description: 'The files are stored. The body is their names, in lines.', types: ['text/plain'] },
    { status: 400, description: 'The URL, the name or the form is malformed.', types: page },
    { status: 403, description: 'The code is missing or wrong, or visitors may store nothing here.', types: page },
    { status: 404, description: 'There is no such share.', types: page },
    { status: 410, description: 'The share has expired or is no longer valid.', types: page },
    { status: 412, description: 'A precondition of the request failed.', types: page },
    { status: 413, description: 'The form has more than 1,000 parts.', types: page },
    { status: 429, description: 'The network of the client has sent too many wrong codes.', types: page },
    { status: 500, description: 'Unexpected error; the log of the server has details.', types: page },
    { status: 502, description: 'The storage failed.', types: page },
    { status: 503, description: 'The storage is busy.', types: page },
    { status: 507, description: 'The limits of the share, or the space of the storage, are used up.', types: page },
  ],
} as const
const shareId = z.string().meta({ example: 'aB3dE6gH' }).describe('The id of the share.')

/** For the OpenAPI document: requests to these paths bypass the router. */
export const downloadDescriptions: readonly EndpointDescription[] = [
  {
    ...shareDownload,
    path: '/sd/{id}',
    summary: 'Download the file of a share of one file',
    params: z.object({ id: shareId }),
  },
  {
    ...shareDownload,
    path: '/sd/{id}/{path}',
    summary: 'Download a file in a share',
    params: z.object({
      id: shareId,
      path: z.string().meta({ example: 'file.txt' }).describe('The path of the file in the share, percent-encoded.'),
    }),
  },
  {
    ...toShare,
    method: 'put',
    path: '/sd/{id}/{path}',
    operation: 'sd_id_put',
    summary: 'Upload a file to a share',
    description:
      'In a share to upload to only, the path is a name, and a name that exists becomes `name (1)`, `name (2)` …. In one ' +
      'to read too, a file of this path is replaced, and missing folders are made.',
    params: z.object({
      id: shareId,
      path: z.string().meta({ example: 'file.txt' }).describe('The path of the file in the share, percent-encoded.'),
    }),
    content: { type: 'application/octet-stream', description: 'The content of the file, of any type.' },
  },
  {
    ...toShare,
    method: 'post',
    path: '/sd/{id}',
    operation: 'sd_id_post',
    summary: 'Upload the files of a form to a share',
    description: 'Each part `file` is stored by its name, one after another.',
    params: z.object({ id: shareId }),
    content: { type: 'multipart/form-data', description: 'A form (RFC 7578).', part: 'file' },
  },
  {
    ...shared,
    path: '/d/{path}',
    summary: 'Download a file, from the backend if it has a direct URL',
    description: 'HEAD is supported.',
    plain: responses,
  },
  {
    ...shared,
    path: '/p/{path}',
    summary: 'Download a file through this server',
    description:
      'HEAD is supported. With the cookie of a console session, never redirects and sends any file that the signature permits.',
    plain: responses,
  },
]
