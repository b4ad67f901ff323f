/**
 * The download links of the 115 Open double. They expire, and are good for the User-Agent that has asked for them only.
 */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, RequestListener } from 'node:http'
import { sendContent } from '../content-answer.js'
import type { Content, Contents } from '../contents.js'
import { refusals } from './answers.js'
import type { Drive } from './drive.js'
import { required, type Done } from './files.js'

interface Link {
  readonly content: Content
  readonly userAgent: string
  /** When the link expires, in seconds since 1970. */
  readonly expires: number
  /** Number of requests that are being answered. */
  open: number
}

export class Links {
  /** Seconds for which a link is good. */
  lifetime = 3600
  /** How many requests of one link may be open at the same time; 0: any number. */
  maxOpen = 0
  readonly #links = new Map<string, Link>()

  constructor(
    private readonly drive: Drive,
    private readonly contents: Contents,
  ) {}

  /** Makes all links void. */
  expireAll(): void {
    this.#links.clear()
  }

  make(fields: URLSearchParams, userAgent: string | undefined): Done {
    const node = this.drive.byPickCode(required(fields, 'pick_code'))
    if (!node?.content) throw refusals.pickCode()
    const key = randomBytes(12).toString('hex')
    const expires = Math.floor(Date.now() / 1000) + this.lifetime
    this.#links.set(key, { content: node.content, userAgent: userAgent ?? '', expires, open: 0 })
    const query = new URLSearchParams({ t: String(expires), u: '100012345', c: String(this.maxOpen), f: '1', k: key })
    const url = `https://cdnfhnfile.115cdn.net/${node.content.sha1}/${encodeURIComponent(node.name)}?${query.toString()}`
    const data = {
      [node.id]: {
        file_name: node.name,
        file_size: node.content.size,
        pick_code: node.pickCode,
        sha1: node.content.sha1,
        url: { url },
      },
    }
    return { data }
  }

  /** Answers at the hosts that the links lead to. No credentials belong there. */
  readonly listener: RequestListener = (request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'https://cdn')
    const link = this.#links.get(searchParams.get('k') ?? '')
    const refused = this.#refusalOf(request, searchParams, link)
    if (!link || refused !== undefined) {
      response.writeHead(403, { 'content-type': 'text/plain' }).end(refused)
      return
    }
    link.open++
    response.once('close', () => link.open--)
    void sendContent(request, response, this.contents, link.content)
  }

  #refusalOf({ headers }: IncomingMessage, query: URLSearchParams, link: Link | undefined): string | undefined {
    if (!link) return 'invalid signature'
    if (headers.authorization !== undefined || headers.cookie !== undefined) return 'credentials at a foreign host'
    if (query.get('t') !== String(link.expires)) return 'invalid signature'
    if (Date.now() / 1000 >= link.expires) return 'link expired'
    if ((headers['user-agent'] ?? '') !== link.userAgent) return 'invalid user agent'
    if (this.maxOpen > 0 && link.open >= this.maxOpen) return 'too many connections'
    return undefined
  }
}
