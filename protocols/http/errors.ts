/** The one table from the errors of the core to what clients of the API understand: a code, and a text they parse. */
import { isGatewayError, toGatewayError, type ErrorCode, type GatewayError } from '../../src/errors.js'
import { NoStorageError } from '../../src/no-storage.js'
import { RelativePathError } from '../../src/path.js'

/** An answer of the API that is no error of the core: its code and its text as the wire has them. */
export class WireError extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message)
    this.name = 'WireError'
  }
}

export const closedText = 'password is incorrect or you have no permission'

interface Rule {
  /** Of the envelope. */
  readonly code: number
  /** The real status of answers that are no envelope: downloads. */
  readonly status: number
  /** Absent: the error's own reason. Clients match the end of these texts: nothing may follow them. */
  readonly text?: string | ((error: GatewayError) => string)
}

const table: Readonly<Record<ErrorCode, Rule>> = {
  not_found: { code: 500, status: 404, text: missingText },
  parent_missing: { code: 500, status: 404, text: 'failed to get parent dir: object not found' },
  exists: { code: 403, status: 409, text: existsText },
  not_dir: { code: 500, status: 404, text: 'not a folder' },
  is_dir: { code: 500, status: 400, text: 'not a file' },
  not_empty: { code: 500, status: 409, text: 'the folder is not empty' },
  denied: { code: 403, status: 403 },
  hidden: { code: 403, status: 403, text: closedText },
  password_required: { code: 403, status: 403, text: closedText },
  unauthenticated: { code: 401, status: 401 },
  throttled: { code: 429, status: 429 },
  invalid: { code: 400, status: 400 },
  precondition_failed: { code: 412, status: 412 },
  unsupported: { code: 500, status: 501, text: 'not support' },
  locked: { code: 423, status: 423 },
  range: { code: 416, status: 416 },
  too_large: { code: 413, status: 413 },
  no_space: { code: 507, status: 507 },
  busy: { code: 503, status: 503 },
  unavailable: { code: 500, status: 502 },
  timeout: { code: 504, status: 504 },
  aborted: { code: 500, status: 500 },
  internal: { code: 500, status: 500, text: 'internal error' },
}

function missingText(error: GatewayError): string {
  if (!(error instanceof NoStorageError)) return 'object not found'
  const where = error.reason === 'storage not found' ? `; rawPath: ${error.path ?? '/'}` : ''
  return `failed get storage: ${error.reason}${where}`
}

/** `file [name] exists` where the core names it. */
function existsText(error: GatewayError): string {
  return error.reason.startsWith('file [') ? error.reason : 'file exists'
}

export interface WireAnswer {
  readonly code: number
  readonly status: number
  readonly message: string
  /** Seconds. */
  readonly retryAfter?: number | undefined
}

/** Anything thrown, as the client is told of it. */
export function wireAnswer(thrown: unknown): WireAnswer {
  if (thrown instanceof WireError) {
    const { code, message } = thrown
    return { code, status: code, message }
  }
  const error = toGatewayError(thrown)
  const { retryAfter } = error
  if (error instanceof RelativePathError) return { code: 403, status: 403, message: error.reason }
  // A mount point is refused to everybody: that is no matter of rights, on which clients ask for a password.
  if (error.code === 'denied' && error.reason.endsWith('root folder is not allowed')) {
    return { code: 500, status: 500, message: error.reason }
  }
  const { code, status, text } = table[error.code]
  const message = text === undefined ? error.reason : typeof text === 'string' ? text : text(error)
  return { code, status, message, retryAfter }
}

/** Whether an operator must hear of it: nobody foresaw it. */
export function isUnforeseen(thrown: unknown): boolean {
  return !(thrown instanceof WireError) && (!isGatewayError(thrown) || thrown.code === 'internal')
}
