/**
 * A double of AliyundriveOpen, after the published API: tokens that expire and rotate, three drives whose entries have
 * ids and need not have different names, rapid uploads with a proof, parts in order to signed URLs, and download URLs
 * that any client can use. It refuses what the service refuses.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { sendJson } from '../drivers/lib/cloud/vendor.js'
import { serveVendorHosts } from '../servers/vendor-hosts.js'
import { calls, Fields, type CallKind } from './aliyundrive/calls.js'
import { AliyunDrives, AliyunError } from './aliyundrive/drives.js'
import { dataHost, refuse, SignedUrls } from './aliyundrive/object-store.js'
import { AliyunTokens, tokenOf } from './aliyundrive/tokens.js'
import { AliyunUploads, invalid } from './aliyundrive/uploads.js'
import { sendContent } from './content-answer.js'
import { Contents } from './contents.js'
import { bodyOf, Requests } from './requests.js'

export { proofOffset } from './aliyundrive/uploads.js'

interface AliyundriveOptions {
  /** Milliseconds for which listings do not show a change; default: 0. */
  readonly lag?: number
  /** A rapid upload shows its file at once; otherwise when it is completed. Default: at once. */
  readonly showsRapidUploads?: boolean
  /** Requests of each kind that are answered in any second; further ones are refused. Default: any number. */
  readonly limits?: Readonly<Record<CallKind, number>>
}

/** Limits that the service documents. */
export const documentedLimits = { list: 4, link: 1, other: 15 } as const

/** An application that is registered with the service. */
export const client = { id: 'client-id-of-the-app', secret: 'client-secret-of-the-app' } as const

type Answerer = (request: IncomingMessage, response: ServerResponse, url: URL) => Promise<void> | void

export async function startAliyundrive(t: Test, options: AliyundriveOptions = {}) {
  const requests = new Requests()
  const contents = new Contents(t)
  const drives = new AliyunDrives(contents, options.lag ?? 0)
  const tokens = new AliyunTokens()
  const urls = new SignedUrls()
  const uploads = new AliyunUploads(drives, contents, urls, options.showsRapidUploads ?? true)
  const service = { drives, uploads, urls, tokens, contents, limiter: new Limiter(options.limits) }
  const served = (answer: Answerer): RequestListener =>
    requests.observed((request, response) => {
      const url = new URL(request.url ?? '/', `https://${request.headers.host ?? ''}`)
      void answer(request, response, url)
    })
  const api = served((request, response, url) => answerApi(request, response, url, service))
  const environment = await serveVendorHosts(t, {
    'openapi.alipan.com': api,
    'openapi.aliyundrive.com': api,
    [dataHost]: served((request, response, url) => answerData(request, response, url, service)),
    'api.nn.ci': served((request, response, url) => answerTokenService(request, response, url, tokens)),
    'api.oplist.org': served((request, response, url) => answerOnlineService(request, response, url, tokens)),
  })
  return {
    /** Environment variables by which a started daemon reaches the double. */
    environment,
    /** The log of all requests to all hosts, and faults to inject. */
    requests,
    /** The refresh token, and how tokens expire. */
    tokens,
    /** Direct access to files and folders by their ids. */
    drives,
    /** The URLs of parts and downloads, and how they expire. */
    urls,
    uploads,
    contents,
    /** A content that the service knows from then on, so that uploads of it need no bytes. */
    learn: (bytes: string | Buffer) => contents.add(bytes),
  }
}

interface Service {
  readonly drives: AliyunDrives
  readonly uploads: AliyunUploads
  readonly urls: SignedUrls
  readonly tokens: AliyunTokens
  readonly contents: Contents
  readonly limiter: Limiter
}

async function answerApi(
  request: IncomingMessage,
  response: ServerResponse,
  { pathname }: URL,
  service: Service,
): Promise<void> {
  const { tokens, limiter } = service
  await answering(request, response, async () => {
    const fields = await fieldsOf(request)
    if (pathname === '/oauth/access_token') {
      assertClient(fields)
      return refreshed(fields, tokens)
    }
    const call = Object.hasOwn(calls, pathname) ? calls[pathname] : undefined
    if (!call) throw new AliyunError(404, 'NotFound', 'No such call.')
    const { authorization } = request.headers
    const refusal = tokens.refusal(authorization)
    if (refusal) throw new AliyunError(refusal.status, refusal.code, refusal.message)
    limiter.count(call.kind ?? 'other')
    return call.answer({ ...service, fields, accessToken: tokenOf(authorization) ?? '' })
  })
}

/** Sends what `work` resolves to, or the error of the API that it rejects with. */
async function answering(
  request: IncomingMessage,
  response: ServerResponse,
  work: () => Promise<object>,
): Promise<void> {
  try {
    sendJson(response, await work())
  } catch (error) {
    // The connection was cut: there is nobody to answer.
    if (request.destroyed && !request.complete) return
    if (!(error instanceof AliyunError)) throw error
    const { status, code, message } = error
    sendJson(response, { code, message, requestId: 'request' }, status)
  }
}

async function fieldsOf(request: IncomingMessage): Promise<Fields> {
  const body = (await bodyOf(request)).toString()
  if (request.method !== 'POST') throw new AliyunError(405, 'MethodNotAllowed', 'Use POST.')
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? '')) throw invalid('ContentType')
  try {
    return new Fields(JSON.parse(body) as Readonly<Record<string, unknown>>)
  } catch {
    throw invalid('Body')
  }
}

/** The token service of the vendor is for applications with a secret. */
function assertClient(fields: Fields): void {
  if (fields.text('client_id') !== client.id) throw new AliyunError(400, 'InvalidClientId', 'The client is unknown.')
  if (fields.text('client_secret') !== client.secret) {
    throw new AliyunError(400, 'InvalidClientSecret', 'The client secret is wrong.')
  }
}

/** The token service of others, for those who have no application of their own: as the vendor's, without a client. */
async function answerTokenService(
  request: IncomingMessage,
  response: ServerResponse,
  { pathname }: URL,
  tokens: AliyunTokens,
): Promise<void> {
  await answering(request, response, async () => {
    if (pathname !== '/alist/ali_open/token') throw new AliyunError(404, 'NotFound', 'No such page.')
    return refreshed(await fieldsOf(request), tokens)
  })
}

function refreshed(fields: Fields, tokens: AliyunTokens): object {
  fields.choice('grant_type', ['refresh_token'])
  const pair = tokens.refresh(fields.text('refresh_token'))
  if (!pair) throw invalid('RefreshToken')
  return { token_type: 'Bearer', ...pair, expires_in: 7200 }
}

/** The newer token service of others. */
function answerOnlineService(
  { method }: IncomingMessage,
  response: ServerResponse,
  { pathname, searchParams: query }: URL,
  tokens: AliyunTokens,
): void {
  if (method !== 'GET' || pathname !== '/alicloud/renewapi') {
    response.writeHead(404, { 'content-type': 'text/html' }).end('<html>Not Found</html>')
    return
  }
  const isComplete =
    query.get('server_use') === 'true' && ['alicloud_qr', 'alicloud_tv'].includes(query.get('driver_txt') ?? '')
  const pair = isComplete ? tokens.refresh(query.get('refresh_ui')) : undefined
  sendJson(response, pair ?? { text: isComplete ? 'refresh token is invalid' : 'missing parameters' })
}

/** Parts that are sent, and contents that are requested. */
async function answerData(
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
  { drives, uploads, urls, contents }: Service,
): Promise<void> {
  if (request.method === 'PUT') return uploads.receive(request, response, url)
  const refusal = urls.refusal(request, url)
  if (refusal !== undefined) return refuse(request, response, refusal)
  const [, form = '', fileId = ''] = url.pathname.split('/')
  const content = drives.contentOf(fileId)
  if (!content) return refuse(request, response, 'NoSuchKey')
  const sent = form === 'file' ? content : await contents.add(`${form} of ${content.sha1}`)
  await sendContent(request, response, contents, sent)
}

/** Refuses requests of a kind when there are too many in a second. */
class Limiter {
  readonly #times: Record<CallKind, number[]> = { list: [], link: [], other: [] }

  constructor(private readonly limits: Readonly<Record<CallKind, number>> | undefined) {}

  count(kind: CallKind): void {
    const now = performance.now()
    const recent = this.#times[kind].filter((time) => time > now - 1000)
    this.#times[kind] = [...recent, now]
    if (recent.length < (this.limits?.[kind] ?? Number.POSITIVE_INFINITY)) return
    throw new AliyunError(429, 'TooManyRequests', 'Too many requests.')
  }
}
