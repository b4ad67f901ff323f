/** Requests of visitors of shares: which share they are about, and what makes them requests of one visit. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Path } from '../../../src/base/path.js'
import type { OpenShare } from '../../../src/shares/open-share.js'
import { pathInShare } from '../../../src/shares/path-in-share.js'
import { visitTime } from '../../../src/shares/visitor-access.js'
import { asVisitor } from '../../../src/shares/visitor-errors.js'
import { noteCaller } from '../../lib/callers.js'
import { setVisitorHeaders } from '../../lib/visitor-headers.js'
import { cookieOf, setCookie } from './cookies.js'
import { signalOf, type Exchange, type HttpApi } from './http-api.js'

const cookieName = 'tidegate_visit'

/** Opens the share for the sender of a request, sets the headers of the response, and the cookie of a new visit. */
export async function openShare(
  api: HttpApi,
  request: IncomingMessage,
  response: ServerResponse,
  id: string,
  code: string,
): Promise<OpenShare> {
  setVisitorHeaders(response)
  const { address } = api.clientOf(request)
  noteCaller(request, { protocol: api.protocol.name, user: undefined, address })
  const { 'user-agent': userAgent = '' } = request.headers
  const share = await api.gateway.visitorAccess.open(id, {
    protocol: api.protocol,
    address,
    userAgent,
    code,
    cookie: cookieOf(request, cookieName),
    begins: request.method !== 'HEAD',
    signal: signalOf(response),
  })
  if (share.cookie !== undefined) {
    const maxAge = visitTime / 1000
    setCookie(api, response, { name: cookieName, value: share.cookie, sameSite: 'Lax', maxAge })
  }
  return share
}

/** The requests of visitors, among those with a path in a field: they ask for what a share has. */
export const ofVisitors = {
  are: ({ fields }: { readonly fields: { readonly path: string } }) => pathInShare(fields.path) !== undefined,
}

/** The request of a visitor by a path of the API. */
export interface VisitorPath {
  readonly share: OpenShare
  readonly id: string
  /** The path within the share. */
  readonly at: Path
  /** The code as the visitor has sent it; empty if the share has none. */
  readonly code: string
}

/**
 * Like `openShare`, for a path of the API that `pathInShare` knows. `code`: that of the share. Rejects with the
 * errors for visitors.
 */
export async function openForVisitor(
  api: HttpApi,
  { req, res }: Exchange,
  asked: string,
  code = '',
): Promise<VisitorPath> {
  const found = pathInShare(asked)
  if (found === undefined) throw new Error('not a path of a share')
  const { id, path: at } = found
  res.setHeader('Cache-Control', 'private, no-store')
  const share = await asVisitor(() => openShare(api, req, res, id, code))
  return { share, id, at, code: share.share.code === '' ? '' : code }
}
