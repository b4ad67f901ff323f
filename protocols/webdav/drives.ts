/**
 * Shares as drives: `/@s/ID` and what is below, for visitors whose Basic credentials are the id of the share and its
 * code. A share that has no code is opened with any password. Each request is checked, and no connection
 * is remembered, as those of accounts are.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/base/errors.js'
import { childOf, root, segmentsOf, shareFolder, truncateTo, type Path } from '../../src/base/path.js'
import type { ProtocolGateway } from '../../src/gateway/protocol-gateway.js'
import { holderOfShare, LockedError } from '../../src/locks/webdav-locks.js'
import type { OpenShare, SharedPlace } from '../../src/shares/open-share.js'
import type { PathInShare } from '../../src/shares/path-in-share.js'
import type { VisitorRequest } from '../../src/shares/visitor-access.js'
import { visitorError } from '../../src/shares/visitor-errors.js'
import type { VirtualFs } from '../../src/tree/virtual-fs.js'
import { signalOf, type Client } from '../lib/client.js'
import { setVisitorHeaders, visitorCaching } from '../lib/visitor-headers.js'
import { propfind } from './commands/propfind.js'
import { parseAuthorization } from './credentials.js'
import type { User } from './engine.js'
import { WebdavError } from './errors.js'
import type { DavHeaders } from './headers.js'
import { webdav } from './index.js'
import { encodeSegment } from './location.js'
import { RootsFolder } from './roots-folder.js'
import { sendStatus, type Command } from './webdav-request.js'

/** What of a share a request is about. */
interface DriveTarget<Tree> {
  readonly fs: Tree
  /** The path within `fs`. */
  readonly path: Path
  /** The prefix of every href: the URL of the root of `fs`. */
  readonly prefix: string
  /** The headers of the request, with paths within `fs`. */
  readonly headers: DavHeaders
  /** The name by which visitors know what has the path; undefined: the name of the path. */
  readonly name: string | undefined
}

/** The visitor who makes a request. */
export interface DriveVisitor extends User {
  readonly isDefaultUser: false
  readonly drive:
    | ({ readonly kind: 'entry' } & DriveTarget<VirtualFs>)
    /** The folder of several roots, or the empty folder at `/dav/` or `/dav/@s/`. */
    | ({ readonly kind: 'roots' } & DriveTarget<RootsFolder>)
}

/** A request for a share. */
interface DriveRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly client: Client
  readonly headers: DavHeaders
  /** The headers, with paths within this folder, of those below the path of this protocol. */
  readonly headersIn: (folder: Path) => DavHeaders
}

type DriveGateway = Pick<ProtocolGateway, 'accounts' | 'visitorAccess'>

export class Drives {
  constructor(
    private readonly gateway: DriveGateway,
    /** The path prefix of this protocol. */
    private readonly prefix: string,
  ) {}

  /**
   * Opens the share of a path for its visitor. Only its own credentials open it. Without an id, those of any share open
   * an empty folder. Rejects with `unauthenticated`, `throttled`, `not_found`, `denied` or a 410.
   */
  async open(asked: DriveRequest, at: PathInShare): Promise<DriveVisitor> {
    try {
      return await this.#open(asked, at)
    } finally {
      // The engine removes those that are set before.
      setVisitorHeaders(asked.response)
    }
  }

  async #open(asked: DriveRequest, { id, path }: PathInShare): Promise<DriveVisitor> {
    const { request } = asked
    const { username, password } = basicOf(request)
    if (id !== '' && username !== id) throw wrongCredentials()
    try {
      const begins = id !== '' && request.method !== 'HEAD'
      const share = await this.#share(asked, username, password, { begins })
      if (id === '') return visitorOf(username, leadingTo(`${this.prefix}/${shareFolder}`, asked))
      const place = await placeOf(share, path, asked)
      const names = segmentsOf(path)
      const below = place.kind === 'roots' ? 0 : names.length - segmentsOf(place.path).length
      const prefix = [`${this.prefix}/${shareFolder}`, ...[id, ...names.slice(0, below)].map(encodeSegment)].join('/')
      const headers = asked.headersIn([shareFolder, id, ...names.slice(0, below)].reduce(childOf, root))
      if (place.kind === 'roots') {
        const fs = new RootsFolder(id, share)
        return visitorOf(id, { kind: 'roots', fs, path: root, prefix, headers, name: id })
      }
      const { kind, fs, path: at, name } = place
      return visitorOf(id, { kind, fs, path: at, prefix, headers, name: at === root ? name : undefined })
    } catch (error) {
      throw openingError(error)
    }
  }

  /**
   * Explorer of Windows asks the folders above a drive with the credentials of the drive. Those of a share show an
   * empty folder there. Undefined for other credentials, which are those of an account then: nobody learns which shares
   * exist, and the limit of sign-ins counts the tries. An account of the same name comes first.
   */
  async openRoot(asked: DriveRequest): Promise<DriveVisitor | undefined> {
    const { authorization } = asked.request.headers
    if (authorization === undefined) return undefined
    const credentials = parseAuthorization(authorization)
    if (credentials.scheme !== 'basic') return undefined
    const { username, password } = credentials
    if (username === '' || this.gateway.accounts.users.byName(username) !== undefined) return undefined
    try {
      await this.#share(asked, username, password, { begins: false, mayBeAccount: true })
    } catch (error) {
      if (toGatewayError(error).code === 'internal') throw error
      return undefined
    }
    setVisitorHeaders(asked.response)
    return visitorOf(username, leadingTo(this.prefix, asked))
  }

  async #share(
    { request, response, client: { address } }: DriveRequest,
    id: string,
    code: string,
    kind: Pick<VisitorRequest, 'begins' | 'mayBeAccount'>,
  ): Promise<OpenShare> {
    const { 'user-agent': userAgent = '' } = request.headers
    const signal = signalOf(response)
    const visit = { protocol: webdav, address, userAgent, code, cookie: undefined, ...kind, asDrive: true, signal }
    const share = await this.gateway.visitorAccess.open(id, visit)
    response.setHeader('Cache-Control', visitorCaching(share.share.code))
    return share
  }
}

/** The folder of this href, which leads to shares and shows none. */
function leadingTo(prefix: string, { headers }: DriveRequest): DriveVisitor['drive'] {
  return { kind: 'roots', fs: new RootsFolder(''), path: root, prefix, headers, name: '' }
}

function visitorOf(id: string, drive: DriveVisitor['drive']): DriveVisitor {
  const name = holderOfShare(id)
  return { uid: name, username: name, isDefaultUser: false, drive }
}

function basicOf({ headers: { authorization } }: IncomingMessage): { username: string; password: string } {
  const credentials = authorization === undefined ? undefined : parseAuthorization(authorization)
  if (credentials?.scheme !== 'basic') throw wrongCredentials()
  return credentials
}

function wrongCredentials(): GatewayError {
  return new GatewayError('unauthenticated', { reason: 'the user name is the id of the share, the password its code' })
}

/** Methods that make something at their path. */
const making: ReadonlySet<string> = new Set(['PUT', 'MKCOL', 'LOCK'])

async function placeOf(share: OpenShare, path: Path, { request, response }: DriveRequest): Promise<SharedPlace> {
  try {
    return await share.inFolder(path, { signal: signalOf(response) })
  } catch (error) {
    // Nothing is added to the folder that a share of several is.
    const isBesideRoots = isGatewayError(error, 'not_found') && truncateTo(path, 1) === path
    if (isBesideRoots && making.has(request.method ?? '')) throw new WebdavError('beside_shared')
    throw error
  }
}

/** A wrong id gets the response that a wrong name of an account gets. */
const unknown: ReadonlySet<string> = new Set(['share_missing', 'share_code_wrong', 'share_id_missing'])

function openingError(thrown: unknown): unknown {
  const { detail } = isGatewayError(thrown) ? thrown : {}
  if (detail !== undefined && unknown.has(detail)) return wrongCredentials()
  return visitorFailure(thrown)
}

/** Methods that change nothing: for these, what the creator may not see does not exist. */
const looks: ReadonlySet<string> = new Set(['GET', 'HEAD', 'PROPFIND'])

/** The error that a visitor gets of a request with this method. */
export function visitorFailure(thrown: unknown, method = 'GET'): unknown {
  // The path of such an error is the visitor's own, and the error names no user.
  if (thrown instanceof WebdavError || thrown instanceof LockedError) return thrown
  if (!looks.has(method) && toGatewayError(thrown).code === 'denied')
    return new GatewayError('denied', { cause: thrown })
  const error = visitorError(thrown)
  return error.detail === 'share_ended' ? new WebdavError('share_ended') : error
}

/** Answers a request for the folder of several roots, or for the empty folder at `/dav/` or `/dav/@s/`. */
export const answerRoots: Command<RootsFolder> = async (webdavRequest) => {
  const { request, response } = webdavRequest
  if (request.method === 'PROPFIND') await propfind(webdavRequest)
  else if (request.method === 'HEAD') sendStatus(response, 200, { 'content-type': 'httpd/unix-directory' })
  else throw new WebdavError('shared_folder', { headers: { allow: 'OPTIONS, HEAD, PROPFIND' } })
}
