/** Converts the options of a storage to `ShareOptions`. */
import { GatewayError } from '../../src/contract/errors.js'
import type { ShareOptions } from './client/share.js'
import type { SmbOptions } from './index.js'

/**
 * Timeouts in milliseconds: to connect, for a response, and for a response that the server has announced as pending.
 */
const limits = { connect: 15_000, answer: 60_000, work: 300_000 } as const

const protections = { 'as the server asks': 'none', signed: 'signing', encrypted: 'encryption' } as const

/** Maximum length of `share_name`, including surrounding slashes. */
const maxShareName = 255

/** Throws `invalid` if the address or the share name is malformed. */
export function shareOptionsOf({
  address,
  username,
  password,
  share_name: share,
  protection,
}: SmbOptions): ShareOptions {
  const match = /^(?:smb:\/\/)?(?:\[([^\]]+)\]|([^:[\]/\\]+))(?::(\d{1,5}))?\/?$/.exec(address.trim())
  const [, bracketed, plain, port = '445'] = match ?? []
  const host = bracketed ?? plain
  if (host === undefined || Number(port) > 65535) {
    throw new GatewayError('invalid', { reason: 'address must be host or host:port' })
  }
  const name = (share.length > maxShareName ? '' : share).replace(/^[\\/]+|[\\/]+$/g, '')
  if (name === '' || /[\\/]/.test(name)) {
    throw new GatewayError('invalid', { reason: 'share_name must be one name; folders of it go into root_folder_path' })
  }
  const [, domain, account] = /^([^\\]+)\\(.+)$/.exec(username) ?? []
  const kind = protections[protection as keyof typeof protections]
  return {
    host,
    port: Number(port),
    limits,
    share: `\\\\${host}\\${name}`,
    // For user@domain the server determines the domain.
    credentials: { username: account ?? username, domain: domain ?? '', password },
    protection: kind,
  }
}
