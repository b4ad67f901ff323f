/** What goes wrong on the way to a server, in the words of the gateway. */
import { GatewayError, toGatewayError, type ErrorCode } from '../../src/errors.js'

const down = (server: string) => `the ${server} cannot be reached`
const cut = (server: string) => `the connection to the ${server} broke`
const certificate = (server: string) => `the certificate of the ${server} is not trusted`
const gibberish = (server: string) => `the ${server} does not speak the protocol`

/** By the code of the system, of TLS, or of Node's HTTP parser (`HPE_…`, by its beginning). */
const meanings: Readonly<Record<string, readonly [ErrorCode, ((server: string) => string)?]>> = {
  ECONNREFUSED: ['unavailable', down],
  ENOTFOUND: ['unavailable', down],
  EAI_AGAIN: ['unavailable', down],
  EHOSTUNREACH: ['unavailable', down],
  ENETUNREACH: ['unavailable', down],
  EADDRNOTAVAIL: ['unavailable', down],
  ECONNRESET: ['unavailable', cut],
  ECONNABORTED: ['unavailable', cut],
  EPIPE: ['unavailable', cut],
  ERR_STREAM_PREMATURE_CLOSE: ['unavailable', cut],
  ERR_STREAM_DESTROYED: ['unavailable', cut],
  ETIMEDOUT: ['timeout'],
  EPROTO: ['unavailable', (server) => `the ${server} does not speak TLS as it should`],
  DEPTH_ZERO_SELF_SIGNED_CERT: ['unavailable', certificate],
  SELF_SIGNED_CERT_IN_CHAIN: ['unavailable', certificate],
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ['unavailable', certificate],
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: ['unavailable', certificate],
  CERT_HAS_EXPIRED: ['unavailable', certificate],
  CERT_NOT_YET_VALID: ['unavailable', certificate],
  ERR_TLS_CERT_ALTNAME_INVALID: ['unavailable', certificate],
}

/**
 * Any thrown value as a GatewayError, with the original as `cause`; `server` says which one, as in "WebDAV server". What did not come
 * from the network is told as `toGatewayError` does.
 */
export function networkError(error: unknown, server: string): GatewayError {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  if (error instanceof GatewayError || typeof code !== 'string') return toGatewayError(error)
  const [meaning, reason] = Object.hasOwn(meanings, code)
    ? (meanings[code] ?? [])
    : code.startsWith('HPE_') || code.startsWith('ERR_SSL_')
      ? (['unavailable', gibberish] as const)
      : []
  if (meaning === undefined) return toGatewayError(error)
  return new GatewayError(meaning, { reason: reason?.(server), cause: error })
}
