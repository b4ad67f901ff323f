/** Download links, and the servers that they lead to. */
import { createHmac, randomBytes } from 'node:crypto'
import type { IncomingMessage, RequestListener } from 'node:http'
import { sendContent } from '../content-answer.js'
import type { Content, Contents } from '../contents.js'
import type { Account } from './account.js'
import type { Drive } from './drive.js'
import { Answer, cookiesOf, Refusal, type Call, type Handler } from './http-routes.js'
import { BadEnvelope, type M115Server } from './m115.js'

export const downloadHost = 'cdnfhnfile.115cdn.net'

/** What a link demands of the client: nothing, its User-Agent, or that and the cookie of the answer with the link. */
export type LinkCondition = '' | '1' | '3'

export class Downloads {
  condition: LinkCondition = '1'
  /** Milliseconds for which a new link is valid. */
  lifetime = 3_600_000
  /** How often a link may be open at the same time; 0: any number. */
  maxOpen = 0
  /** Bytes of the largest file that has a link. */
  maxSize = Number.POSITIVE_INFINITY
  /** Requests to download servers with cookies of the account: no link demands them. */
  readonly withAccountCookies: string[] = []
  #secret = randomBytes(16)
  /** Values of cookies that were set with links. */
  readonly #cookies = new Set<string>()
  readonly #open = new Map<string, number>()

  constructor(
    private readonly account: Account,
    private readonly drive: Drive,
    private readonly contents: Contents,
    private readonly envelope: M115Server,
  ) {}

  routes(): Readonly<Record<string, Readonly<Record<string, Handler>>>> {
    const sealed = (answer: (payload: unknown, call: Call) => { data: unknown; cookie?: string }) => (call: Call) => {
      this.account.assertSignedIn(call)
      return this.sealed(call, (payload) => answer(payload, call))
    }
    return {
      'proapi.115.com': {
        'POST /app/chrome/downurl': sealed((payload, call) => this.#chromeLink(payload, call)),
        'POST /android/2.0/ufile/download': sealed((payload, call) => {
          const { url, cookie } = this.#linkTo(textField(payload, 'pick_code'), call)
          return { data: { url }, ...(cookie !== undefined && { cookie }) }
        }),
      },
    }
  }

  /** The answer to a call in the envelope, of which `answer` makes the inner answer. */
  sealed(call: Call, answer: (payload: unknown) => { data: unknown; cookie?: string }): unknown {
    if (!/^\d{10}$/.test(call.query.get('t') ?? '')) throw new Refusal(990002, '参数错误。')
    try {
      const { text, seed } = this.envelope.decode(call.form.get('data') ?? '')
      const { data, cookie } = answer(JSON.parse(text))
      const body = JSON.stringify({
        state: true,
        msg: '',
        errno: 0,
        data: this.envelope.encode(JSON.stringify(data), seed),
      })
      const headers = { 'content-type': 'application/json', ...(cookie !== undefined && { 'set-cookie': cookie }) }
      return new Answer(body, 200, headers)
    } catch (error) {
      if (error instanceof BadEnvelope || error instanceof SyntaxError) throw new Refusal(990002, '参数错误。')
      throw error
    }
  }

  /** The URL of a content for the client of a call, and the cookie that is set with it, if the link demands one. */
  urlFor(content: Content, name: string, call: Call): { readonly url: string; readonly cookie?: string } {
    const url = new URL(`https://${downloadHost}/${content.sha1}/${encodeURIComponent(name).replace(/^\.{1,2}$/, '_')}`)
    const cookie = randomBytes(16).toString('hex')
    const userAgent = call.headers['user-agent'] ?? ''
    const facts = {
      t: String(Math.floor((Date.now() + this.lifetime) / 1000)),
      u: this.account.id,
      c: String(this.maxOpen),
      f: this.condition,
      a: this.condition === '' ? '' : this.#digest(userAgent),
      n: this.condition === '3' ? this.#digest(cookie) : '',
    }
    for (const [key, value] of Object.entries(facts)) url.searchParams.set(key, value)
    url.searchParams.set('k', this.#digest(url.pathname + url.search))
    if (this.condition !== '3') return { url: url.href }
    this.#cookies.add(cookie)
    return { url: url.href, cookie: `acw_tc=${cookie}; path=/; domain=.115cdn.net; HttpOnly; Max-Age=1800` }
  }

  /** Makes all links void. */
  expireLinks(): void {
    this.#secret = randomBytes(16)
  }

  /** Answers requests of the download server. */
  readonly listener: RequestListener = (request, response) => {
    const url = new URL(request.url ?? '', `https://${downloadHost}`)
    const reason = this.#refusal(url, request)
    const content = this.contents.find(url.pathname.split('/')[1] ?? '')
    if (reason !== undefined || !content) {
      response.writeHead(content ? 403 : 404, { 'content-type': 'text/html' }).end(reason ?? 'not found')
      return
    }
    const key = url.searchParams.get('k') ?? ''
    this.#open.set(key, (this.#open.get(key) ?? 0) + 1)
    response.once('close', () => this.#open.set(key, (this.#open.get(key) ?? 1) - 1))
    void sendContent(request, response, this.contents, content)
  }

  #chromeLink(payload: unknown, call: Call) {
    const pickCode = textField(payload, 'pickcode')
    if (pickCode === '') throw new Refusal(50001, '参数为空。')
    const { url, cookie, id, name, size } = this.#linkTo(pickCode, call)
    const isOdd = BigInt(id) % 2n === 1n
    const file = {
      file_name: name,
      file_size: isOdd ? String(size) : size,
      pick_code: pickCode,
      url: { url, client: 1, oss_id: '' },
    }
    return { data: { [id]: file }, ...(cookie !== undefined && { cookie }) }
  }

  #linkTo(pickCode: string, call: Call) {
    const item = this.drive.withPickCode(pickCode)
    if (!item?.content) {
      throw /^[a-z0-9]{8,}$/.test(pickCode)
        ? new Refusal(70005, '文件不存在或已删除。')
        : new Refusal(50003, '提取码错误。')
    }
    const { id, name, content } = item
    if (content.size > this.maxSize) throw new Refusal(50028, '文件太大，请使用客户端下载。')
    return { ...this.urlFor(content, name, call), id, name, size: content.size }
  }

  /** Why a request is refused; undefined if it is not. */
  #refusal({ pathname, searchParams }: URL, { headers }: IncomingMessage): string | undefined {
    const cookies = cookiesOf(headers.cookie)
    if (['UID', 'CID', 'SEID'].some((name) => cookies.has(name))) this.withAccountCookies.push(pathname)
    const signature = searchParams.get('k') ?? ''
    searchParams.delete('k')
    if (this.#digest(`${pathname}?${searchParams.toString()}`) !== signature) return 'invalid signature'
    searchParams.set('k', signature)
    if (Number(searchParams.get('t')) * 1000 < Date.now()) return 'expired'
    const condition = searchParams.get('f')
    if (condition !== '' && this.#digest(headers['user-agent'] ?? '') !== searchParams.get('a'))
      return 'invalid user agent'
    const cookie = cookies.get('ACW_TC')
    if (condition === '3' && cookie === undefined) return 'no cookie value'
    if (condition === '3' && this.#digest(cookie ?? '') !== searchParams.get('n')) return 'invalid cookie value'
    const maxOpen = Number(searchParams.get('c'))
    if (maxOpen > 0 && (this.#open.get(signature) ?? 0) >= maxOpen) return 'too many connections'
    return undefined
  }

  #digest(text: string): string {
    return createHmac('sha1', this.#secret).update(text).digest('hex')
  }
}

export function textField(value: unknown, name: string): string {
  const found = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined
  return typeof found === 'string' || typeof found === 'number' ? String(found) : ''
}
