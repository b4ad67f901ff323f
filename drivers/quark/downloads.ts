/**
 * The content of files. The service limits the speed of each connection, so a file is read in pieces over several ones.
 * Download URLs are bound to the cookie, which is sent to hosts of the vendor only.
 */
import { Readable } from 'node:stream'
import { joinSignals } from '../../src/base/cancellation.js'
import type { ByteRange, ReadOptions } from '../../src/contract/call-options.js'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import type { ApiCredentials } from '../lib/json-api/api-client.js'
import { LinkCache, maxLinkLifetime } from '../lib/cloud/link-cache.js'
import { drain, type HttpClient, type HttpResponse } from '../lib/http/http-client.js'
import { contentOf, rangeHeader, type ContentRequest } from '../lib/http/http-content.js'
import { networkError } from '../lib/network-errors.js'
import { BodyReader } from '../lib/streams/parts.js'
import { createReadStream } from '../lib/streams/pipelined-io.js'
import { ResponseBodies } from '../lib/http/response-bodies.js'
import type { QuarkApi } from './api.js'
import type { QuarkVendor } from './vendor.js'

/** Bytes of one piece, and the number of pieces of one file that are requested at the same time. */
const pieceSize = 4 * 1024 * 1024
const piecesAtOnce = 4
/** Maximum number of requests for a piece whose connection breaks. */
const maxAttempts = 3
/** Statuses of answers to URLs that have expired, or that were used before. */
const expiredStatuses = [401, 403, 404, 410, 412]

interface DownloadsDependencies {
  readonly api: QuarkApi
  readonly http: HttpClient
  readonly vendor: QuarkVendor
  readonly credentials: Required<ApiCredentials<string>>
}

export class Downloads {
  readonly #bodies: ResponseBodies
  readonly #links = new LinkCache<URL>({ lifetime: () => maxLinkLifetime })

  constructor(private readonly dependencies: DownloadsDependencies) {
    const { server } = dependencies.vendor
    this.#bodies = new ResponseBodies(server, (error) => networkError(error, server))
  }

  /** Like `Driver.read`, of the file with this id. `listedSize`: bytes, if known. */
  async open(
    id: string,
    listedSize: number | undefined,
    range: ByteRange | undefined,
    { signal, entry }: ReadOptions,
  ): Promise<Readable> {
    const { offset = 0, length = Number.POSITIVE_INFINITY } = range ?? {}
    if (length === 0) return empty()
    const file = new RemoteFile(this.dependencies, this.#links, id, entry !== undefined)
    const part = { offset, length: Math.min(length, pieceSize) }
    const first = await file.request(part, signal)
    if (!first) return empty()
    const size = sizeIn(first) ?? listedSize
    const isWhole = first.status === 200
    if (isWhole || Math.min(size ?? Number.POSITIVE_INFINITY, offset + length) <= offset + part.length) {
      // The server ignores ranges, or the answer has all that was requested.
      return this.#content(first, { part: isWhole ? range : part, size, signal })
    }
    if (size === undefined) {
      first.body.destroy()
      throw new GatewayError('unavailable', {
        reason: `the ${this.dependencies.vendor.server} reports no size of the file`,
      })
    }
    return this.#pieces(file, first, { offset, length }, size, signal)
  }

  close(): void {
    this.#bodies.close()
  }

  #pieces(
    file: RemoteFile,
    first: HttpResponse,
    range: Required<ByteRange>,
    size: number,
    signal: AbortSignal | undefined,
  ): Readable {
    const ended = new AbortController()
    const joined = joinSignals(signal, ended.signal)
    let begun: HttpResponse | undefined = first
    const read = async (offset: number, length: number) => {
      for (let attempt = 1; ; attempt++) {
        try {
          const part = { offset, length }
          const response = begun && offset === range.offset ? begun : await file.request(part, joined.signal)
          if (response === begun) begun = undefined
          if (!response) throw new GatewayError('unavailable', { detail: 'source_changed' })
          const content = this.#content(response, { part, size, signal: joined.signal })
          return await new BodyReader(content, length).next(length)
        } catch (error) {
          const isTransient = isGatewayError(error, 'unavailable', 'timeout') && !joined.signal.aborted
          if (!isTransient || attempt === maxAttempts) throw error
        }
      }
    }
    const onEnd = async () => {
      begun?.body.destroy()
      ended.abort()
      joined.release()
    }
    return createReadStream({ pieceSize, maxInFlight: piecesAtOnce, read }, range, { size, signal, onEnd })
  }

  #content(response: HttpResponse, request: ContentRequest): Readable {
    return contentOf(response, request, this.#bodies, this.dependencies.vendor.server)
  }
}

/** A file at the service, and its download URL, which is requested again when it is refused. */
class RemoteFile {
  constructor(
    private readonly dependencies: DownloadsDependencies,
    private readonly links: LinkCache<URL>,
    private readonly id: string,
    /** Whether it is known that the file exists. */
    private isKnown: boolean,
  ) {}

  /** The answer to a request for a range; undefined if it starts at the end of the file or after it. */
  async request(part: ByteRange, signal: AbortSignal | undefined): Promise<HttpResponse | undefined> {
    let refused: number | undefined
    const open = async (url: URL): Promise<HttpResponse | undefined> => {
      const response = await this.#get(url, part, signal)
      if (!expiredStatuses.includes(response.status)) return response
      refused = response.status
      await drain(response.body)
      return undefined
    }
    const use = { signal, mayReuse: this.isKnown }
    const response = await this.links.use(this.id, () => this.dependencies.api.downloadUrl(this.id), open, use)
    this.isKnown = true
    if (response) return this.#checked(response)
    if (refused === 404 || refused === 410) throw new GatewayError('not_found')
    throw new GatewayError('denied', { reason: `the ${this.dependencies.vendor.server} refuses the download` })
  }

  async #get(url: URL, part: ByteRange, signal: AbortSignal | undefined): Promise<HttpResponse> {
    const { http, vendor, credentials } = this.dependencies
    const range = rangeHeader({ part, size: undefined, signal }) ?? ''
    const headers = { range, 'user-agent': vendor.userAgent }
    if (!http.isOwnOrigin(url)) return http.request({ method: 'GET', url, headers, signal })
    const cookie = credentials.headers(await credentials.renewal.get(signal))
    const own = { ...headers, ...cookie, referer: vendor.referer }
    const response = await http.request({ method: 'GET', url, headers: own, signal })
    if (http.isOwnOrigin(response.url)) await credentials.received(response.headers)
    return response
  }

  async #checked(response: HttpResponse): Promise<HttpResponse | undefined> {
    const { status, body } = response
    if (status === 200 || status === 206) return response
    await drain(body)
    if (status === 416) return undefined
    const { server } = this.dependencies.vendor
    throw new GatewayError('unavailable', { reason: `the ${server} answers a download with status ${status}` })
  }
}

/** The size of the file, as the answer to a request for a range reports it (RFC 9110 §14.4). */
function sizeIn({ headers }: HttpResponse): number | undefined {
  const size = /^bytes \d+-\d+\/(\d+)$/i.exec(headers['content-range'] ?? '')?.[1]
  return size === undefined ? undefined : Number(size)
}

function empty(): Readable {
  return Readable.from([], { objectMode: false })
}
