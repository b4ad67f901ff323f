/**
 * The WebDAV door: everything below `<site path>/dav/` on the shared HTTP port. It checks a request's target and headers,
 * lets the engine find the user and dispatch, runs the command, and turns what was thrown into an answer.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { toGatewayError } from '../../src/errors.js'
import type { Gateway } from '../../src/gateway.js'
import { LockedError } from '../../src/locks.js'
import { root } from '../../src/path.js'
import { drain } from '../lib/body.js'
import { clientOf, signalOf, sitePath, type Client, type ClientOptions } from '../lib/client.js'
import { answerCors } from '../lib/cors.js'
import type { RequestHandler } from '../lib/handler.js'
import { copy, move } from './commands/transfer.js'
import { lock, unlock } from './commands/lock.js'
import { propfind } from './commands/propfind.js'
import { proppatch } from './commands/proppatch.js'
import { answerOptions, get } from './commands/read.js'
import { mkcol, put, remove } from './commands/write.js'
import { identify, type Caller } from './credentials.js'
import { Engine } from './engine.js'
import { Refusal, toRefusal } from './errors.js'
import { allowedMethods, answerText, answerXml, type Command, type Exchange } from './exchange.js'
import { parseHeaders, type DavHeaders } from './headers.js'
import { hrefOf, locatePath, normalHost, type Site, type Target } from './location.js'

const commands: ReadonlyMap<string, Command> = new Map([
  ['GET', get],
  ['HEAD', get],
  ['PUT', put],
  ['DELETE', remove],
  ['MKCOL', mkcol],
  ['COPY', copy],
  ['MOVE', move],
  ['PROPFIND', propfind],
  ['PROPPATCH', proppatch],
  ['LOCK', lock],
  ['UNLOCK', unlock],
])

/** Methods of HTTP itself: known, but not for what is here (RFC 9110 §9.1 tells 405 and 501 apart). */
const knownMethods = ['POST', 'PATCH', 'TRACE']

const challenge = { 'www-authenticate': 'Basic realm="Tidegate", charset="UTF-8"' }

/** A request whose target and headers are sound. */
interface Admitted {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Absent for OPTIONS, which is answered to everybody. */
  readonly command: Command | undefined
  readonly target: Target
  readonly headers: DavHeaders
  readonly client: Client
  /** Set by the authentication; an error is answered by the command's place. */
  caller?: Caller | { readonly error: unknown }
}

/** `client` says where clients reach this server and which proxies are believed. */
export function webdavDoor(gateway: Gateway, client: ClientOptions): RequestHandler {
  const door = new Door(gateway, client)
  const { cors_origins: origins } = gateway.config
  return (request, response) => {
    if (!answerCors(request, response, origins, 'declared')) door.handle(request, response)
  }
}

class Door {
  readonly #gateway: Gateway
  readonly #options: ClientOptions
  readonly #prefix: string
  readonly #engine: Engine<Admitted>

  constructor(gateway: Gateway, options: ClientOptions) {
    this.#gateway = gateway
    this.#options = options
    this.#prefix = `${sitePath(options.siteUrl)}/dav`
    this.#engine = new Engine({
      authenticate: (admitted) => this.#authenticate(admitted),
      run: (admitted) => this.#run(admitted),
    })
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    try {
      this.#engine.execute(request.method ?? '', this.#admit(request, response))
    } catch (error) {
      this.#refuse(request, response, error)
      void drain(request)
    }
  }

  /** Everything that can be malformed is looked at here, before the engine would. */
  #admit(request: IncomingMessage, response: ServerResponse): Admitted {
    const client = clientOf(request, this.#options)
    const target = this.#target(request.url ?? '')
    const method = request.method ?? ''
    const command = commands.get(method)
    if (command === undefined && method !== 'OPTIONS') {
      const status = knownMethods.includes(method) ? 405 : 501
      throw new Refusal(status, `${method} is not supported`, { headers: { allow: allowedMethods } })
    }
    const headers = parseHeaders(request.headers, () => this.#site(request, client))
    return { request, response, command, target, headers, client }
  }

  #target(requestTarget: string): Target {
    // RFC 9112 §3.2.2: a proxy may send the absolute form.
    const url = requestTarget.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '')
    if (url.includes('#')) throw new Refusal(400, 'a request target has no fragment')
    if (url === '*') return { path: root, slash: true }
    const target = locatePath(url.split('?', 1)[0] ?? '', this.#prefix)
    if (target === undefined) throw new Refusal(404, `WebDAV is at ${this.#prefix}/`)
    return target
  }

  #site(request: IncomingMessage, client: Client): Site {
    // The second holds the host that a trusted proxy tells, where the site has an address of its own.
    const told = clientOf(request, { ...this.#options, siteUrl: '' })
    const hosts = [client.origin, told.origin].map((origin) => normalHost(origin.slice(origin.indexOf('//') + 2)))
    if (request.headers.host !== undefined) hosts.push(normalHost(request.headers.host))
    return { prefix: this.#prefix, hosts: new Set(hosts) }
  }

  async #authenticate(admitted: Admitted): Promise<string> {
    if (admitted.command === undefined) return ''
    try {
      const { authorization } = admitted.request.headers
      admitted.caller = await identify(this.#gateway.accounts, authorization, admitted.client.address)
      return admitted.caller.principal.username
    } catch (error) {
      admitted.caller = { error }
      return ''
    }
  }

  async #run(admitted: Admitted): Promise<void> {
    const { request, response, command, caller } = admitted
    const anonymous = caller !== undefined && 'anonymous' in caller && caller.anonymous
    try {
      if (caller !== undefined && 'error' in caller) throw caller.error
      if (command === undefined) answerOptions(response)
      else if (caller !== undefined) await command(this.#exchange(admitted, caller, signalOf(response)))
    } catch (error) {
      this.#refuse(request, response, error, anonymous)
    }
    await drain(request)
  }

  #exchange({ request, response, target, headers }: Admitted, caller: Caller, signal: AbortSignal): Exchange {
    const ask = { signal, password: caller.folderPassword }
    return {
      request,
      response,
      path: target.path,
      slash: target.slash,
      headers,
      prefix: this.#prefix,
      fs: this.#gateway.as(caller.principal),
      ask,
      change: { ...ask, ...headers.conditions, lockTokens: headers.lockTokens },
    }
  }

  /** Answers with the error, or ends the connection where the answer has begun. Logs what nobody foresaw, once. */
  #refuse(request: IncomingMessage, response: ServerResponse, error: unknown, anonymous = false): void {
    const known = error instanceof Refusal ? undefined : toGatewayError(error)
    // The core has logged its own; a read that fails in the middle of an answer has passed it.
    if (known?.code === 'internal' && (known !== error || response.headersSent)) {
      this.#gateway.log.error({ err: known.cause ?? known, method: request.method }, `webdav: ${known.message}`)
    }
    if (response.headersSent || response.destroyed) {
      response.destroy() // a short answer must not look whole
      return
    }
    const refusal = toRefusal(error)
    // Whoever showed no credentials may hold some that open this.
    const status = refusal.status === 403 && anonymous && known !== undefined ? 401 : refusal.status
    const headers = { ...refusal.headers, ...(status === 401 ? challenge : {}) }
    if (refusal.condition === undefined) {
      answerText(response, status, refusal.message, headers)
      return
    }
    const detail =
      known instanceof LockedError ? `<D:href>${hrefOf(this.#prefix, known.lock.path, false)}</D:href>` : ''
    const element = `<D:${refusal.condition}>${detail}</D:${refusal.condition}>`
    answerXml(response, status, `<D:error xmlns:D="DAV:">${element}</D:error>`, headers)
  }
}
