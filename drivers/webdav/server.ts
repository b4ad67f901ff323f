/** WebDAV requests (RFC 4918) to one server. Error statuses are mapped to `GatewayError`s. */
import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import { isListableName, root, type Path } from '../../src/base/path.js'
import {
  drain,
  isOneShot,
  type HttpResponse,
  type HttpClient,
  type HttpRequest,
  type OneShotBody,
} from '../lib/http/http-client.js'
import { networkError } from '../lib/network-errors.js'
import { protocolViolation, statusError, serverName, WebdavStatus } from './errors.js'
import type { ResourceUrls } from './resource-urls.js'
import { readMultistatus, type Properties, type MultistatusResource } from './multistatus.js'

/** Timeout in milliseconds for MOVE, COPY and DELETE, and for the response to a PUT. */
export const timeout = 10 * 60_000

/** Maximum number of resources in a response about one: servers that ignore `Depth: 0` send its members as well. */
const maxResources = 10_000

export type ResourceKind = 'file' | 'folder'

interface Member {
  readonly name: string
  readonly properties: Properties
}

/** A page of a listing. `itself`: the properties of the folder, in the page that contains them. */
interface ListedPage {
  readonly itself?: Properties | undefined
  readonly members: readonly Member[]
}

const propfind = (properties: string) =>
  '<?xml version="1.0" encoding="utf-8"?>' +
  `<D:propfind xmlns:D="DAV:" xmlns:O="http://owncloud.org/ns"><D:prop>${properties}</D:prop></D:propfind>`
const entryProperties = propfind(
  '<D:resourcetype/><D:getcontentlength/><D:getlastmodified/><D:creationdate/><D:getetag/><O:checksums/>',
)
const rootProperties = propfind('<D:resourcetype/><D:quota-available-bytes/><D:quota-used-bytes/>')

export class WebdavServer {
  constructor(
    private readonly http: HttpClient,
    private readonly urls: ResourceUrls,
  ) {}

  /** Properties of a path. */
  async stat(path: Path, signal?: AbortSignal): Promise<Properties> {
    return this.#propertiesOf(path, entryProperties, signal)
  }

  /** Kind of the root, and its quota if the server reports it. */
  async statRoot(signal?: AbortSignal): Promise<Properties> {
    return this.#propertiesOf(root, rootProperties, signal)
  }

  async #propertiesOf(path: Path, body: string, signal: AbortSignal | undefined): Promise<Properties> {
    // Servers redirect a folder without a trailing slash, but not always the root.
    const url = this.urls.url(path, path === '/' ? 'folder' : 'file')
    const answer = await this.#propfind(url, '0', body, signal)
    let count = 0
    let first: MultistatusResource | undefined
    let itself: MultistatusResource | undefined
    for await (const page of this.#resources(answer)) {
      count += page.length
      first ??= page[0]
      itself ??= page.find(({ href }) => this.urls.classifyHref(path, href).isItself)
      if (count > maxResources) throw protocolViolation('sent thousands of resources in a response about one')
    }
    const found = itself ?? (count === 1 ? first : undefined)
    if (!found) throw statusError(answer.status)
    if (found.status >= 400) throw statusError(found.status)
    if (path === '/') this.urls.learnRoot(answer.url, found.href)
    return found.properties
  }

  /** Members of a folder. The caller must check that `itself` is a folder. */
  async *members(path: Path, signal?: AbortSignal): AsyncGenerator<ListedPage> {
    const answer = await this.#propfind(this.urls.url(path, 'folder'), '1', entryProperties, signal)
    for await (const page of this.#resources(answer)) yield this.#listed(path, page)
  }

  #listed(path: Path, page: readonly MultistatusResource[]): ListedPage {
    let itself: Properties | undefined
    const members: Member[] = []
    for (const { href, status, properties } of page) {
      const { isItself, member } = this.urls.classifyHref(path, href)
      if (isItself) {
        if (status >= 400) throw statusError(status)
        itself = properties
      } else if (member !== undefined) {
        // Leaving out a failed member would make it look removed. Names that the core does not list are ignored.
        if (status >= 500 && isListableName(member)) throw statusError(status)
        if (status < 300) members.push({ name: member, properties })
      }
    }
    return { itself, members }
  }

  async #propfind(url: URL, depth: '0' | '1', body: string, signal: AbortSignal | undefined): Promise<HttpResponse> {
    const headers = { depth, 'content-type': 'application/xml; charset=utf-8' }
    const answer = await this.http.request({ method: 'PROPFIND', url, headers, body, signal })
    if (answer.status === 207) return answer
    await drain(answer.body)
    throw statusError(answer.status, answer.headers)
  }

  /** Starts a GET, with `range` as the `Range` header. Status 200 or 206; the caller must read or destroy the body. */
  async get(path: Path, range: string | undefined, signal?: AbortSignal): Promise<HttpResponse> {
    const headers = range === undefined ? {} : { range }
    const answer = await this.http.request({ method: 'GET', url: this.urls.url(path, 'file'), headers, signal })
    if (answer.status === 200 || answer.status === 206) return answer
    await drain(answer.body)
    throw statusError(answer.status, answer.headers)
  }

  /**
   * The URL on another origin to which the server redirects a GET, where its credentials are not needed; undefined if
   * it does not.
   */
  async redirectTarget(path: Path, signal?: AbortSignal): Promise<URL | undefined> {
    const url = this.urls.url(path, 'file')
    const answer = await this.http.request({
      method: 'GET',
      url,
      headers: { range: 'bytes=0-0' },
      follow: false,
      signal,
    })
    const { location = '' } = answer.headers
    await drain(answer.body)
    if (answer.status >= 400) throw statusError(answer.status, answer.headers)
    if (answer.status < 300 || !URL.canParse(location, url.href)) return undefined
    const target = new URL(location, url)
    const isPlain = ['http:', 'https:'].includes(target.protocol) && target.username === '' && target.password === ''
    return isPlain && !this.http.isOwnOrigin(target) ? target : undefined
  }

  /**
   * Stores a whole file. Resolves to the headers of the response. Rejects if the server requires the size:
   * with `unsupported` if it has not read the body, else with `unavailable`.
   */
  async put(
    path: Path,
    body: string | OneShotBody,
    modified: Date | undefined,
    signal?: AbortSignal,
  ): Promise<IncomingHttpHeaders> {
    const headers = {
      'content-type': 'application/octet-stream',
      // In whole seconds: servers other than ownCloud accept no fraction.
      ...(modified && { 'x-oc-mtime': String(Math.floor(modified.getTime() / 1000)) }),
    }
    const url = this.urls.url(path, 'file')
    return this.#change({ method: 'PUT', url, headers, body, signal })
  }

  async makeFolder(path: Path, signal?: AbortSignal): Promise<void> {
    await this.#change({ method: 'MKCOL', url: this.urls.url(path, 'folder'), signal }, 405)
  }

  /** Removes a file, or a folder with its contents. */
  async delete(path: Path, kind: ResourceKind, signal?: AbortSignal): Promise<void> {
    await this.#change({ method: 'DELETE', url: this.urls.url(path, kind), signal }, 404)
  }

  /** Moves an existing resource. Without `overwrite`, rejects with `precondition_failed` if `to` exists. */
  async move(from: Path, to: Path, kind: ResourceKind, overwrite: boolean, signal?: AbortSignal): Promise<void> {
    await this.#change({ ...this.#transfer('MOVE', from, to, kind, overwrite), signal }, 404)
  }

  /** Copies a file to a name that is free. Rejects with `precondition_failed` if `to` exists. */
  async copy(from: Path, to: Path): Promise<void> {
    await this.#change(this.#transfer('COPY', from, to, 'file', false))
  }

  #transfer(method: string, from: Path, to: Path, kind: ResourceKind, overwrite: boolean): HttpRequest {
    const headers = { destination: this.urls.url(to, kind).href, overwrite: overwrite ? 'T' : 'F' }
    return { method, url: this.urls.url(from, kind), headers }
  }

  /** Sends a modifying request. `repeatedStatus`: the status that means success if the request was sent twice. */
  async #change(request: HttpRequest, repeatedStatus?: number): Promise<IncomingHttpHeaders> {
    const answer = await this.http.request({ timeout, ...request })
    // Some of several resources failed (RFC 4918 §13). Not valid in a response to PUT.
    if (answer.status === 207) throw await this.#firstFailure(answer)
    await drain(answer.body)
    const isOfUnknownSize = isOneShot(request.body) && request.body.size === undefined
    // A server that does not accept chunked bodies responds with one of these (RFC 9112 §6.1, §6.3).
    if (isOfUnknownSize && [400, 411, 501].includes(answer.status)) throw sizeRequired(answer)
    const isDone = answer.isRetry && answer.status === repeatedStatus
    const isSuccess = answer.status >= 200 && answer.status < 300
    if (isSuccess && isOneShot(request.body) && !answer.isBodySent) {
      throw protocolViolation('reports success without having received the body')
    }
    if (isDone || isSuccess) return answer.headers
    throw statusError(answer.status, answer.headers)
  }

  /** The first error of a multistatus response, except for failed dependencies. */
  async #firstFailure(answer: HttpResponse): Promise<GatewayError> {
    for await (const page of this.#resources(answer)) {
      const failed = page.find(({ status }) => status >= 400 && status !== 424)
      if (failed) return statusError(failed.status)
    }
    return statusError(500)
  }

  async *#resources(answer: HttpResponse): AsyncGenerator<readonly MultistatusResource[]> {
    try {
      yield* readMultistatus(answer.body)
    } catch (error) {
      throw isGatewayError(error) ? error : networkError(error, serverName)
    } finally {
      answer.body.destroy()
    }
  }
}

/** The error of a server that does not accept a body of unknown size. */
function sizeRequired({ status, isBodySent }: HttpResponse): GatewayError {
  // `unsupported` makes the caller fall back, which requires that the body was not read.
  return new GatewayError(isBodySent ? 'unavailable' : 'unsupported', {
    detail: 'size_required',
    reason: `the ${serverName} requires the size of the body`,
    cause: new WebdavStatus(status),
  })
}
