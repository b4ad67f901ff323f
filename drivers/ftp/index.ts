/** Folders on an FTP server, with or without TLS. */
import type { DriverType, OptionsOf } from '../../src/contract/driver-type.js'

export const ftpFields = {
  address: {
    type: 'string',
    required: true,
    basic: true,
    help: 'host:port. ftpes:// before it asks for TLS (explicit, port 21), ftps:// for implicit TLS (port 990); without, nothing is encrypted.',
  },
  encoding: { type: 'string', help: 'Of names, as GBK or Shift_JIS. Left out: UTF-8.' },
  username: { type: 'string', required: true, basic: true },
  password: { type: 'string', required: true, secret: true, basic: true },
  cwd_list: { type: 'bool', default: false, help: 'Change into a folder to list it, for servers that list no paths.' },
  root_folder_path: { type: 'string', default: '/', required: true, basic: true },
  ca_certificate: {
    type: 'text',
    help: 'Certificate of an authority, or of the server itself, in PEM form: trusted beside those that the system knows.',
  },
  tls_insecure_skip_verify: {
    type: 'bool',
    default: false,
    help: 'Trust any certificate. Whoever is between can then read and change everything.',
  },
} as const

export type FtpOptions = OptionsOf<typeof ftpFields>

export const ftpType: DriverType<typeof ftpFields> = {
  name: 'FTP',
  fields: ftpFields,
  traits: { remote: true },
  async open(options, env) {
    const { openFtp } = await import('./ftp.js')
    return openFtp(options, env)
  },
}
