/** Parses and validates the connection options: address, security and credentials. */
import { isIP } from 'node:net'
import { rootCertificates, type ConnectionOptions } from 'node:tls'
import { GatewayError } from '../../src/base/errors.js'
import type { FtpOptions } from './index.js'
import { nameCharset, type NameCharset } from './name-charset.js'

export interface FtpAccount {
  readonly host: string
  readonly port: number
  readonly username: string
  readonly password: string
  readonly security: 'plain' | 'explicit' | 'implicit'
  readonly tls: ConnectionOptions
  readonly names: NameCharset
}

const securityByScheme = { 'ftp://': 'plain', 'ftpes://': 'explicit', 'ftps://': 'implicit' } as const

/** Throws `invalid`, with a reason for the administrator. */
export function accountOf(options: FtpOptions): FtpAccount {
  const match = /^(ftp:\/\/|ftpes:\/\/|ftps:\/\/)?(?:\[([^\]]+)\]|([^:/[\]]+))(?::(\d{1,5}))?\/?$/.exec(
    options.address.trim(),
  )
  const [, scheme = 'ftp://', bracketed, plain, portText] = match ?? []
  const host = bracketed ?? plain
  const security = securityByScheme[scheme as keyof typeof securityByScheme]
  const port = Number(portText ?? (security === 'implicit' ? 990 : 21))
  if (host === undefined || port < 1 || port > 65_535) {
    throw new GatewayError('invalid', {
      reason: 'address must be host:port, with ftpes:// or ftps:// before it for TLS',
    })
  }
  for (const text of [options.username, options.password]) {
    if (/[\r\n\0]/.test(text)) {
      throw new GatewayError('invalid', { reason: 'FTP has no way to send a line break in a user name or password' })
    }
  }
  return {
    host,
    port,
    username: options.username,
    password: options.password,
    security,
    tls: tlsOptions(host, options),
    names: nameCharset(options.encoding),
  }
}

function tlsOptions(host: string, options: FtpOptions): ConnectionOptions {
  const caCertificate = options.ca_certificate.trim()
  return {
    host,
    ...(isIP(host) === 0 && { servername: host }),
    ...(caCertificate !== '' && { ca: [...rootCertificates, caCertificate] }),
    rejectUnauthorized: !options.tls_insecure_skip_verify,
  }
}
