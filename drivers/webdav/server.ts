/** The requests of WebDAV (RFC 4918) to one server, each with the error that its status stands for. */
import type { IncomingHttpHeaders } from 'node:http'
import { GatewayError, isGatewayError } from '../../src/errors.js'
import { isListableName, root, type Path } from '../../src/path.js'
import { drain, type HttpAnswer, type HttpClient, type HttpRequest, type SentBody } from '../lib/http-client.js'
import { networkError } from '../lib/network-errors.js'
import { nonsense, refusal, serverName, WebdavStatus } from './errors.js'
import type { Locations } from './locations.js'
import { readMultistatus, type Properties, type Resource } from './multistatus.js'

/** Milliseconds that the server may take to move, copy or remove a tree, and to store what it has received. */
export const patience = 10 * 60_000

/** Resources in an answer about one: servers that overlook the depth tell of its members as well. */
const resourcesAtMost = 10_000

export type Kind = 'file' | 'folder'

export interface Member {
  readonly name: string
  readonly properties: Properties
}

/** A page of a listing. `itself`: of the folder, in the page that tells of it. */
export interface ListedPage {
  readonly itself?: Properties | undefined
  readonly members: readonly Member[]
}

const propfind = (properties: string) =>
  '<?xml version="1.0" encoding="utf-8"?>' +
  `<D:propfind xmlns:D="DAV:" xmlns:O="http://owncloud.org/ns"><D:prop>${properties}</D:prop></D:propfind>`
const asked = propfind(
  '<D:resourcetype/><D:getcontentlength/><D:getlastmodified/><D:creationdate/><D:getetag/><O:checksums/>',
)
const askedOfRoot = propfind('<D:resourcetype/><D:quota-available-bytes/><D:quota-used-bytes/>')

export class WebdavServer {
  constructor(
    private readonly http: HttpClient,
    private readonly locations: Locations,
  ) {}

  async look(path: Path, signal?: AbortSignal): Promise<Properties> {
    return this.#about(path, asked, signal)
  }

  /** Of the root alone: its kind, and how full the server is, where it tells that. */
  async lookAtRoot(signal?: AbortSignal): Promise<Properties> {
    return this.#about(root, askedOfRoot, signal)
  }

  async #about(path: Path, body: string, signal: AbortSignal | undefined): Promise<Properties> {
    // Who redirects a folder to its name with a slash need not do so for the root.
    const url = this.locations.url(path, path === '/' ? 'folder' : 'file')
    const answer = await this.#propfind(url, '0', body, signal)
    let count = 0
    let first: Resource | undefined
    let itself: Resource | undefined
    for await (const page of this.#resources(answer)) {
      count += page.length
      first ??= page[0]
      itself ??= page.find(({ href }) => this.locations.relationTo(path, href).isItself)
      if (count > resourcesAtMost) throw nonsense('tells of thousands of things where it was asked for one')
    }
    const found = itself ?? (count === 1 ? first : undefined)
    if (!found) throw refusal(answer.status)
    if (found.status >= 400) throw refusal(found.status)
    if (path === '/') this.locations.learnRoot(answer.url, found.href)
    return found.properties
  }

  /** Members of a folder. `not_found`, and `not_dir` with `itself` as no folder, are the caller's to tell. */
  async *members(path: Path, signal?: AbortSignal): AsyncGenerator<ListedPage> {
    const answer = await this.#propfind(this.locations.url(path, 'folder'), '1', asked, signal)
    for await (const page of this.#resources(answer)) yield this.#listed(path, page)
  }

  #listed(path: Path, page: readonly Resource[]): ListedPage {
    let itself: Properties | undefined
    const members: Member[] = []
    for (const { href, status, properties } of page) {
      const { isItself, member } = this.locations.relationTo(path, href)
      if (isItself) {
        if (status >= 400) throw refusal(status)
        itself = properties
      } else if (member !== undefined) {
        // A listing without it would say that it was removed. What the core leaves out anyway may fail.
        if (status >= 500 && isListableName(member)) throw refusal(status)
        if (status < 300) members.push({ name: member, properties })
      }
    }
    return { itself, members }
  }

  async #propfind(url: URL, depth: '0' | '1', body: string, signal: AbortSignal | undefined): Promise<HttpAnswer> {
    const headers = { depth, 'content-type': 'application/xml; charset=utf-8' }
    const answer = await this.http.request({ method: 'PROPFIND', url, headers, body, signal })
    if (answer.status === 207) return answer
    await drain(answer.body)
    throw refusal(answer.status, answer.headers)
  }

  /** The headers of a file's content, and where `range` is given, of that part; the body is the caller's. */
  async get(path: Path, range: string | undefined, signal?: AbortSignal): Promise<HttpAnswer> {
    const headers = range === undefined ? {} : { range }
    const answer = await this.http.request({ method: 'GET', url: this.locations.url(path, 'file'), headers, signal })
    if (answer.status === 200 || answer.status === 206) return answer
    await drain(answer.body)
    throw refusal(answer.status, answer.headers)
  }

  /** Where the server sends whoever wants the content, if that is somewhere else: there its credentials are of no use. */
  async redirectOf(path: Path, signal?: AbortSignal): Promise<URL | undefined> {
    const url = this.locations.url(path, 'file')
    const answer = await this.http.request({
      method: 'GET',
      url,
      headers: { range: 'bytes=0-0' },
      follow: false,
      signal,
    })
    const { location = '' } = answer.headers
    await drain(answer.body)
    if (answer.status >= 400) throw refusal(answer.status, answer.headers)
    if (answer.status < 300 || !URL.canParse(location, url.href)) return undefined
    const target = new URL(location, url)
    const isOpen = ['http:', 'https:'].includes(target.protocol) && target.username === '' && target.password === ''
    return isOpen && !this.http.isOwn(target) ? target : undefined
  }

  /**
   * Stores a whole file, and answers with the headers of the answer. `unsupported` where the server wants to know the size; it has not
   * taken the body then, unless it is one of those that say so too late.
   */
  async put(
    path: Path,
    body: string | SentBody,
    modified: Date | undefined,
    signal?: AbortSignal,
  ): Promise<IncomingHttpHeaders> {
    const headers = {
      'content-type': 'application/octet-stream',
      // Whole seconds: what others than ownCloud take of it is no more.
      ...(modified && { 'x-oc-mtime': String(Math.floor(modified.getTime() / 1000)) }),
    }
    const url = this.locations.url(path, 'file')
    return this.#change({ method: 'PUT', url, headers, body, signal })
  }

  async makeFolder(path: Path, signal?: AbortSignal): Promise<void> {
    await this.#change({ method: 'MKCOL', url: this.locations.url(path, 'folder'), signal }, 405)
  }

  /** With everything below. */
  async delete(path: Path, kind: Kind, signal?: AbortSignal): Promise<void> {
    await this.#change({ method: 'DELETE', url: this.locations.url(path, kind), signal }, 404)
  }

  /** Of what is there. Without `overwrite`, `precondition_failed` where something is at `to`. */
  async move(from: Path, to: Path, kind: Kind, overwrite: boolean, signal?: AbortSignal): Promise<void> {
    await this.#change({ ...this.#transfer('MOVE', from, to, kind, overwrite), signal }, 404)
  }

  /** One file, over whatever is at `to`. */
  async copy(from: Path, to: Path): Promise<void> {
    await this.#change(this.#transfer('COPY', from, to, 'file', true))
  }

  #transfer(method: string, from: Path, to: Path, kind: Kind, overwrite: boolean): HttpRequest {
    const headers = { destination: this.locations.url(to, kind).href, overwrite: overwrite ? 'T' : 'F' }
    return { method, url: this.locations.url(from, kind), headers }
  }

  /** `done`: the status that tells whoever repeats the request that it had been heard the first time. */
  async #change(request: HttpRequest, done?: number): Promise<IncomingHttpHeaders> {
    const answer = await this.http.request({ patience, ...request })
    // Of several resources, some of which were refused (RFC 4918 §13); and in an answer to PUT it makes no sense.
    if (answer.status === 207) throw await this.#worst(answer)
    await drain(answer.body)
    const isOfUnknownSize = typeof request.body === 'object' && request.body.size === undefined
    // A server that does not take chunks says so with one of these.
    if (isOfUnknownSize && [400, 411, 501].includes(answer.status)) throw new SizeWantedError(answer)
    const isDone = answer.isRepeated && answer.status === done
    const isFine = answer.status >= 200 && answer.status < 300
    if (isFine && typeof request.body === 'object' && !answer.isBodyTaken) {
      throw nonsense('claims to have stored what it has not been sent')
    }
    if (isDone || isFine) return answer.headers
    throw refusal(answer.status, answer.headers)
  }

  async #worst(answer: HttpAnswer): Promise<GatewayError> {
    for await (const page of this.#resources(answer)) {
      const failed = page.find(({ status }) => status >= 400 && status !== 424)
      if (failed) return refusal(failed.status)
    }
    return refusal(500)
  }

  async *#resources(answer: HttpAnswer): AsyncGenerator<readonly Resource[]> {
    try {
      yield* readMultistatus(answer.body)
    } catch (error) {
      throw isGatewayError(error) ? error : networkError(error, serverName)
    } finally {
      answer.body.destroy()
    }
  }
}

/** The server takes no body of which it does not know the size. */
export class SizeWantedError extends GatewayError {
  constructor({ status, isBodyTaken }: HttpAnswer) {
    const options = { reason: `the ${serverName} wants to know the size`, cause: new WebdavStatus(status) }
    // Only what has done nothing yet may be asked for in another way.
    super(isBodyTaken ? 'unavailable' : 'unsupported', options)
  }
}
