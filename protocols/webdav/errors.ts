/** The WebDAV response to each error code, and the errors that only this protocol raises. */
import { toGatewayError, type ErrorCode, type GatewayError } from '../../src/contract/errors.js'
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

interface ErrorResponse {
  readonly status: number
  readonly condition?: ConditionName | undefined
}

export const errorResponses: Readonly<Record<ErrorCode, ErrorResponse>> = {
  not_found: { status: 404 },
  parent_missing: { status: 409 },
  exists: { status: 405 }, // RFC 4918 §9.3.1; COPY and MOVE respond with 412
  not_dir: { status: 409 },
  is_dir: { status: 405 }, // RFC 4918 §9.7.2
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

interface HttpErrorOptions {
  readonly condition?: ConditionName | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** An error with an HTTP status, raised by this protocol itself. */
export class HttpError extends Error {
  readonly status: number
  readonly condition: ConditionName | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, reason: string, options: HttpErrorOptions = {}) {
    super(reason)
    this.name = 'HttpError'
    this.status = status
    this.condition = options.condition
    this.headers = options.headers ?? {}
  }
}

/** The response to an error. What is created in a hidden folder is answered as in a missing one. */
export function responseTo({ code, detail }: GatewayError): ErrorResponse {
  return errorResponses[detail === 'parent_hidden' ? 'parent_missing' : code]
}

/** Converts an error into an HTTP error. An HTTP error is returned unchanged; other errors are mapped by their code. */
export function toHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error
  const gatewayError = toGatewayError(error)
  const { code, retryAfter } = gatewayError
  const { status, condition } = responseTo(gatewayError)
  const seconds = retryAfter ?? (code === 'busy' ? 1 : undefined)
  return new HttpError(status, errorText(gatewayError), {
    condition,
    headers: seconds === undefined ? {} : { 'retry-after': String(Math.ceil(seconds)) },
  })
}
