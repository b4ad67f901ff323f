/**
 * webdav-server as we use it: it makes the request's context, asks our authentication for the user, and hands the request
 * to one of our commands. What is replaced and why stands in docs/decisions/0003-webdav-engine.md.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
// The package's own entry loads its first version too, as much again.
import * as webdav from 'webdav-server/lib/index.v2.js'

/** What happens with a request, of which `Admitted` is all that the door knows. */
export interface EngineHooks<Admitted> {
  /** Finds out who asks; resolves to the name to show. Never rejects: what went wrong is the command's to answer. */
  authenticate(admitted: Admitted): Promise<string>
  /** Answers the request. Never rejects. */
  run(admitted: Admitted): Promise<void>
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

export class Engine<Admitted extends object> {
  readonly #server: webdav.WebDAVServer
  readonly #execute: Execute<Admitted>

  constructor(hooks: EngineHooks<Admitted>) {
    const options = new webdav.WebDAVServerOptions()
    options.httpAuthentication = new Authentication(hooks)
    options.rootFileSystem = new NoFiles()
    options.version = '2' // else it reads its package.json in the background
    this.#server = new webdav.WebDAVServer(options)
    this.#execute = this.#server.executeRequest as Execute<Admitted>
    const command: webdav.HTTPMethod = {
      // `chunked` even where a body is short: the other form allocates whatever Content-Length claims.
      chunked: (context, _body, done) => {
        void hooks.run((standInOf(context) as StandIn<Admitted>).admitted).then(done)
      },
    }
    for (const name of engineMethods) this.#server.method(name, command)
    this.#server.onUnknownMethod(command)
  }

  execute(method: string, admitted: Admitted): void {
    this.#execute({ ...plainRequest, method, admitted }, silence)
  }
}

/**
 * Where a request has no depth the engine throws, and catches, a TypeError, and for the root it makes a second context that
 * has none: a sixth of the time of a small request.
 */
const plainRequest = { url: '/tree', headers: { depth: '0' } }

/** What the engine is shown of a request: it throws on many a target and header. */
interface StandIn<Admitted> extends Pick<IncomingMessage, 'method' | 'url' | 'headers'> {
  readonly admitted: Admitted
}

type Execute<Admitted> = (request: StandIn<Admitted>, response: typeof silence) => void

function standInOf(context: webdav.HTTPRequestContext): unknown {
  return context.request
}

/**
 * What the engine is shown of every response: it would put headers of its own on each, print errors to the console, and end
 * it once more when a command is done.
 */
const silence: Pick<ServerResponse, 'statusCode' | 'statusMessage'> & Record<'on' | 'setHeader' | 'end', () => void> = {
  statusCode: 200,
  statusMessage: '',
  on: () => undefined,
  setHeader: () => undefined,
  end: () => undefined,
}

/** The engine's authentication interface over our accounts. */
class Authentication<Admitted> implements webdav.HTTPAuthentication {
  readonly #hooks: EngineHooks<Admitted>

  constructor(hooks: EngineHooks<Admitted>) {
    this.#hooks = hooks
  }

  /** The challenge goes with a 401 alone, not with every answer as the engine would have it. */
  askForAuthentication(): Record<string, string> {
    return {}
  }

  getUser(context: webdav.HTTPRequestContext, callback: (error: Error, user?: webdav.IUser) => void): void {
    void this.#hooks.authenticate((standInOf(context) as StandIn<Admitted>).admitted).then((username) => {
      // The engine's type forgets that there may be no error.
      callback(null as unknown as Error, { uid: username, username })
    })
  }
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
