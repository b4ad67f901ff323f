/**
 * A double of AliyundriveOpen, after the published API: tokens that expire and rotate, three drives whose entries have ids
 * and need not have different names, rapid uploads with a proof, parts in order to signed URLs, and download URLs that
 * any client can use. It refuses what the service refuses.
 */
import type { Test } from 'tap'
import { serveVendorHosts } from '../services/vendor-hosts.js'
import { calls, Fields, type CallKind } from './aliyundrive/calls.js'
import { AliyunDrives, AliyunError } from './aliyundrive/drives.js'
import { dataHost, refuse, SignedUrls } from './aliyundrive/object-store.js'
import { AliyunTokens, tokenOf } from './aliyundrive/tokens.js'
import { AliyunUploads, invalid } from './aliyundrive/uploads.js'
import { Contents } from './contents.js'
import { DoubleTraffic, rangeAnswer, type Exchange } from './exchange.js'

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

export async function startAliyundrive(t: Test, options: AliyundriveOptions = {}) {
  const contents = await Contents.open(t)
  const drives = new AliyunDrives(contents, options.lag ?? 0)
  const tokens = new AliyunTokens()
  const urls = new SignedUrls()
  const uploads = new AliyunUploads(drives, contents, urls, options.showsRapidUploads ?? true)
  const traffic = new DoubleTraffic()
  const limiter = new Limiter(options.limits)
  const api = traffic.listener((exchange) => answerApi(exchange, { drives, uploads, urls, tokens, limiter }))
  const environment = await serveVendorHosts(t, {
    'openapi.alipan.com': api,
    'openapi.aliyundrive.com': api,
    [dataHost]: traffic.listener((exchange) => answerData(exchange, { drives, uploads, urls })),
    'api.nn.ci': traffic.listener((exchange) => answerTokenService(exchange, tokens)),
    'api.oplist.org': traffic.listener((exchange) => answerOnlineService(exchange, tokens)),
  })
  return { environment, traffic, log: traffic.log, contents, drives, tokens, urls, uploads }
}

interface Service {
  readonly drives: AliyunDrives
  readonly uploads: AliyunUploads
  readonly urls: SignedUrls
  readonly tokens: AliyunTokens
  readonly limiter: Limiter
}

async function answerApi(exchange: Exchange, service: Service): Promise<void> {
  const { tokens, limiter } = service
  try {
    const fields = await fieldsOf(exchange)
    if (exchange.path === '/oauth/access_token') {
      await answerRefresh(exchange, fields, tokens)
      return
    }
    const call = Object.hasOwn(calls, exchange.path) ? calls[exchange.path] : undefined
    if (!call) throw new AliyunError(404, 'NotFound', 'No such call.')
    const authorization = exchange.header('authorization')
    const refusal = tokens.refusal(authorization)
    if (refusal) throw new AliyunError(refusal.status, refusal.code, refusal.message)
    limiter.count(call.kind ?? 'other')
    await exchange.answer(200, await call.answer({ ...service, fields, accessToken: tokenOf(authorization) ?? '' }))
  } catch (error) {
    if (!(error instanceof AliyunError)) throw error
    await exchange.answer(error.status, { code: error.code, message: error.message, requestId: 'request' })
  }
}

async function fieldsOf(exchange: Exchange): Promise<Fields> {
  if (exchange.logged.method !== 'POST') throw new AliyunError(405, 'MethodNotAllowed', 'Use POST.')
  if (!/^application\/json\b/.test(exchange.header('content-type') ?? '')) throw invalid('ContentType')
  try {
    return new Fields(JSON.parse(await exchange.text()) as Readonly<Record<string, unknown>>)
  } catch (error) {
    if (error instanceof SyntaxError) throw invalid('Body')
    throw error
  }
}

/** The token service of the vendor: for an application with a secret. */
async function answerRefresh(exchange: Exchange, fields: Fields, tokens: AliyunTokens): Promise<void> {
  if (fields.text('client_id') !== client.id) throw new AliyunError(400, 'InvalidClientId', 'The client is unknown.')
  if (fields.text('client_secret') !== client.secret) {
    throw new AliyunError(400, 'InvalidClientSecret', 'The client secret is wrong.')
  }
  await answerTokens(exchange, fields, tokens)
}

/** The token service of others, for those who have no application of their own: as the vendor's, without a client. */
async function answerTokenService(exchange: Exchange, tokens: AliyunTokens): Promise<void> {
  try {
    if (exchange.path !== '/alist/ali_open/token') throw new AliyunError(404, 'NotFound', 'No such page.')
    await answerTokens(exchange, await fieldsOf(exchange), tokens)
  } catch (error) {
    if (!(error instanceof AliyunError)) throw error
    await exchange.answer(error.status, { code: error.code, message: error.message })
  }
}

async function answerTokens(exchange: Exchange, fields: Fields, tokens: AliyunTokens): Promise<void> {
  fields.choice('grant_type', ['refresh_token'])
  const pair = tokens.refresh(fields.text('refresh_token'))
  if (!pair) throw invalid('RefreshToken')
  await exchange.answer(200, { token_type: 'Bearer', ...pair, expires_in: 7200 })
}

/** The newer token service of others. */
async function answerOnlineService(exchange: Exchange, tokens: AliyunTokens): Promise<void> {
  const { path, query, logged } = exchange
  if (logged.method !== 'GET' || path !== '/alicloud/renewapi') {
    await exchange.answer(404, '<html>Not Found</html>', { 'content-type': 'text/html' })
    return
  }
  const isComplete =
    query.get('server_use') === 'true' && ['alicloud_qr', 'alicloud_tv'].includes(query.get('driver_txt') ?? '')
  const pair = isComplete ? tokens.refresh(query.get('refresh_ui')) : undefined
  await exchange.answer(200, pair ?? { text: isComplete ? 'refresh token is invalid' : 'missing parameters' })
}

/** Parts that are sent, and contents that are requested. */
async function answerData(exchange: Exchange, service: Pick<Service, 'drives' | 'uploads' | 'urls'>): Promise<void> {
  const { drives, uploads, urls } = service
  if (exchange.logged.method === 'PUT') return uploads.receive(exchange)
  const refusal = urls.refusal(exchange)
  if (refusal !== undefined) return refuse(exchange, refusal)
  const [, form, fileId = ''] = exchange.path.split('/')
  const content = drives.contentOf(fileId)
  if (!content) return refuse(exchange, 'NoSuchKey')
  if (form !== 'file') return exchange.answer(200, `${form ?? ''} of ${content.digests.sha1}`)
  const answer = rangeAnswer(exchange.header('range'), content.size)
  if (!answer) return exchange.answer(416, '', { 'content-range': `bytes */${content.size}` })
  const pieces = exchange.logged.method === 'HEAD' ? [] : content.read(answer.start, answer.end)
  return exchange.answerBytes(answer.status, pieces, answer.headers)
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
