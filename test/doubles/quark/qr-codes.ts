/** The sign-in by a QR code: the codes, what the app does with them, and the cookie that a browser gets in the end. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { QuarkSession } from './session.js'

type State = 'waiting' | 'confirmed' | 'expired'

export class QuarkQrCodes {
  readonly #codes = new Map<string, State>()
  /** Tickets of confirmed codes that no browser has used. */
  readonly #tickets = new Set<string>()
  /** Whether the page with the cookie leads to another one, which sets the rest of it. */
  redirects = false

  constructor(private readonly session: QuarkSession) {}

  /** The code whose picture has this text. Throws if there is none. */
  codeOf(text: string): string {
    const { origin, pathname, searchParams: query } = new URL(text)
    const code = query.get('token') ?? ''
    const isPage = `${origin}${pathname}` === 'https://su.quark.cn/4_eMHBJ'
    if (isPage && query.get('client_id') === '532' && query.get('ssb') === 'weblogin' && this.#codes.has(code))
      return code
    throw new Error(`the app does not know ${text}`)
  }

  /** What the app does with a code, or its time. */
  set(code: string, state: State): void {
    this.#codes.set(code, state)
  }

  answer(request: IncomingMessage, response: ServerResponse): void {
    request.resume()
    const { body, status = 200, headers = {} } = this.#answerTo(request)
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
  }

  #answerTo({ method, url = '', headers: { host = '', referer, cookie } }: IncomingMessage): Answer {
    const { pathname, searchParams: query } = new URL(url, `https://${host}`)
    if (method !== 'GET' || referer !== 'https://pan.quark.cn/') return { body: refusal, status: 400 }
    const isOfSite = query.get('client_id') === '532' && query.get('v') === '1.2' && query.has('request_id')
    switch (`${host.replace(/:\d+$/, '')}${pathname}`) {
      case 'uop.quark.cn/cas/ajax/getTokenForQrcodeLogin':
        return { body: isOfSite ? this.#begin() : refusal }
      case 'uop.quark.cn/cas/ajax/getServiceTicketByQrcodeToken':
        return { body: isOfSite ? this.#ticketOf(query.get('token') ?? '') : refusal }
      case 'pan.quark.cn/account/info':
        return this.#info(query, cookie)
      default:
        return { body: refusal, status: 404 }
    }
  }

  #begin(): unknown {
    const token = randomUUID()
    this.#codes.set(token, 'waiting')
    return { status: 2_000_000, message: 'ok', data: { members: { token } } }
  }

  #ticketOf(token: string): unknown {
    switch (this.#codes.get(token)) {
      case 'waiting':
        return { status: 50_004_001, message: 'QrCode token status is new' }
      case 'confirmed': {
        this.#codes.delete(token)
        const ticket = randomUUID()
        this.#tickets.add(ticket)
        return { status: 2_000_000, message: 'ok', data: { members: { service_ticket: ticket } } }
      }
      case 'expired':
      case undefined:
        return { status: 50_004_002, message: 'QrCode token is invalid' }
    }
  }

  /** A cookie for a ticket, which counts once. */
  #info(query: URLSearchParams, cookie: string | undefined): Answer {
    const [first = '', second = ''] = this.session.cookie.split('; ').filter((part) => part.startsWith('__pu'))
    const setting = (...parts: readonly string[]) => ({
      'set-cookie': parts.map((part) => `${part}; Domain=quark.cn; Path=/; HttpOnly; Secure`),
    })
    const body = { success: true, code: 'OK', data: { nickname: 'ann' } }
    if (this.redirects && query.get('st') === null) {
      return cookie === first ? { body, headers: setting(second) } : { body: refusal, status: 401 }
    }
    const isRight = query.get('lw') === 'scan' && this.#tickets.delete(query.get('st') ?? '')
    if (!isRight) return { body: { ...body, data: null } }
    if (!this.redirects) return { body, headers: setting(first, second) }
    return { body, status: 302, headers: { location: '/account/info?lw=scan', ...setting(first) } }
  }
}

interface Answer {
  readonly body: unknown
  readonly status?: number
  readonly headers?: Readonly<Record<string, string | string[]>>
}

const refusal = { status: 50_000_001, message: 'param error' }
