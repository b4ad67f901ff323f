/** Storages on an SFTP server. */
import type { DriverType, OptionsOf } from '../../src/contract/driver-type.js'

export const sftpFields = {
  address: { type: 'string', required: true, basic: true, help: 'host:port; the port is 22 where it is left out.' },
  username: { type: 'string', required: true, basic: true },
  private_key: {
    type: 'text',
    secret: true,
    basic: true,
    help: 'A key in OpenSSH or PEM form. It goes before the password.',
  },
  password: { type: 'string', secret: true, basic: true },
  passphrase: { type: 'string', secret: true, help: 'Of the key.' },
  root_folder_path: { type: 'string', default: '/', required: true },
  ignore_symlink_error: {
    type: 'bool',
    default: false,
    help: 'Show symlinks that lead nowhere. Otherwise they are left out of listings.',
  },
  host_key: {
    type: 'string',
    help: 'Fingerprint of the server as ssh-keygen -l shows it, SHA256:… Left out: the first one seen is trusted and remembered.',
  },
} as const

export type SftpOptions = OptionsOf<typeof sftpFields>

export const sftpType: DriverType<typeof sftpFields> = {
  name: 'SFTP',
  fields: sftpFields,
  // Times are whole seconds in version 3 of the protocol. Not every server sets attributes, and some report success and
  // set nothing: only what it shows afterwards is certain.
  traits: { timeStep: 1000, keeps: [], remote: true },
  async open(options, env) {
    const { openSftp } = await import('./sftp.js')
    return openSftp(options, env)
  },
}
