/** Driver type `Rclone`: any remote of a configuration of rclone. */
import type { DriverType, OptionsOf } from '../../src/contract/driver-type.js'

export const rcloneFields = {
  remote: {
    type: 'string',
    required: true,
    basic: true,
    help: 'Name of a remote in the configuration of rclone, and a folder of it: gdrive: or gdrive:folder.',
  },
  config_path: {
    type: 'string',
    basic: true,
    help: 'Configuration file of rclone. Empty: the one that rclone uses by default.',
  },
  config_password: { type: 'string', secret: true, help: 'Password of an encrypted configuration file.' },
  program_path: { type: 'string', help: 'The program, version 1.60 or newer. Empty: rclone from PATH.' },
  flags: {
    type: 'text',
    help: 'Flags of rclone such as --bwlimit=10M, one on each line. The documentation lists which are accepted.',
  },
} as const

export type RcloneOptions = OptionsOf<typeof rcloneFields>

export const rcloneType: DriverType<typeof rcloneFields> = {
  name: 'Rclone',
  fields: rcloneFields,
  facts: { warning: 'Starts the program rclone with the rights of the gateway.' },
  // The other traits depend on the remote.
  traits: { timeStep: 1000, keeps: [], parallel: 16, remote: true },
  async open(options, env) {
    const { openRclone } = await import('./rclone.js')
    return openRclone(options, env)
  },
}
