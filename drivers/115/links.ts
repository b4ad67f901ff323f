/**
 * Downloads from 115. The link of a file may be good for the User-Agent that it was requested for only, and may demand
 * a cookie that the server has set with it. It never gets the cookie of the account.
 */
import { Readable } from 'node:stream'
import type { ByteRange, ReadOptions } from '../../src/contract/call-options.js'
import type { DirectUrl } from '../../src/contract/capabilities.js'
import { GatewayError } from '../../src/base/errors.js'
import { Cookies } from '../lib/cloud/cookies.js'
import { field, numberOf, textOf } from '../lib/json-api/lenient.js'
import { LinkCache, maxLinkLifetime } from '../lib/cloud/link-cache.js'
import { drain, type HttpClient } from '../lib/http/http-client.js'
import { contentOf, contentRequest, rangeHeader } from '../lib/http/http-content.js'
import { networkError } from '../lib/network-errors.js'
import { ResponseBodies } from '../lib/http/response-bodies.js'
import { credentialNames } from './account-cookies.js'
import { protocolViolation } from './errors.js'

export interface Link {
  readonly url: URL
  /** Bytes; undefined if the server does not say. */
  readonly size: number | undefined
  /** Maximum concurrent requests of the link; 0: any number. */
  readonly maxOpen: number
  /** Whether it is good for one User-Agent only, or may be. */
  readonly isBoundToAgent: boolean
  /** Whether requests have to carry a cookie. */
  readonly demandsCookie: boolean
  /** The cookie that requests must carry; undefined if the server has set none. */
  readonly cookie: string | undefined
  readonly until: Date | undefined
}

/** The request for the link of a file. */
export interface LinkRequest {
  /** The key by which the server knows the file. */
  readonly key: string
  /**
   * Requests a link for a client with this User-Agent. Resolves as `linkOf`; rejects with `not_found`. It serves
   * several readers, so no signal aborts it.
   */
  readonly request: (userAgent: string) => Promise<Link | undefined>
}

/** Values of the query parameter `f` of a link: it is bound to nothing, or to a cookie and the User-Agent. */
const [unbound, boundToCookie] = ['', '3']
/** Statuses of the download server by which it refuses a link. */
const refusals = [401, 403, 404, 410]
const downloadServer = '115 download server'

/** Returns the link, as `linkOf` does, from an answer about one file that has the link by the id of the file. */
export function linkById(files: unknown, setCookie: readonly string[] | undefined): Link | undefined {
  const found: readonly unknown[] = typeof files === 'object' && files !== null ? Object.values(files) : []
  return linkOf(found[0], setCookie)
}

/**
 * The link in an answer. `setCookie`: the header `Set-Cookie` of that answer. Undefined for an empty file without a
 * link. Throws `unavailable` if there is no valid link.
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
  const binding = url.searchParams.get('f')
  const expires = numberOf(url.searchParams.get('t'))
  return {
    url,
    size,
    maxOpen: numberOf(url.searchParams.get('c')) ?? 0,
    isBoundToAgent: binding !== unbound,
    demandsCookie: binding === boundToCookie,
    cookie: binding === boundToCookie ? cookieOf(setCookie) : undefined,
    until: expires === undefined ? undefined : new Date(expires * 1000),
  }
}

/** The cookies that an answer sets, except those of the account. */
function cookieOf(setCookie: readonly string[] = []): string | undefined {
  const pairs = setCookie.map((header) => header.split(';', 1)[0] ?? '')
  const foreign = pairs.filter((pair) => !credentialNames.includes(pair.split('=', 1)[0]?.trim().toUpperCase() ?? ''))
  const text = Cookies.parse(foreign.join(';')).header()
  return text === '' ? undefined : text
}

/** Milliseconds before its end at which a link is not given to readers any more. */
const margin = 60_000

/** Downloads of a storage. */
export class Downloads115 {
  readonly #bodies = new ResponseBodies(downloadServer, (error) => networkError(error, downloadServer))
  readonly #links: LinkCache<Link | undefined>

  constructor(
    private readonly http: HttpClient,
    /** The User-Agent of the gateway's own requests for links, and of its downloads. */
    private readonly userAgent: string,
  ) {
    this.#links = new LinkCache({
      lifetime: (link) => Math.min(maxLinkLifetime, (link?.until?.getTime() ?? Infinity) - margin - Date.now()),
      isShared: (link) => link?.maxOpen === 0,
    })
  }

  /**
   * The requested range of a file. A link that is refused is replaced once. Whether the file exists is decided by the
   * caller who has seen it, or by the request for a link, not by the download server: rejects with `not_found` or
   * `unavailable`.
   */
  async read(
    { key, request }: LinkRequest,
    range: ByteRange | undefined,
    { signal, entry }: ReadOptions,
  ): Promise<Readable> {
    const open = async (link: Link | undefined): Promise<Readable | undefined> => {
      const wanted = contentRequest(range, link ? link.size : 0, signal)
      if (!link || !wanted) return Readable.from([], { objectMode: false })
      const header = rangeHeader(wanted)
      const headers = {
        'user-agent': this.userAgent,
        ...(header !== undefined && { range: header }),
        ...(link.cookie !== undefined && { cookie: link.cookie }),
      }
      const response = await this.http.request({ method: 'GET', url: link.url, headers, signal })
      const { status } = response
      if (status === 200 || status === 206) return contentOf(response, wanted, this.#bodies, downloadServer)
      await drain(response.body)
      // Nothing was known of the size, and the range begins at the end of the file or after it.
      if (status === 416 && link.size === undefined) return Readable.from([], { objectMode: false })
      if (refusals.includes(status)) return undefined
      throw new GatewayError('unavailable', { reason: `the ${downloadServer} answers with status ${status}` })
    }
    const content = await this.#links.use(key, () => request(this.userAgent), open, {
      signal,
      mayReuse: entry !== undefined,
    })
    if (!content) throw new GatewayError('unavailable', { reason: `the ${downloadServer} refuses the download` })
    return content
  }

  /** Like `Driver.directUrl`. `userAgent`: that of the client; undefined if it is not known. */
  async directUrl({ request }: LinkRequest, userAgent: string | undefined): Promise<DirectUrl> {
    const link = await request(userAgent ?? this.userAgent)
    if (!link) throw new GatewayError('unsupported')
    const { url, until, cookie, demandsCookie, isBoundToAgent } = link
    // Only the gateway's own download finds out whether it is served nevertheless.
    if (demandsCookie && cookie === undefined) throw new GatewayError('unsupported')
    const headers = {
      ...(userAgent === undefined && isBoundToAgent && { 'user-agent': this.userAgent }),
      ...(cookie !== undefined && { cookie }),
    }
    const hasHeaders = Object.keys(headers).length > 0
    return { url: url.href, ...(hasHeaders && { headers }), ...(until && { until }) }
  }

  close(): void {
    this.#bodies.close()
  }
}
