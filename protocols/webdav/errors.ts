/** The error statuses of WebDAV: the response to each error code, and the errors that only this protocol raises. */
import { toGatewayError, type ErrorCode } from '../../src/base/errors.js'
import { errorText } from '../lib/error-text.js'

/** A precondition or postcondition element in `DAV:` (RFC 4918 §16, RFC 4331 §6). */
type ConditionName =
  | 'cannot-modify-protected-property'
  | 'lock-token-matches-request-uri'
  | 'lock-token-submitted'
  | 'no-conflicting-lock'
  | 'no-external-entities'
  | 'propfind-finite-depth'
  | 'sufficient-disk-space'

interface ResponseRule {
  readonly status: number
  readonly condition?: ConditionName | undefined
}

export const errorResponses: Readonly<Record<ErrorCode, ResponseRule>> = {
  not_found: { status: 404 },
  parent_missing: { status: 409 },
  exists: { status: 405 }, // RFC 4918 §9.3.1; COPY and MOVE respond with 412
  not_folder: { status: 409 },
  is_folder: { status: 405 }, // RFC 4918 §9.7.2
  not_empty: { status: 409 },
  denied: { status: 403 },
  hidden: { status: 404 },
  password_required: { status: 403 },
  unauthenticated: { status: 401 },
  throttled: { status: 429 },
  invalid: { status: 400 },
  precondition_failed: { status: 412 },
  unsupported: { status: 403 }, // clients show "not permitted"; 501 would mean that the method is unknown
  locked: { status: 423, condition: 'lock-token-submitted' },
  range: { status: 416 },
  too_large: { status: 413 },
  no_space: { status: 507, condition: 'sufficient-disk-space' },
  busy: { status: 503 },
  unavailable: { status: 503 },
  timeout: { status: 504 },
  aborted: { status: 503 },
  internal: { status: 500 },
}

/** The status, condition, headers and message to send for a thrown value. */
interface ErrorResponse extends ResponseRule {
  readonly message: string
  readonly headers: Readonly<Record<string, string>>
}

interface OwnErrorRule extends ResponseRule {
  /** The message, or a function that returns it for the subject of the error. */
  readonly text: string | ((subject: string) => string)
}

const message = (subject: string) => subject

/** The errors that only this protocol raises. */
const ownErrors = {
  // the request
  fragment_in_target: { status: 400, text: 'a request target must not have a fragment' },
  outside_prefix: { status: 404, text: (prefix) => `WebDAV is at ${prefix}/` },
  method_not_allowed: { status: 405, text: (method) => `${method} is not supported` },
  method_unknown: { status: 501, text: (method) => `${method} is not supported` },
  depth_not_allowed: { status: 400, text: (depth) => `Depth ${depth} is not allowed here` },
  foreign_destination: { status: 502, text: 'the Destination is not on this server' }, // RFC 4918 §9.8.5
  body_timeout: { status: 408, text: 'the body did not arrive in time' },
  document_type: { status: 400, text: 'a document type is not accepted', condition: 'no-external-entities' },
  // GET and PROPFIND
  folder_content: { status: 405, text: 'a folder' },
  infinite_depth: {
    status: 403,
    text: (limit) => `more than ${limit} resources`,
    condition: 'propfind-finite-depth',
  },
  // PUT and MKCOL
  put_folder: { status: 405, text: 'PUT cannot create a folder' },
  partial_put: { status: 400, text: 'partial PUT is not supported' }, // RFC 9110 §14.5
  chunked_upload: { status: 501, text: 'chunked uploads are not supported' },
  mkcol_body: { status: 415, text: 'MKCOL must not have a body' }, // RFC 4918 §9.3
  // COPY and MOVE
  shallow_move: { status: 400, text: 'Depth must be infinity to move a folder' }, // RFC 4918 §9.9.2
  overlapping_paths: { status: 403, text: 'source and destination are the same, or one contains the other' },
  destination_exists: { status: 412, text: message }, // Overwrite: F
  // shares
  share_ended: { status: 410, text: 'the share has expired or is no longer valid' },
  beside_shared: { status: 403, text: 'nothing can be added to this folder, which lists what is shared' },
  shared_folder: { status: 405, text: 'this folder lists what is shared' },
  // LOCK and UNLOCK
  locked_folder_missing: { status: 409, text: 'a folder must exist before it is locked' },
  lock_token_mismatch: { status: 409, text: message, condition: 'lock-token-matches-request-uri' },
} as const satisfies Readonly<Record<string, OwnErrorRule>>

/** Statuses within a 207 that are not those of an error. */
export const partStatuses = {
  property_missing: 404,
  property_protected: 403,
  failed_dependency: 424,
} as const

interface OwnErrorOptions {
  /** The subject of the text: a method, a value, or a whole message. */
  readonly subject?: string | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** A response that only this protocol has. Not a GatewayError, because the core does not know it. */
export class WebdavError extends Error implements ErrorResponse {
  readonly status: number
  readonly condition: ConditionName | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(name: keyof typeof ownErrors, { subject = '', headers = {} }: OwnErrorOptions = {}) {
    const { status, text, condition }: OwnErrorRule = ownErrors[name]
    super(typeof text === 'string' ? text : text(subject))
    this.name = 'WebdavError'
    this.status = status
    this.condition = condition
    this.headers = headers
  }
}

/** The response to a thrown value. What is created in a hidden folder is answered as in a missing one. */
export function toErrorResponse(thrown: unknown): ErrorResponse {
  if (thrown instanceof WebdavError) return thrown
  const error = toGatewayError(thrown)
  const { code, detail, retryAfter } = error
  const seconds = retryAfter ?? (code === 'busy' ? 1 : undefined)
  return {
    ...errorResponses[detail === 'parent_hidden' ? 'parent_missing' : code],
    message: errorText(error),
    headers: seconds === undefined ? {} : { 'retry-after': String(Math.ceil(seconds)) },
  }
}
