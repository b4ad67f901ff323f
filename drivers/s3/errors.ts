/** Maps errors of the S3 server and of the network to GatewayErrors. */
import { GatewayError, toGatewayError, type ErrorCode } from '../../src/base/errors.js'
import { networkError } from '../lib/network-errors.js'

type Meaning = readonly [code: ErrorCode, reason?: string]

const credentials: Meaning = [
  'denied',
  'the S3 server does not accept the credentials of this storage: the access key or the secret key is wrong',
]
const expired: Meaning = ['denied', 'the credentials of this storage have expired']
const rateLimited: Meaning = ['unavailable', 'the S3 server asks for fewer requests']

/** What errors mean, by the error code in the response, or the name of the SDK's error. */
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
}

/** For a response that the SDK cannot read as one of an S3 server, and names `Unknown` or `Error`. */
const noServer: Meaning = [
  'unavailable',
  'the answer is not that of an S3 server: check the address, and whether it begins with http:// or https://',
]

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
export function statusOf(error: unknown): number | undefined {
  return field(field(error, '$metadata'), 'httpStatusCode', 'number')
}

/** Converts any thrown value to a GatewayError. */
export function translated(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  const status = statusOf(error)
  if (status === undefined) return networkError(error, 'S3 server')
  const cause = summary(error, status)
  const meaning = meaningOf(error, status)
  if (!meaning) return toGatewayError(cause)
  const [code, reason] = meaning
  return new GatewayError(code, { reason, retryAfter: retryAfter(error), cause })
}

function meaningOf(error: unknown, status: number): Meaning | undefined {
  const name = field(error, 'Code', 'string') ?? field(error, 'name', 'string') ?? ''
  const known = Object.hasOwn(meanings, name) ? meanings[name] : undefined
  // Some servers say that the access key is what does not exist.
  if ((status === 401 || status === 403) && known?.[0] === 'not_found') return credentials
  if (known) return known
  if (status >= 500) return statuses[status] ?? ['unavailable', 'the S3 server failed']
  if (statuses[status]) return statuses[status]
  if (['Unknown', 'Error'].includes(name)) return noServer
  return status >= 400 ? ['unavailable', `the S3 server refused the request: ${shownName(name)}`] : undefined
}

/** An error code that only its server knows, as far as it is one word. */
function shownName(name: string): string {
  return /^\w{1,64}$/.test(name) ? name : 'it gave no reason'
}

/**
 * The error without the text of the response: for a wrong signature, it repeats every signed header, including the
 * session token.
 */
function summary(error: unknown, status: number): Error {
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
