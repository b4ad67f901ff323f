/** Maps network errors to GatewayErrors. */
import { GatewayError, isGatewayError, toGatewayError, type ErrorCode } from '../../src/base/errors.js'

/**
 * Why a server cannot be reached, by the system's error code. The system's message has its address, which must not be
 * disclosed.
 */
const causes: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'it refuses the connection',
  ENOTFOUND: 'its name is unknown',
  EAI_AGAIN: 'its name cannot be looked up',
  EHOSTUNREACH: 'there is no route to it',
  ENETUNREACH: 'there is no route to it',
}

/** The reason that the server cannot be reached. `server` names it, as in "WebDAV server". */
export function unreachable(server: string, code = ''): string {
  const cause = Object.hasOwn(causes, code) ? `: ${causes[code] ?? ''}` : ''
  return `the ${server} cannot be reached${cause}`
}

const connectionLost = (server: string) => `the connection to the ${server} was lost`
const untrustedCertificate = (server: string) => `the certificate of the ${server} is not trusted`
const protocolViolation = (server: string) => `the ${server} violates the protocol`

type Meaning = readonly [ErrorCode, ((server: string, code: string) => string)?]

/** What errors mean, by error code of the system, of TLS, or of the HTTP parser of Node (by its prefix `HPE_`). */
const meanings: Readonly<Record<string, Meaning>> = {
  ECONNREFUSED: ['unavailable', unreachable],
  ENOTFOUND: ['unavailable', unreachable],
  EAI_AGAIN: ['unavailable', unreachable],
  EHOSTUNREACH: ['unavailable', unreachable],
  ENETUNREACH: ['unavailable', unreachable],
  EADDRNOTAVAIL: ['unavailable', unreachable],
  ECONNRESET: ['unavailable', connectionLost],
  ECONNABORTED: ['unavailable', connectionLost],
  EPIPE: ['unavailable', connectionLost],
  ERR_STREAM_PREMATURE_CLOSE: ['unavailable', connectionLost],
  ERR_STREAM_DESTROYED: ['unavailable', connectionLost],
  ETIMEDOUT: ['timeout'],
  EPROTO: ['unavailable', (server) => `the ${server} violates the TLS protocol`],
  DEPTH_ZERO_SELF_SIGNED_CERT: ['unavailable', untrustedCertificate],
  SELF_SIGNED_CERT_IN_CHAIN: ['unavailable', untrustedCertificate],
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ['unavailable', untrustedCertificate],
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: ['unavailable', untrustedCertificate],
  CERT_HAS_EXPIRED: ['unavailable', untrustedCertificate],
  CERT_NOT_YET_VALID: ['unavailable', untrustedCertificate],
  ERR_TLS_CERT_ALTNAME_INVALID: ['unavailable', untrustedCertificate],
}

/** Whether an error says that the network has failed, or the connection: the server has not refused the request. */
export function isNetworkFailure(error: unknown): boolean {
  const code =
    isGatewayError(error, 'unavailable', 'timeout') && (error.cause as NodeJS.ErrnoException | undefined)?.code
  return typeof code === 'string' && meaningOf(code) !== undefined
}

/**
 * Converts any thrown value to a GatewayError, with the original as `cause`. `server` names the server in the reason,
 * as in "WebDAV server"; `plainAddress` says what an address without TLS should do. Errors that are not network errors
 * are converted by `toGatewayError`.
 */
export function networkError(error: unknown, server: string, plainAddress = 'begin with http://'): GatewayError {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  if (!(error instanceof Error) || error instanceof GatewayError || typeof code !== 'string')
    return toGatewayError(error)
  if (isWithoutTls(error)) {
    const reason = `the ${server} does not speak TLS: its address should ${plainAddress}`
    return new GatewayError('unavailable', { reason, cause: error })
  }
  const found = meaningOf(code)
  if (!found) return toGatewayError(error)
  const [meaning, reason] = found
  return new GatewayError(meaning, { reason: reason?.(server, code), cause: error })
}

/** Whether the server has answered a TLS handshake with something else. OpenSSL's code is in the message only. */
function isWithoutTls({ message }: Error): boolean {
  return /:SSL routines:.*:(?:wrong version number|packet length too long|http request)/.test(message)
}

function meaningOf(code: string): Meaning | undefined {
  if (Object.hasOwn(meanings, code)) return meanings[code]
  return /^(?:HPE_|ERR_SSL_)/.test(code) ? ['unavailable', protocolViolation] : undefined
}
