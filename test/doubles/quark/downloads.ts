/** Download URLs of a Quark or UC account, bound to the client that asked for them, and the content they lead to. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { sendContent } from '../content-answer.js'
import type { Content, Contents } from '../contents.js'
import { newId } from './drive.js'
import type { QuarkSession } from './session.js'
import { foreignHost, QuarkRefusal, type QuarkVendor } from './vendor.js'

interface Link {
  readonly content: Content
  /** The User-Agent that the URL is for. Undefined: any. */
  readonly userAgent: string | undefined
  readonly until: number
  uses: number
}

/** Qualities of transcoded videos, by the name that the API has for them. */
const qualities = ['low', 'normal', 'high', 'super', '2k', '4k']

export class QuarkDownloads {
  /** Milliseconds for which a URL is valid. */
  lifetime = 3 * 3_600_000
  /** A URL is refused when it is used once more. */
  areSingleUse = false
  /** The host of a URL redirects to a host of somebody else, which needs no cookie. */
  areRedirected = false
  readonly #links = new Map<string, Link>()

  constructor(
    private readonly vendor: QuarkVendor,
    private readonly session: QuarkSession,
    private readonly contents: Contents,
  ) {}

  /** A URL for the client with this `User-Agent` and the cookie of the session. */
  url(content: Content, userAgent: string): string {
    return `https://dl-pc-zb.${this.vendor.store}/${this.#newLink(content, userAgent)}`
  }

  /** Makes all URLs void. */
  expireLinks(): void {
    this.#links.clear()
  }

  /** URLs of a video in the wanted qualities, for any client. */
  async transcoded(content: Content, resolutions: readonly string[]): Promise<readonly object[]> {
    const list: object[] = []
    for (const resolution of qualities.filter((each) => resolutions.includes(each))) {
      const video = await this.contents.add(`${resolution} of ${content.sha1}`)
      const url = `https://video-play-p.${this.vendor.store}/${this.#newLink(video, undefined)}`
      list.push({ resolution, accessable: true, video_info: { url, size: video.size } })
    }
    return list
  }

  /** Answers a request to one of the hosts. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { headers, method = '' } = request
    const [host = ''] = (headers.host ?? '').split(':')
    const id = (request.url ?? '').slice(1)
    const link = this.#links.get(id)
    if (!['GET', 'HEAD'].includes(method)) {
      refuse(response, 405, 'MethodNotAllowed')
      return
    }
    if (!link || performance.now() > link.until) {
      refuse(response, 403, 'AccessDenied')
      return
    }
    const isForeign = host === foreignHost
    if (link.userAgent !== undefined && !isForeign) {
      if (!this.#isBoundTo(headers, link.userAgent)) {
        refuse(response, 403, 'AccessDenied')
        return
      }
      if (this.areRedirected) {
        response.writeHead(302, { location: `https://${foreignHost}/${id}` }).end()
        return
      }
    }
    link.uses++
    if (this.areSingleUse && link.uses > 1) {
      refuse(response, 412, 'PreconditionFailed')
      return
    }
    await sendContent(request, response, this.contents, link.content)
  }

  #newLink(content: Content, userAgent: string | undefined): string {
    const id = newId()
    this.#links.set(id, { content, userAgent, until: performance.now() + this.lifetime, uses: 0 })
    return id
  }

  #isBoundTo(headers: IncomingHttpHeaders, userAgent: string): boolean {
    try {
      this.session.verify(headers.cookie)
    } catch (error) {
      if (error instanceof QuarkRefusal) return false
      throw error
    }
    const { referer = '' } = headers
    return headers['user-agent'] === userAgent && [this.vendor.referer, `${this.vendor.referer}/`].includes(referer)
  }
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { 'content-type': 'application/xml' }).end(`<Error><Code>${code}</Code></Error>`)
}
