/** What WebDAV answers to each error: one total table, and the refusals that only this door knows. */
import { toGatewayError, type ErrorCode } from '../../src/errors.js'

/** A precondition or postcondition element in `DAV:` (RFC 4918 §16, RFC 4331 §6). */
export type ConditionName =
  | 'cannot-modify-protected-property'
  | 'lock-token-matches-request-uri'
  | 'lock-token-submitted'
  | 'no-conflicting-lock'
  | 'no-external-entities'
  | 'propfind-finite-depth'
  | 'sufficient-disk-space'

export interface Answer {
  readonly status: number
  readonly condition?: ConditionName | undefined
}

export const answers: Readonly<Record<ErrorCode, Answer>> = {
  not_found: { status: 404 },
  parent_missing: { status: 409 },
  exists: { status: 405 }, // RFC 4918 §9.3.1; COPY and MOVE make 412 of it
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
  unsupported: { status: 403 }, // clients say "not permitted"; 501 would mean the method itself
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

export interface RefusalOptions {
  readonly condition?: ConditionName | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
}

/** A request that the protocol itself refuses, with the status it asks for. */
export class Refusal extends Error {
  readonly status: number
  readonly condition: ConditionName | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, reason: string, options: RefusalOptions = {}) {
    super(reason)
    this.name = 'Refusal'
    this.status = status
    this.condition = options.condition
    this.headers = options.headers ?? {}
  }
}

/** `error` as it is answered: a refusal as it stands, anything else by the table. */
export function toRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  const { code, message, retryAfter } = toGatewayError(error)
  const { status, condition } = answers[code]
  const seconds = retryAfter ?? (code === 'busy' ? 1 : undefined)
  return new Refusal(status, code === 'internal' ? 'internal error' : message, {
    condition,
    headers: seconds === undefined ? {} : { 'retry-after': String(Math.ceil(seconds)) },
  })
}
