/** Addresses of web servers that users and admins enter, and what can go wrong on the way to them. */
import { GatewayError, isGatewayError, toGatewayError, type ErrorCode } from '../base/errors.js'

/** Parses an http or https URL without credentials. Throws `invalid` for any other text. */
export function parseWebAddress(text: string): URL {
  const url = parseUrl(text)
  if (!url) throw new GatewayError('invalid', { reason: 'this is no address' })
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new GatewayError('invalid', { reason: 'only addresses of http and https can be fetched' })
  }
  assertNoCredentials(url)
  return url
}

/** Parses a URL. Undefined if the text is not one. */
export function parseUrl(text: string, base?: URL): URL | undefined {
  return URL.canParse(text, base?.href) ? new URL(text, base) : undefined
}

/**
 * Throws `invalid` for a URL with credentials: other users who see the task, and hosts redirected to, would see them.
 */
export function assertNoCredentials({ username, password }: URL): void {
  if (username === '' && password === '') return
  throw new GatewayError('invalid', { reason: 'an address to be fetched cannot hold a user name or password' })
}

/** Whether a connection has failed because the certificate of the server is not valid. */
export function isCertificateFault(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException
  return typeof code === 'string' && /CERT|SIGNED|SIGNATURE|ALTNAME/.test(code)
}

/** Converts an error of a connection to a GatewayError. */
export function connectionError(error: unknown): GatewayError {
  if (isGatewayError(error)) return error
  const gatewayError = toGatewayError(error)
  if (gatewayError.code !== 'internal') return gatewayError
  const { code = 'unknown' } = error as NodeJS.ErrnoException
  const failure = (errorCode: ErrorCode, reason: string) => new GatewayError(errorCode, { reason, cause: error })
  if (code === 'ENOTFOUND') return failure('not_found', 'unknown host')
  if (code.startsWith('HPE_')) return failure('invalid', 'the server sent a malformed HTTP response')
  if (isCertificateFault(error)) return failure('denied', `the certificate of the server is not valid (${code})`)
  return failure('unavailable', `the connection to the server failed (${code})`)
}
