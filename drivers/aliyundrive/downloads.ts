/** Downloads from Aliyundrive: the URLs of files, which need no credentials, and the content that they lead to. */
import { Readable } from 'node:stream'
import { GatewayError } from '../../src/base/errors.js'
import { drain, type HttpClient } from '../lib/http/http-client.js'
import { contentOf, rangeHeader, type ContentRequest } from '../lib/http/http-content.js'
import { networkError } from '../lib/network-errors.js'
import { ResponseBodies } from '../lib/http/response-bodies.js'
import { LinkCache } from '../lib/cloud/link-cache.js'
import type { DownloadLinks, DriveApi } from './drive-api.js'
import { protocolViolation, serverName } from './errors.js'

/** Milliseconds for which a link is used: the server allows less than one request for a link per second. */
const linkLifetime = 60_000
/** Whether links may be used again: they lead to nothing when their file is removed. */
const mayReuse = true

export class AliyundriveDownloads {
  readonly #links = new LinkCache<DownloadLinks>({ lifetime: () => linkLifetime })
  readonly #bodies = new ResponseBodies(serverName, (error) => networkError(error, serverName))

  constructor(
    private readonly api: DriveApi,
    private readonly http: HttpClient,
    /** The part of a live photo that a client gets: `jpeg` or `mov`. */
    private readonly livePhotoFormat: string,
  ) {}

  /** The content of a file. Rejects with `not_found` if its URL leads to none. */
  async read(id: string, request: ContentRequest): Promise<Readable> {
    const range = rangeHeader(request)
    const headers = range === undefined ? {} : { range }
    const { signal } = request
    const open = async ({ url: text }: DownloadLinks): Promise<Readable | undefined> => {
      if (text === '') {
        throw new GatewayError('unsupported', { reason: 'this live photo can only be downloaded directly' })
      }
      const response = await this.http.request({ method: 'GET', url: webAddress(text), headers, signal })
      const { status } = response
      if (status === 200 || status === 206) return contentOf(response, request, this.#bodies, serverName)
      await drain(response.body)
      // The range begins at the end of the file, or after it.
      const isAfterEnd = request.size === undefined || (request.part?.offset ?? 0) >= request.size
      if (status === 416 && isAfterEnd) return Readable.from([], { objectMode: false })
      if (status === 403) return undefined
      this.forget(id)
      if (status === 404 || status === 410) throw new GatewayError('not_found')
      throw protocolViolation(`answers a download with status ${status}`)
    }
    const content = await this.#links.use(id, () => this.api.downloadLinks(id), open, { signal, mayReuse })
    if (!content) throw new GatewayError('denied', { reason: `the ${serverName} refuses the download` })
    return content
  }

  /** The URL of a file for clients. */
  async urlOf(id: string, name: string, signal: AbortSignal | undefined): Promise<string> {
    const { url, streams } = await this.#links.get(id, () => this.api.downloadLinks(id), { signal, mayReuse })
    const isLivePhoto = name.toLowerCase().endsWith('.livp')
    const stream = isLivePhoto ? (streams[this.livePhotoFormat] ?? '') : ''
    return webAddress(stream || url).href
  }

  /** A file was removed. */
  forget(id: string): void {
    this.#links.drop(id)
  }

  close(): void {
    this.#bodies.close()
  }
}

/** The URL of a file as the server reports it. */
function webAddress(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.username !== '' || url.password !== '') {
    throw protocolViolation('sent no URL of the file')
  }
  return url
}
