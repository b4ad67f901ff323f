/** Driver type `Crypt`: encrypted files in another path of the tree, in the format of rclone's crypt. */
import { cleanPath } from '../../src/base/path.js'
import type { DriverType, OptionsOf } from '../../src/contract/driver-type.js'

export const cryptFields = {
  filename_encryption: {
    type: 'select',
    options: ['off', 'standard', 'obfuscate'],
    default: 'off',
    required: true,
    basic: true,
    help: 'Obfuscate only rotates characters; it does not protect names.',
  },
  directory_name_encryption: {
    type: 'select',
    options: ['false', 'true'],
    default: 'false',
    required: true,
    help: 'Has no effect if file names are not encrypted.',
  },
  remote_path: {
    type: 'string',
    required: true,
    basic: true,
    treePath: true,
    help: 'The path of the tree that contains the encrypted files.',
  },
  password: {
    type: 'string',
    required: true,
    secret: true,
    basic: true,
    help: 'Stored obscured, as in the configuration of rclone.',
  },
  salt: { type: 'string', secret: true, basic: true, help: 'The second password of rclone; may be empty.' },
  encrypted_suffix: {
    type: 'string',
    default: '.bin',
    required: true,
    help: 'The suffix of file names if names are not encrypted.',
  },
  filename_encoding: {
    type: 'select',
    options: ['base64', 'base32', 'base32768'],
    default: 'base64',
    required: true,
    help: 'The encoding of encrypted names. For backends with case-insensitive names: base32.',
  },
  thumbnail: {
    type: 'bool',
    default: false,
    required: true,
    help: 'Thumbnails are stored as .thumbnails/<name>.webp in the same folder.',
  },
  show_hidden: { type: 'bool', default: true, help: 'Off: names that start with a dot are not listed.' },
} as const

export type CryptOptions = OptionsOf<typeof cryptFields>

export const cryptType: DriverType<typeof cryptFields> = {
  name: 'Crypt',
  fields: cryptFields,
  facts: { uncached: true, composite: true },
  // Names are encrypted there.
  shows: ({ remote_path: path }) => [{ path: cleanPath(path), at: undefined }],
  async open(options, env) {
    const { openCrypt } = await import('./crypt.js')
    return openCrypt(options, env)
  },
}
