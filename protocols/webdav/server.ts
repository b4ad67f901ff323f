/**
 * The WebDAV protocol: everything below `<site path>/dav/` on the shared HTTP port. It parses the target and headers of
 * a request, lets the engine authenticate and dispatch it, runs the command, and converts errors into responses.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { toGatewayError } from '../../src/contract/errors.js'
import { root } from '../../src/contract/path.js'
import type { ProtocolGateway } from '../../src/gateway/gateway.js'
import { LockedError } from '../../src/tree/locks.js'
import { clientOf, signalOf, sitePath, type Client, type ClientOptions } from '../lib/client.js'
import { handleCors } from '../lib/cors.js'
import type { RequestHandler } from '../lib/handler.js'
import { drain } from '../lib/request-body.js'
import { lock, unlock } from './commands/lock.js'
import { propfind } from './commands/propfind.js'
import { proppatch } from './commands/proppatch.js'
import { sendOptions, get } from './commands/read.js'
import { copy, move } from './commands/transfer.js'
import { mkcol, put, remove } from './commands/write.js'
import { authenticate, type Caller } from './credentials.js'
import { Engine } from './engine.js'
import { HttpError, toHttpError } from './errors.js'
import { parseHeaders, type DavHeaders } from './headers.js'
import { hrefOf, locatePath, normalizeHost, type Site, type Target } from './location.js'
import { allowedMethods, sendText, sendXml, type Command, type RequestContext } from './request-context.js'

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

/** Known methods that no resource supports: 405 instead of 501 (RFC 9110 §9.1). */
const knownMethods = ['POST', 'PATCH', 'TRACE']

const challenge = { 'www-authenticate': 'Basic realm="Tidegate", charset="UTF-8"' }

/** A request whose target and headers are valid. */
interface ValidRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** Undefined for OPTIONS, which requires no authentication. */
  readonly command: Command | undefined
  readonly target: Target
  readonly headers: DavHeaders
  readonly client: Client
  /** Set by `#authenticate`. `#run` reports the error instead of running the command. */
  caller?: Caller | { readonly error: unknown }
}

/** The handler of the WebDAV protocol. `client`: the public location of this server, and the trusted proxies. */
export function webdavHandler(gateway: ProtocolGateway, client: ClientOptions): RequestHandler {
  const protocol = new Protocol(gateway, client)
  const { cors_origins: origins } = gateway.config
  return (request, response) => {
    if (!handleCors(request, response, origins, 'declared')) protocol.handle(request, response)
  }
}

class Protocol {
  readonly #gateway: ProtocolGateway
  readonly #options: ClientOptions
  readonly #prefix: string
  readonly #engine: Engine<ValidRequest>

  constructor(gateway: ProtocolGateway, options: ClientOptions) {
    this.#gateway = gateway
    this.#options = options
    this.#prefix = `${sitePath(options.siteUrl)}/dav`
    this.#engine = new Engine({
      authenticate: (valid) => this.#authenticate(valid),
      run: (valid) => this.#run(valid),
    })
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    try {
      this.#engine.execute(request.method ?? '', this.#parse(request, response))
    } catch (error) {
      this.#sendError(request, response, error)
      void drain(request)
    }
  }

  /** Parses everything that can be malformed. Throws a GatewayError or an HTTP error. */
  #parse(request: IncomingMessage, response: ServerResponse): ValidRequest {
    const client = clientOf(request, this.#options)
    const target = this.#target(request.url ?? '')
    const method = request.method ?? ''
    const command = commands.get(method)
    if (command === undefined && method !== 'OPTIONS') {
      const status = knownMethods.includes(method) ? 405 : 501
      throw new HttpError(status, `${method} is not supported`, { headers: { allow: allowedMethods } })
    }
    const headers = parseHeaders(request.headers, () => this.#site(request, client))
    return { request, response, command, target, headers, client }
  }

  #target(requestTarget: string): Target {
    // RFC 9112 §3.2.2: proxies may send the absolute form.
    const url = requestTarget.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, '')
    if (url.includes('#')) throw new HttpError(400, 'a request target must not have a fragment')
    if (url === '*') return { path: root, slash: true }
    const target = locatePath(url.split('?', 1)[0] ?? '', this.#prefix)
    if (target === undefined) throw new HttpError(404, `WebDAV is at ${this.#prefix}/`)
    return target
  }

  #site(request: IncomingMessage, client: Client): Site {
    // If `siteUrl` is a full URL, `client` has its host. The host that a trusted proxy reports is accepted too.
    const forwarded = clientOf(request, { ...this.#options, siteUrl: '' })
    const hosts = [client.origin, forwarded.origin].map((origin) =>
      normalizeHost(origin.slice(origin.indexOf('//') + 2)),
    )
    if (request.headers.host !== undefined) hosts.push(normalizeHost(request.headers.host))
    return { prefix: this.#prefix, hosts: new Set(hosts) }
  }

  async #authenticate(valid: ValidRequest): Promise<string> {
    if (valid.command === undefined) return ''
    try {
      const { authorization } = valid.request.headers
      valid.caller = await authenticate(this.#gateway.accounts, authorization, valid.client.address)
      return valid.caller.principal.username
    } catch (error) {
      valid.caller = { error }
      return ''
    }
  }

  async #run(valid: ValidRequest): Promise<void> {
    const { request, response, command, caller } = valid
    const anonymous = caller !== undefined && 'anonymous' in caller && caller.anonymous
    try {
      if (caller !== undefined && 'error' in caller) throw caller.error
      if (command === undefined) sendOptions(response)
      else if (caller !== undefined) await command(this.#contextOf(valid, caller, signalOf(response)))
    } catch (error) {
      this.#sendError(request, response, error, anonymous)
    }
    await drain(request)
  }

  #contextOf(
    { request, response, target, headers }: ValidRequest,
    caller: Caller,
    signal: AbortSignal,
  ): RequestContext {
    const access = { signal, password: caller.folderPassword }
    return {
      request,
      response,
      path: target.path,
      slash: target.slash,
      headers,
      prefix: this.#prefix,
      fs: this.#gateway.as(caller.principal),
      access: access,
      change: { ...access, ...headers.conditions, lockTokens: headers.lockTokens },
    }
  }

  /** Sends the error response, or closes the connection if the response has begun. Logs internal errors once. */
  #sendError(request: IncomingMessage, response: ServerResponse, error: unknown, anonymous = false): void {
    const cause = error instanceof HttpError ? undefined : toGatewayError(error)
    // The tree has logged its own errors, except for a read that fails after the response has begun.
    if (cause?.code === 'internal' && (cause !== error || response.headersSent)) {
      this.#gateway.log.error({ err: cause.cause ?? cause, method: request.method }, `webdav: ${cause.message}`)
    }
    if (response.headersSent || response.destroyed) {
      response.destroy() // the client must detect the truncated response
      return
    }
    const httpError = toHttpError(error)
    // An anonymous client may have credentials that grant access.
    const status = httpError.status === 403 && anonymous && cause !== undefined ? 401 : httpError.status
    const headers = { ...httpError.headers, ...(status === 401 ? challenge : {}) }
    if (httpError.condition === undefined) {
      sendText(response, status, httpError.message, headers)
      return
    }
    const detail =
      cause instanceof LockedError ? `<D:href>${hrefOf(this.#prefix, cause.lock.path, false)}</D:href>` : ''
    const element = `<D:${httpError.condition}>${detail}</D:${httpError.condition}>`
    sendXml(response, status, `<D:error xmlns:D="DAV:">${element}</D:error>`, headers)
  }
}
