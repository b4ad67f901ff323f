/**
 * The WebDAV protocol: everything below `<site path>/dav/` on the shared HTTP port. It parses the target and headers of
 * a request, answers it or lets the engine dispatch it, and converts errors into responses.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { toGatewayError } from '../../src/base/errors.js'
import { logInternal } from '../../src/base/log.js'
import { childOf, root, shareFolder, type Path } from '../../src/base/path.js'
import type { ProtocolGateway } from '../../src/gateway/protocol-gateway.js'
import { LockedError } from '../../src/locks/webdav-locks.js'
import { pathInShare, type PathInShare } from '../../src/shares/path-in-share.js'
import { noteCaller } from '../lib/callers.js'
import { clientOf, signalOf, sitePath, type Client, type ClientOptions } from '../lib/client.js'
import { handleCors } from '../lib/cors.js'
import type { RequestHandler } from '../lib/protocol.js'
import { drain } from '../lib/request-body.js'
import { requestDetails, pathOf } from '../lib/request-target.js'
import { lock, unlock } from './commands/lock.js'
import { propfind } from './commands/propfind.js'
import { proppatch } from './commands/proppatch.js'
import { sendOptions, get } from './commands/read.js'
import { copy, move } from './commands/transfer.js'
import { mkcol, put, remove } from './commands/write.js'
import { authenticate, KnownCallers, type Caller } from './credentials.js'
import { answerRoots, Drives, visitorFailure, type DriveVisitor } from './drives.js'
import { WebdavEngine, type Dispatchable, type Handler } from './engine.js'
import { errorResponses, WebdavError, toErrorResponse } from './errors.js'
import { parseHeaders, type DavHeaders } from './headers.js'
import { webdav } from './index.js'
import { hrefOf, locatePath, normalizeHost, type Site, type RequestTarget } from './location.js'
import { allowedMethods, sendText, sendXml, type Command, type WebdavRequest } from './webdav-request.js'

/** The commands that need nothing of the engine. */
const directCommands: ReadonlyMap<string, Command> = new Map([
  ['GET', get],
  ['HEAD', get],
  ['PUT', put],
])

const engineCommands: ReadonlyMap<string, Command> = new Map([
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
interface ParsedRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly target: RequestTarget
  /** The share that the target is in. */
  readonly share: PathInShare | undefined
  readonly headers: DavHeaders
  /** In a share: the headers, with paths within this folder. Throws as `parseHeaders`. */
  readonly headersIn: (folder: Path) => DavHeaders
  readonly client: Client
}

type Asker = Caller | DriveVisitor

function isSupported({ method }: IncomingMessage): boolean {
  return supportedMethods.has(method ?? '')
}
const supportedMethods: ReadonlySet<string> = new Set(allowedMethods.split(', '))

/** The parts of the gateway that this protocol uses. */
type WebDavGateway = Pick<ProtocolGateway, 'accounts' | 'as' | 'config' | 'log' | 'visitorAccess'>

/** The handler of the WebDAV protocol. `client`: the public location of this server, and the trusted proxies. */
export function webdavHandler(gateway: WebDavGateway, client: ClientOptions): RequestHandler {
  const handler = new WebdavHandler(gateway, client)
  return (request, response) => handler.handle(request, response)
}

class WebdavHandler {
  readonly #gateway: WebDavGateway
  readonly #options: ClientOptions
  readonly #prefix: string
  readonly #callers = new KnownCallers()
  readonly #drives: Drives
  readonly #engine: WebdavEngine<ParsedRequest, Asker>

  constructor(gateway: WebDavGateway, options: ClientOptions) {
    this.#gateway = gateway
    this.#options = options
    this.#prefix = sitePath(options.siteUrl) + webdav.path
    this.#drives = new Drives(gateway, this.#prefix)
    const handlers = new Map<string, Handler<ParsedRequest, Asker>>()
    for (const [name, command] of engineCommands) {
      handlers.set(name, (parsed, asker) => this.#run(command, parsed, asker))
    }
    for (const name of knownMethods) handlers.set(name, (parsed) => this.#refuseMethod(parsed, 'method_not_allowed'))
    this.#engine = new WebdavEngine({
      handlers,
      unknownMethod: (parsed) => this.#refuseMethod(parsed, 'method_unknown'),
      authenticate: (parsed, proceed) => {
        if (isSupported(parsed.request)) this.#authenticate(parsed, proceed)
        else proceed()
      },
    })
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    if (this.#handleCors(request, response)) return
    try {
      const parsed = this.#parse(request, response)
      const command = directCommands.get(request.method ?? '')
      if (command) {
        this.#authenticate(parsed, (asker) => void this.#run(command, parsed, asker))
      } else if (request.method === 'OPTIONS') {
        sendOptions(response)
        void drain(request)
      } else {
        const { path, slash } = parsed.target
        this.#engine.dispatch(parsed, hrefOf(this.#prefix, path, slash))
        this.#handleCors(request, response) // the engine has removed the headers
      }
    } catch (error) {
      void this.#fail({ request, response }, error)
    }
  }

  #handleCors(request: IncomingMessage, response: ServerResponse): boolean {
    return handleCors(request, response, this.#gateway.config.cors_origins, 'declared')
  }

  /** Parses everything that can be malformed. Throws a GatewayError or an HTTP error. */
  #parse(request: IncomingMessage, response: ServerResponse): ParsedRequest {
    const client = clientOf(request, this.#options)
    const target = this.#target(request.url ?? '')
    const share = shareAt(target.path)
    // A method that is not supported is refused, whatever the headers are.
    const given = isSupported(request) ? request.headers : {}
    // The engine removes some of them before a share is opened.
    const received = share === undefined ? given : { ...given }
    const headersIn = (folder: Path) => {
      let site: Site | undefined
      return parseHeaders(received, () => (site ??= this.#site(request, client, folder)))
    }
    const headers = headersIn(share === undefined ? root : folderOf(share))
    // No account reaches a share.
    const { destination } = headers
    if (share === undefined && destination !== undefined && shareAt(destination) !== undefined) {
      throw new WebdavError('foreign_destination')
    }
    return { request, response, target, share, headers, headersIn, client }
  }

  #target(requestTarget: string): RequestTarget {
    if (requestTarget.includes('#')) throw new WebdavError('fragment_in_target')
    if (requestTarget === '*') return { path: root, slash: true }
    const target = locatePath(pathOf(requestTarget), this.#prefix)
    if (target === undefined) throw new WebdavError('outside_prefix', { subject: this.#prefix })
    return target
  }

  /** `folder`: where paths begin. */
  #site(request: IncomingMessage, client: Client, folder: Path): Site {
    // If `siteUrl` is a full URL, `client` has its host. The host that a trusted proxy reports is accepted too.
    const forwarded = clientOf(request, { ...this.#options, siteUrl: '' })
    const hosts = [client.origin, forwarded.origin].map((origin) =>
      normalizeHost(origin.slice(origin.indexOf('//') + 2)),
    )
    if (request.headers.host !== undefined) hosts.push(normalizeHost(request.headers.host))
    return { prefix: folder === root ? this.#prefix : this.#prefix + folder, hosts: new Set(hosts) }
  }

  /** Calls `proceed` with the authenticated caller or visitor, or sends the error response. */
  #authenticate(parsed: ParsedRequest, proceed: (asker: Asker) => void): void {
    const { request, share, client } = parsed
    // Credentials of an account open no share, and those of a share open no tree.
    const known = share === undefined ? this.#callers.get(request, client.address) : undefined
    const noted = (asker: Asker) => {
      const { principal } = asker as Partial<Caller>
      const user = principal && { id: principal.userId, name: principal.username }
      noteCaller(request, { protocol: webdav.name, user, address: client.address })
      proceed(asker)
    }
    if (known) noted(known)
    else void this.#verify(parsed, noted)
  }

  async #verify(parsed: ParsedRequest, proceed: (asker: Asker) => void): Promise<void> {
    try {
      proceed((await this.#visitor(parsed)) ?? (await this.#caller(parsed)))
    } catch (error) {
      await this.#fail(parsed, error)
    }
  }

  /** The visitor of a share; undefined if the request is for the tree. */
  async #visitor(parsed: ParsedRequest): Promise<DriveVisitor | undefined> {
    const { request, share, target } = parsed
    if (share !== undefined) return this.#drives.open(parsed, share)
    return request.method === 'PROPFIND' && target.path === root ? this.#drives.openRoot(parsed) : undefined
  }

  async #caller({ request, response, client: { address } }: ParsedRequest): Promise<Caller> {
    const credentials = { address, signal: signalOf(response) }
    const caller = await authenticate(this.#gateway, request.headers.authorization, credentials)
    this.#callers.add(request, address, caller)
    return caller
  }

  /** Runs a command and discards the rest of the body. */
  async #run(command: Command, parsed: ParsedRequest, asker: Asker): Promise<void> {
    try {
      await this.#answer(command, parsed, asker)
      await drain(parsed.request)
    } catch (error) {
      await this.#fail(parsed, 'drive' in asker ? visitorFailure(error, parsed.request.method) : error, asker)
    }
  }

  #answer(command: Command, parsed: ParsedRequest, asker: Asker): Promise<void> {
    const { target, headers } = parsed
    if (!('drive' in asker)) {
      const { fs, folderPassword } = asker
      const asked = { fs, path: target.path, prefix: this.#prefix, headers, name: undefined, isVisitor: false }
      return command(webdavRequestOf(parsed, asked, folderPassword))
    }
    const { drive } = asker
    return drive.kind === 'entry'
      ? command(webdavRequestOf(parsed, { ...drive, isVisitor: true }))
      : answerRoots(webdavRequestOf(parsed, { ...drive, isVisitor: true }))
  }

  #refuseMethod(parsed: ParsedRequest, error: 'method_not_allowed' | 'method_unknown'): Promise<void> {
    const subject = parsed.request.method
    return this.#fail(parsed, new WebdavError(error, { subject, headers: { allow: allowedMethods } }))
  }

  /** Sends the error response and discards the rest of the body. */
  async #fail({ request, response }: Dispatchable, error: unknown, asker?: Asker): Promise<void> {
    this.#sendError(request, response, error, asker)
    await drain(request)
  }

  /** Sends the error response, or closes the connection if the response has begun. Logs internal errors once. */
  #sendError(request: IncomingMessage, response: ServerResponse, error: unknown, asker?: Asker): void {
    const cause = error instanceof WebdavError ? undefined : toGatewayError(error)
    if (cause) {
      const user = asker?.username
      const details = { ...(user !== undefined && { user }), protocol: webdav.name, ...requestDetails(request) }
      logInternal(this.#gateway.log, cause, details)
    }
    if (response.headersSent || response.destroyed) {
      response.destroy() // the client must detect the truncated response
      return
    }
    const refusal = toErrorResponse(error)
    // An anonymous client may have credentials that grant access.
    const { denied, unauthenticated } = errorResponses
    const isChallenged = refusal.status === denied.status && asker?.isDefaultUser === true && cause !== undefined
    const status = isChallenged ? unauthenticated.status : refusal.status
    const headers = { ...refusal.headers, ...(status === unauthenticated.status ? challenge : {}) }
    if (refusal.condition === undefined) {
      sendText(response, status, refusal.message, headers)
      return
    }
    const prefix = asker !== undefined && 'drive' in asker ? asker.drive.prefix : this.#prefix
    const detail = cause instanceof LockedError ? `<D:href>${hrefOf(prefix, cause.lock.path, false)}</D:href>` : ''
    const element = `<D:${refusal.condition}>${detail}</D:${refusal.condition}>`
    sendXml(response, status, `<D:error xmlns:D="DAV:">${element}</D:error>`, headers)
  }
}

const shares = childOf(root, shareFolder)

/** The share that a path below that of this protocol is in. */
function shareAt(path: Path): PathInShare | undefined {
  return path.startsWith(shares) ? pathInShare(path) : undefined
}

/** The folder of a share, among the paths below that of this protocol. */
function folderOf({ id }: PathInShare): Path {
  return id === '' ? shares : childOf(shares, id)
}

/** `asked`: what of the tree it is about, and for whom. */
function webdavRequestOf<Tree>(
  { request, response, target, client }: ParsedRequest,
  asked: Pick<WebdavRequest<Tree>, 'fs' | 'path' | 'prefix' | 'headers' | 'name' | 'isVisitor'>,
  password?: string,
): WebdavRequest<Tree> {
  const signal = signalOf(response)
  const { lockTokens, conditions } = asked.headers
  const { ifMatch, ifNoneMatch, ifUnmodifiedSince } = conditions
  return {
    request,
    response,
    path: asked.path,
    slash: target.slash,
    headers: asked.headers,
    prefix: asked.prefix,
    fs: asked.fs,
    name: asked.name,
    isVisitor: asked.isVisitor,
    address: client.address,
    access: { signal, password },
    change: { signal, password, lockTokens, if: conditions.if, ifMatch, ifNoneMatch, ifUnmodifiedSince },
  }
}
