/**
 * Adapter for webdav-server. The package creates the context of a request, has it authenticated, and finds its handler.
 * docs/decisions/0003-webdav-engine.md describes what is replaced, and why.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
// The package's main module also loads its version 1, which is as large.
import * as webdav from 'webdav-server/lib/index.v2.js'

/** The package's representation of an authenticated user. */
export type User = webdav.IUser

/** A request, its response, and what the protocol has parsed of them. */
export interface Dispatchable {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

/** Sends the response to a request. Never rejects. */
export type Handler<Request, Caller> = (parsed: Request, caller: Caller) => Promise<void>

interface WebdavEngineOptions<Request, Caller> {
  readonly handlers: ReadonlyMap<string, Handler<Request, Caller>>
  /** Handles every method that is not in `handlers`. */
  readonly unknownMethod: Handler<Request, Caller>
  /** Authenticates a request. Calls `proceed` with its user, or sends an error response. Never throws. */
  readonly authenticate: (parsed: Request, proceed: (caller?: Caller) => void) => void
}

export class WebdavEngine<Request extends Dispatchable, Caller extends User> {
  readonly #execute: Execute

  constructor({ handlers, unknownMethod, authenticate }: WebdavEngineOptions<Request, Caller>) {
    const options = new webdav.WebDAVServerOptions()
    options.httpAuthentication = {
      // The package would add the challenge to every response, not only to a 401.
      askForAuthentication: () => ({}),
      getUser: ({ request }: EngineRequest<Request, Caller>, callback) =>
        // The package's type does not allow null, which means no error.
        authenticate(request.parsed, (caller) => callback(null as unknown as Error, caller)),
    }
    options.rootFileSystem = new EmptyFileSystem()
    // Otherwise it reads its package.json in the background (webdav-server: lib/server/v2/WebDAVServerOptions.js).
    options.version = '2'
    const server = new webdav.WebDAVServer(options)
    for (const [name, handler] of handlers) server.method(name, methodOf(handler))
    server.onUnknownMethod(methodOf(unknownMethod))
    this.#execute = server.executeRequest as Execute
  }

  /**
   * Dispatches a request whose headers are parsed. Replaces its target by `target`, and removes If and Destination: the
   * package throws on malformed ones. It also throws, and catches, a TypeError if Depth is missing
   * (webdav-server: lib/server/v2/RequestContext.js): RFC 4918 §10.2 defines the default. The response has no headers
   * afterwards.
   */
  dispatch(parsed: Request, target: string): void {
    const { request, response } = parsed
    Object.assign(request, { parsed, url: target })
    delete request.headers.if
    delete request.headers.destination
    request.headers.depth ??= 'infinity'
    this.#execute(request, response)
    // The package has added headers, and a listener that prints errors to the console
    // (webdav-server: lib/server/v2/RequestContext.js).
    for (const name of response.getHeaderNames()) response.removeHeader(name)
    response.removeAllListeners('error')
  }
}

class EmptyFileSystem extends webdav.VirtualFileSystem {
  /** Called for every request, for the Allow header that is removed. Without this, it would check privileges first. */
  override type(
    _context: webdav.RequestContext,
    _path: webdav.Path | string,
    callback: webdav.ReturnCallback<webdav.ResourceType>,
  ): void {
    callback(webdav.Errors.ResourceNotFound)
  }
}

type Execute = (request: IncomingMessage, response: ServerResponse) => void

/** The package's context of a request. */
interface EngineRequest<Request, Caller extends User> extends webdav.HTTPRequestContext {
  request: IncomingMessage & { readonly parsed: Request }
  user: Caller
}

function methodOf<Request, Caller extends User>(handler: Handler<Request, Caller>): webdav.HTTPMethod {
  return {
    // `chunked` for every body: the other form allocates a buffer of the size in Content-Length
    // (webdav-server: lib/server/v2/webDAVServer/StartStop.js).
    chunked({ request, response, user }: EngineRequest<Request, Caller>, _body, done) {
      response.removeHeader('Allow') // the package adds it after the authentication
      void handler(request.parsed, user).then(done)
    },
  }
}
