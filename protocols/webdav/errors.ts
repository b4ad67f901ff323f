/** The WebDAV response to each error code, and the errors that only this protocol raises. */
import { toGatewayError, type ErrorCode } from '../../src/contract/errors.js'
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

/** The status, condition, headers and message to send for a thrown value. */
interface ErrorResponse extends ResponseRule {
  readonly message: string
  readonly headers: Readonly<Record<string, string>>
}

interface HttpErrorOptions {
  readonly condition?: ConditionName | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** A response that only this protocol has. Not a GatewayError, because the core does not know it. */
export class HttpError extends Error implements ErrorResponse {
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

/** The response to a thrown value. What is created in a hidden folder is answered as in a missing one. */
export function toErrorResponse(thrown: unknown): ErrorResponse {
  if (thrown instanceof HttpError) return thrown
  const error = toGatewayError(thrown)
  const { code, detail, retryAfter } = error
  const seconds = retryAfter ?? (code === 'busy' ? 1 : undefined)
  return {
    ...errorResponses[detail === 'parent_hidden' ? 'parent_missing' : code],
    message: errorText(error),
    headers: seconds === undefined ? {} : { 'retry-after': String(Math.ceil(seconds)) },
  }
}
