/** Maps errors of the S3 server and of the network to GatewayErrors. */
import { GatewayError, toGatewayError, type ErrorCode } from '../../src/contract/errors.js'

type Meaning = readonly [code: ErrorCode, reason?: string]

const credentials: Meaning = ['denied', 'the S3 server does not accept the credentials of this storage']
const expired: Meaning = ['denied', 'the credentials of this storage have expired']
const unreachable: Meaning = ['unavailable', 'the S3 server cannot be reached']
const disconnected: Meaning = ['unavailable', 'the connection to the S3 server broke']
const certificate: Meaning = ['unavailable', 'the certificate of the S3 server is not trusted']
const rateLimited: Meaning = ['unavailable', 'the S3 server asks for fewer requests']

/** By the error code in the response, the name of the SDK's error, or the system's error code. */
const meanings: Readonly<Record<string, Meaning>> = {
  NoSuchKey: ['not_found'],
  NotFound: ['not_found'],
  // Not `not_found`: a wrong setting must not look like an empty folder.
  NoSuchBucket: ['unavailable', 'the bucket does not exist'],
  NoSuchUpload: ['aborted', 'the S3 server no longer has the upload'],
  AccessDenied: ['denied', 'the S3 server denied access'],
  AllAccessDisabled: ['denied', 'the S3 server denied access'],
  InvalidObjectState: ['denied', 'the file is archived and must be restored first'],
  InvalidAccessKeyId: credentials,
  SignatureDoesNotMatch: [
    'denied',
    'the S3 server does not accept the signature: the secret key, the region or the address is wrong',
  ],
  AuthorizationHeaderMalformed: ['denied', 'the S3 server does not accept the signature: the region may be wrong'],
  RequestTimeTooSkewed: ['denied', 'the clocks of this machine and of the S3 server differ too much'],
  ExpiredToken: expired,
  TokenRefreshRequired: expired,
  InvalidToken: credentials,
  PermanentRedirect: ['unavailable', 'the bucket is at a different endpoint'],
  PreconditionFailed: ['precondition_failed'],
  ConditionalRequestConflict: ['busy'],
  OperationAborted: ['busy'],
  InvalidRange: ['range'],
  KeyTooLongError: ['invalid', 'the path is too long'],
  InvalidURI: ['invalid', 'the S3 server refuses this name'],
  EntityTooLarge: ['too_large'],
  QuotaExceeded: ['no_space'],
  XMinioStorageFull: ['no_space'],
  NotImplemented: ['unsupported'],
  RequestTimeout: ['timeout'],
  SlowDown: rateLimited,
  TooManyRequests: rateLimited,
  ECONNREFUSED: unreachable,
  ENOTFOUND: unreachable,
  EAI_AGAIN: unreachable,
  EHOSTUNREACH: unreachable,
  ENETUNREACH: unreachable,
  ECONNRESET: disconnected,
  EPIPE: disconnected,
  ERR_STREAM_PREMATURE_CLOSE: disconnected,
  ETIMEDOUT: ['timeout'],
  TimeoutError: ['timeout'],
  DEPTH_ZERO_SELF_SIGNED_CERT: certificate,
  SELF_SIGNED_CERT_IN_CHAIN: certificate,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: certificate,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: certificate,
  CERT_HAS_EXPIRED: certificate,
  ERR_TLS_CERT_ALTNAME_INVALID: certificate,
}

const statuses: Readonly<Record<number, Meaning>> = {
  401: credentials,
  403: ['denied', 'the S3 server denied access'],
  404: ['not_found'],
  409: ['busy'],
  412: ['precondition_failed'],
  413: ['too_large'],
  416: ['range'],
  429: rateLimited,
  501: ['unsupported'],
  507: ['no_space'],
}

/** The HTTP status of an error response; undefined for any other error. */
function statusOf(error: unknown): number | undefined {
  return field(field(error, '$metadata'), 'httpStatusCode', 'number')
}

/** Converts any thrown value to a GatewayError. */
export function translated(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  const status = statusOf(error)
  // The system's code takes precedence over the name: the SDK names a connection reset a timeout
  // (@smithy/node-http-handler: node-http-handler.js).
  const names = [field(error, 'Code', 'string'), field(error, 'code', 'string'), field(error, 'name', 'string')]
  const known = names.map((name) => (name !== undefined && Object.hasOwn(meanings, name) ? meanings[name] : undefined))
  const meaning =
    known.find((each) => each !== undefined) ??
    statuses[status ?? 0] ??
    (status !== undefined && status >= 500 ? (['unavailable', 'the S3 server failed'] as const) : undefined)
  if (!meaning) return toGatewayError(status === undefined ? error : summary(error, status))
  const [code, reason] = meaning
  return new GatewayError(code, { reason, retryAfter: retryAfter(error), cause: summary(error, status) })
}

/**
 * The error without the text of the response: for a wrong signature, it repeats every signed header, including the
 * session token.
 */
function summary(error: unknown, status: number | undefined): unknown {
  if (status === undefined) return error
  const name = field(error, 'name', 'string') ?? 'error'
  const request = field(field(error, '$metadata'), 'requestId', 'string')
  return new Error(`S3 answered ${name}, status ${status}, request ${request ?? 'unnamed'}`)
}

/** The `Retry-After` of the response, in seconds. */
function retryAfter(error: unknown): number | undefined {
  const headers = field(field(error, '$response'), 'headers')
  const seconds = Number(field(headers, 'retry-after', 'string') ?? Number.NaN)
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined
}

function field(of: unknown, name: string): unknown
function field(of: unknown, name: string, type: 'string'): string | undefined
function field(of: unknown, name: string, type: 'number'): number | undefined
function field(of: unknown, name: string, type?: string): unknown {
  if (typeof of !== 'object' || of === null) return undefined
  const value: unknown = Reflect.get(of, name)
  return type === undefined || typeof value === type ? value : undefined
}
