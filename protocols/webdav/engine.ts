/**
 * Adapter for webdav-server: it creates the request's context, calls our authentication, and dispatches the request to
 * one of our commands. docs/decisions/0003-webdav-engine.md describes what is replaced, and why.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
// The package's main module also loads its version 1, which is as large.
import * as webdav from 'webdav-server/lib/index.v2.js'

/** Callbacks of the engine. `Admitted` is the protocol's representation of a validated request. */
export interface EngineHooks<Admitted> {
  /** Authenticates the request. Resolves to the user name. Never rejects: `run` reports the error. */
  authenticate(admitted: Admitted): Promise<string>
  /** Runs the command and sends the response. Never rejects. */
  run(admitted: Admitted): Promise<void>
}

/** Every method that the engine handles itself, or that its fallback would not run in the `chunked` form. */
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
    options.rootFileSystem = new EmptyFileSystem()
    options.version = '2' // otherwise it reads its package.json in the background
    this.#server = new webdav.WebDAVServer(options)
    this.#execute = this.#server.executeRequest as Execute<Admitted>
    const command: webdav.HTTPMethod = {
      // `chunked` for every body: the other form allocates a buffer of the size in Content-Length.
      chunked: (context, _body, done) => {
        void hooks.run((requestOf(context) as EngineRequest<Admitted>).admitted).then(done)
      },
    }
    for (const name of engineMethods) this.#server.method(name, command)
    this.#server.onUnknownMethod(command)
  }

  /** Runs a validated request. `method` is the HTTP method. */
  execute(method: string, admitted: Admitted): void {
    this.#execute({ ...requestTemplate, method, admitted }, nullResponse)
  }
}

/**
 * Target and headers that the engine sees for every request. Without a Depth header, the engine throws and catches a
 * TypeError; for the root, it creates a second context without that header. Both cost a sixth of the time of a small
 * request.
 */
const requestTemplate = { url: '/tree', headers: { depth: '0' } }

/**
 * The request that is passed to the engine. It replaces the real one, on many of whose targets and headers the engine
 * throws.
 */
interface EngineRequest<Admitted> extends Pick<IncomingMessage, 'method' | 'url' | 'headers'> {
  readonly admitted: Admitted
}

type Execute<Admitted> = (request: EngineRequest<Admitted>, response: typeof nullResponse) => void

function requestOf(context: webdav.HTTPRequestContext): unknown {
  return context.request
}

/**
 * The response that is passed to the engine. It replaces the real one, because the engine would add its own headers,
 * print errors to the console, and end the response again after the command.
 */
const nullResponse: Pick<ServerResponse, 'statusCode' | 'statusMessage'> &
  Record<'on' | 'setHeader' | 'end', () => void> = {
  statusCode: 200,
  statusMessage: '',
  on: () => undefined,
  setHeader: () => undefined,
  end: () => undefined,
}

/** Implements the engine's authentication interface with the hooks. */
class Authentication<Admitted> implements webdav.HTTPAuthentication {
  readonly #hooks: EngineHooks<Admitted>

  constructor(hooks: EngineHooks<Admitted>) {
    this.#hooks = hooks
  }

  /** Returns no headers: the engine would add the challenge to every response, not only to a 401. */
  askForAuthentication(): Record<string, string> {
    return {}
  }

  getUser(context: webdav.HTTPRequestContext, callback: (error: Error, user?: webdav.IUser) => void): void {
    void this.#hooks.authenticate((requestOf(context) as EngineRequest<Admitted>).admitted).then((username) => {
      // The engine's type does not allow null, which means no error.
      callback(null as unknown as Error, { uid: username, username })
    })
  }
}

/** The engine requires a file system. The commands use the tree instead, so this one is empty. */
class EmptyFileSystem extends webdav.FileSystem {
  constructor() {
    super({
      uid: () => 'tidegate',
      serialize: (_fileSystem, callback) => callback(undefined, undefined),
      unserialize: (_data, callback) => callback(webdav.Errors.InvalidOperation),
    })
  }

  /** Called for every request to determine the allowed methods, which are not restricted here. */
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
