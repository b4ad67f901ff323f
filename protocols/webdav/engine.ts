/**
 * webdav-server as we use it: it makes the request's context, asks our authentication for the user, and hands the request
 * to one of our commands. What is replaced and why stands in docs/decisions/0003-webdav-engine.md.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { v2 as webdav } from 'webdav-server'

export interface EngineHooks {
  /** Finds out who asks; returns the name to show. Never rejects: what went wrong is the command's to answer. */
  authenticate(request: IncomingMessage): Promise<string>
  /** Answers the request. Never rejects. */
  run(request: IncomingMessage): Promise<void>
}

/** Every method that the engine would answer itself, or leave without its `chunked` form. */
const engineMethods = [
  'OPTIONS',
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'DELETE',
  'MKCOL',
  'COPY',
  'MOVE',
  'PROPFIND',
  'PROPPATCH',
  'LOCK',
  'UNLOCK',
] as const

export class Engine {
  readonly #server: webdav.WebDAVServer

  constructor(hooks: EngineHooks) {
    const options = new webdav.WebDAVServerOptions()
    options.httpAuthentication = new Authentication(hooks)
    options.rootFileSystem = new NoFiles()
    options.version = '2' // else it reads its package.json in the background
    this.#server = new webdav.WebDAVServer(options)
    const command: webdav.HTTPMethod = {
      // `chunked` even where a body is short: the other form allocates whatever Content-Length claims.
      chunked: (context, _body, done) => {
        clearDefaults(context.response)
        void hooks.run(context.request).then(done)
      },
    }
    for (const name of engineMethods) this.#server.method(name, command)
    this.#server.onUnknownMethod(command)
  }

  /** The target and headers of the request have been checked: the engine throws on malformed ones. */
  execute(request: IncomingMessage, response: ServerResponse): void {
    const execute = this.#server.executeRequest as (request: IncomingMessage, response: ServerResponse) => void
    execute(request, response)
  }
}

/** The engine's authentication interface over our accounts. */
class Authentication implements webdav.HTTPAuthentication {
  readonly #hooks: EngineHooks

  constructor(hooks: EngineHooks) {
    this.#hooks = hooks
  }

  /** The challenge goes with a 401 alone, not with every answer as the engine would have it. */
  askForAuthentication(): Record<string, string> {
    return {}
  }

  getUser(context: webdav.HTTPRequestContext, callback: (error: Error, user?: webdav.IUser) => void): void {
    void this.#hooks.authenticate(context.request).then((username) => {
      // The engine's type forgets that there may be no error.
      callback(null as unknown as Error, { uid: username, username })
    })
  }
}

/** Headers that the engine puts on every answer, and its listener that prints errors to the console. */
function clearDefaults(response: ServerResponse): void {
  for (const name of ['Allow', 'DAV', 'MS-Author-Via', 'Server']) response.removeHeader(name)
  for (const name of ['Origin', 'Credentials']) response.removeHeader(`Access-Control-Allow-${name}`)
  response.removeHeader('Access-Control-Expose-Headers')
  response.removeAllListeners('error').on('error', () => undefined) // its 'close' ends the exchange
}

/** The engine insists on a file system. Ours is behind the commands, so this one knows nothing of any path. */
class NoFiles extends webdav.FileSystem {
  constructor() {
    super({
      uid: () => 'tidegate',
      serialize: (_fileSystem, callback) => callback(undefined, undefined),
      unserialize: (_data, callback) => callback(webdav.Errors.InvalidOperation),
    })
  }

  /** Asked for every request, to know which methods to allow; all of them are. */
  override type(
    _context: webdav.RequestContext,
    _path: webdav.Path | string,
    callback: webdav.ReturnCallback<webdav.ResourceType>,
  ): void {
    callback(webdav.Errors.ResourceNotFound)
  }

  _lockManager(_path: webdav.Path, _info: unknown, callback: webdav.ReturnCallback<webdav.ILockManager>): void {
    callback(webdav.Errors.InvalidOperation)
  }

  _propertyManager(_path: webdav.Path, _info: unknown, callback: webdav.ReturnCallback<webdav.IPropertyManager>): void {
    callback(webdav.Errors.InvalidOperation)
  }

  _type(_path: webdav.Path, _info: unknown, callback: webdav.ReturnCallback<webdav.ResourceType>): void {
    callback(webdav.Errors.ResourceNotFound)
  }
}
