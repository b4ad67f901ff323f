/** The sign-in to Quark by a QR code, which the app of Quark scans. It gives the cookie of the account. */
import { randomUUID } from 'node:crypto'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { QrAnswer, QrCode } from '../../src/contract/driver-type.js'
import { GatewayError } from '../../src/base/errors.js'
import { Cookies } from '../lib/cloud/cookies.js'
import { drain, HttpClient } from '../lib/http/http-client.js'
import { ApiClient } from '../lib/json-api/api-client.js'
import { field, numberOf, textOf } from '../lib/json-api/lenient.js'
import { RateGate } from '../lib/json-api/rate-gate.js'
import { quark } from './vendor.js'

/** The service that has the codes. */
const codes = new URL('https://uop.quark.cn/cas/ajax/')
/** How the web site names itself there. */
const client = { client_id: '532', v: '1.2' }
/** What the picture says, beside the token of the code: a page that the app opens. */
const scannedPage = 'https://su.quark.cn/4_eMHBJ'
const scannedQuery = {
  ssb: 'weblogin',
  uc_param_str: '',
  uc_biz_str: 'S:custom|OPT:SAREA@0|OPT:IMMERSIVE@1|OPT:BACK_BTN_STYLE@0',
}
/** The states of answers. */
const [done, waiting] = [2_000_000, 50_004_001]
const expired: readonly number[] = [50_004_002, 50_004_003, 50_004_004]
/** The cookie that every signed-in browser has. */
const sessionCookie = '__pus'
const maxRedirects = 5

export async function beginQrSignIn(env: DriverEnv): Promise<QrCode> {
  return connected(env, async (api) => {
    const { status, members } = await asked(api, 'getTokenForQrcodeLogin', {}, env.signal)
    const token = textOf(field(members, 'token'))
    if (status !== done || token === '') throw unexpected(status)
    const text = new URL(scannedPage)
    const query = { token, client_id: client.client_id, ...scannedQuery }
    for (const [name, value] of Object.entries(query)) text.searchParams.set(name, value)
    return { text: text.href, ticket: token }
  })
}

export async function askQrSignIn(token: string, env: DriverEnv): Promise<QrAnswer> {
  return connected(env, async (api) => {
    const { status, members } = await asked(api, 'getServiceTicketByQrcodeToken', { token }, env.signal)
    if (status === waiting) return { state: 'waiting' }
    if (expired.includes(status)) return { state: 'expired' }
    const ticket = textOf(field(members, 'service_ticket'))
    if (status !== done || ticket === '') throw unexpected(status)
    return { state: 'confirmed', values: { cookie: await cookieFor(api.http, ticket, env.signal) } }
  })
}

interface CodeAnswer {
  readonly status: number
  readonly members: unknown
}

async function asked(
  api: ApiClient,
  call: string,
  query: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<CodeAnswer> {
  const url = new URL(call, codes)
  const all = { ...client, ...query, request_id: randomUUID() }
  for (const [name, value] of Object.entries(all)) url.searchParams.set(name, value)
  const { data } = await api.call({ url, headers: headers(), signal })
  return { status: numberOf(field(data, 'status')) ?? 0, members: field(data, 'data', 'members') }
}

/** The cookie that the web site gives for the ticket, on any of the pages to which it leads. */
async function cookieFor(http: HttpClient, ticket: string, signal: AbortSignal): Promise<string> {
  let url = new URL('/account/info', quark.referer)
  url.searchParams.set('st', ticket)
  url.searchParams.set('lw', 'scan')
  let cookies = Cookies.parse('')
  for (let redirects = 0; redirects <= maxRedirects; redirects++) {
    const sent = cookies.header()
    const response = await http.request({
      method: 'GET',
      url,
      headers: { ...headers(), ...(sent !== '' && { cookie: sent }) },
      follow: false,
      signal,
    })
    await drain(response.body)
    const set = response.headers['set-cookie'] ?? []
    const names = set.flatMap((each) => /^\s*([^=;\s]+)=/.exec(each)?.[1] ?? [])
    cookies = cookies.after(set, names) ?? cookies
    const { location } = response.headers
    if (location === undefined || !URL.canParse(location, url.href)) break
    url = new URL(location, url)
    if (!http.isOwnOrigin(url)) break
  }
  if ((cookies.get(sessionCookie) ?? '') === '') {
    throw new GatewayError('unavailable', { reason: `the ${quark.server} gave no cookie after the sign-in` })
  }
  return cookies.header()
}

async function connected<Result>(env: DriverEnv, work: (api: ApiClient) => Promise<Result>): Promise<Result> {
  const { server, domain } = quark
  const api = new ApiClient({
    server,
    http: new HttpClient({ server, address: codes, domains: [domain], verifiesCertificate: true, egress: env.egress }),
    gate: await RateGate.open({ server, scope: 'QR codes', state: env.state }),
    meaningOf: ({ status, data }) => {
      const isAnswer = numberOf(field(data, 'status')) !== undefined
      return isAnswer ? 'ok' : unexpected(status)
    },
  })
  try {
    return await work(api)
  } finally {
    await api.close()
  }
}

function headers(): Readonly<Record<string, string>> {
  const { referer, userAgent } = quark
  return { accept: 'application/json, text/plain, */*', referer: `${referer}/`, 'user-agent': userAgent }
}

function unexpected(status: number): GatewayError {
  return new GatewayError('unavailable', { reason: `the ${quark.server} refuses the sign-in (status ${status})` })
}
