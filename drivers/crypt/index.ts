/** Storages that keep everything encrypted in another path of the tree, byte for byte as rclone's crypt does. */
import type { DriverType, OptionsOf } from '../../src/driver.js'

export const cryptFields = {
  filename_encryption: {
    type: 'select',
    options: ['off', 'standard', 'obfuscate'],
    default: 'off',
    required: true,
    help: 'Obfuscate only turns letters round: it hides names from nobody who wants to know them.',
  },
  directory_name_encryption: {
    type: 'select',
    options: ['false', 'true'],
    default: 'false',
    required: true,
    help: 'Of no effect where file names are not encrypted.',
  },
  remote_path: { type: 'string', required: true, help: 'The path of the tree where the encrypted files are.' },
  password: { type: 'string', required: true, secret: true, help: 'Kept obscured, as in the configuration of rclone.' },
  salt: { type: 'string', secret: true, help: 'The second password of rclone; may be empty.' },
  encrypted_suffix: {
    type: 'string',
    default: '.bin',
    required: true,
    help: 'What the names of files get where names are not encrypted.',
  },
  filename_encoding: {
    type: 'select',
    options: ['base64', 'base32', 'base32768'],
    default: 'base64',
    required: true,
    help: 'How encrypted names are written. Where the backend takes names for one that differ in case: base32.',
  },
  thumbnail: {
    type: 'bool',
    default: false,
    required: true,
    help: 'Thumbnails are files that lie beside: .thumbnails/<name>.webp.',
  },
  show_hidden: { type: 'bool', default: true, help: 'Off: names that start with a dot are not listed.' },
} as const

export type CryptOptions = OptionsOf<typeof cryptFields>

export const cryptType: DriverType<typeof cryptFields> = {
  name: 'Crypt',
  fields: cryptFields,
  config: { local_sort: true, only_proxy: true, no_cache: true, default_root: '/' },
  async open(options, env) {
    const { openCrypt } = await import('./crypt.js')
    return openCrypt(options, env)
  },
}
