/**
 * Download links of 115. A link may be good for the User-Agent that it was requested for only, and may demand a cookie that
 * the server has set with it. It never gets the cookie of the account.
 */
import { Readable } from 'node:stream'
import type { ByteRange } from '../../src/contract/call-options.js'
import type { DirectUrl } from '../../src/contract/capabilities.js'
import { GatewayError } from '../../src/contract/errors.js'
import { Cookies } from '../lib/api/cookies.js'
import { field, numberOf, textOf } from '../lib/api/lenient.js'
import { drain, type HttpClient } from '../lib/http-client.js'
import { contentOf, contentRequest, rangeHeader } from '../lib/http-content.js'
import { networkError } from '../lib/network-errors.js'
import { ResponseBodies } from '../lib/response-bodies.js'
import { credentialNames } from './account-cookies.js'
import { protocolViolation } from './errors.js'

export interface Link {
  readonly url: URL
  /** Bytes; undefined if the server does not say. */
  readonly size: number | undefined
  /** Whether it is good for one User-Agent only. */
  readonly isBoundToAgent: boolean
  /** Cookie that requests have to carry; undefined: none. */
  readonly cookie: string | undefined
  readonly until: Date | undefined
}

/** The values of the query parameter `f`: what a link is bound to. */
const [boundToAgent, boundToCookie] = ['1', '3']
const downloadServer = '115 download server'

/**
 * The link in an answer. `setCookie`: the header `Set-Cookie` of that answer. Undefined for an empty file without a link.
 * Throws `unavailable` if there is no valid link.
 */
export function linkOf(file: unknown, setCookie: readonly string[] | undefined): Link | undefined {
  const reported = numberOf(field(file, 'file_size')) ?? numberOf(field(file, 'fs'))
  const size = reported !== undefined && reported >= 0 ? reported : undefined
  const address = textOf(field(file, 'url', 'url')) || textOf(field(file, 'url'))
  if (address === '' && size === 0) return undefined
  if (!URL.canParse(address)) throw protocolViolation('sent no download link')
  const url = new URL(address)
  if (!['http:', 'https:'].includes(url.protocol) || url.username !== '' || url.password !== '') {
    throw protocolViolation('sent a download link that is not supported')
  }
  const binding = url.searchParams.get('f') ?? ''
  const expires = numberOf(url.searchParams.get('t'))
  return {
    url,
    size,
    isBoundToAgent: binding === boundToAgent || binding === boundToCookie,
    cookie: binding === boundToCookie ? cookieOf(setCookie) : undefined,
    until: expires === undefined ? undefined : new Date(expires * 1000),
  }
}

/** A link as a direct URL. `ownAgent`: the User-Agent that it was requested for, if it is not that of a client. */
export function directUrlOf({ url, until, cookie, isBoundToAgent }: Link, ownAgent: string | undefined): DirectUrl {
  const headers = {
    ...(ownAgent !== undefined && isBoundToAgent && { 'user-agent': ownAgent }),
    ...(cookie !== undefined && { cookie }),
  }
  const hasHeaders = Object.keys(headers).length > 0
  return { url: url.href, ...(hasHeaders && { headers }), ...(until && { until }) }
}

/** The cookies that an answer sets, except those of the account. */
function cookieOf(setCookie: readonly string[] = []): string | undefined {
  const pairs = setCookie.map((header) => header.split(';', 1)[0] ?? '')
  const foreign = pairs.filter((pair) => !credentialNames.includes(pair.split('=', 1)[0]?.trim().toUpperCase() ?? ''))
  const text = Cookies.parse(foreign.join(';')).header()
  return text === '' ? undefined : text
}

/** Downloads of a storage. */
export class Downloads115 {
  readonly #bodies = new ResponseBodies(downloadServer, (error) => networkError(error, downloadServer))

  constructor(
    private readonly http: HttpClient,
    /** That of the requests for links, and of downloads. */
    private readonly userAgent: string,
  ) {}

  /** The requested range of the file with this link. Undefined: an empty file. Rejects with `not_found`. */
  async read(link: Link | undefined, range: ByteRange | undefined, signal: AbortSignal | undefined): Promise<Readable> {
    const request = contentRequest(range, link ? link.size : 0, signal)
    if (!link || !request) return Readable.from([], { objectMode: false })
    const wanted = rangeHeader(request)
    const headers = {
      'user-agent': this.userAgent,
      ...(wanted !== undefined && { range: wanted }),
      ...(link.cookie !== undefined && { cookie: link.cookie }),
    }
    const response = await this.http.request({ method: 'GET', url: link.url, headers, signal })
    const { status } = response
    if (status === 200 || status === 206) return contentOf(response, request, this.#bodies, downloadServer)
    await drain(response.body)
    if (status === 416) return Readable.from([], { objectMode: false })
    if (status === 404 || status === 410) throw new GatewayError('not_found')
    throw new GatewayError('unavailable', { reason: `the ${downloadServer} answers with status ${status}` })
  }

  close(): void {
    this.#bodies.close()
  }
}
