/** Driver type `SMB`: a share of an SMB server (Windows, Samba, a NAS). */
import type { DriverType, OptionsOf } from '../../src/contract/driver-type.js'

export const smbFields = {
  root_folder_path: {
    type: 'string',
    default: '.',
    required: true,
    help: 'A folder of the share; . is the share itself.',
  },
  address: { type: 'string', required: true, basic: true, help: 'host or host:port; the default port is 445.' },
  username: { type: 'string', required: true, basic: true, help: 'For a domain account: DOMAIN\\user or user@domain.' },
  password: { type: 'string', secret: true, basic: true },
  share_name: { type: 'string', required: true, basic: true },
  protection: {
    type: 'select',
    options: ['as the server asks', 'signed', 'encrypted'],
    default: 'as the server asks',
    help: 'What the server requires is always used. Signing prevents changes in transit; encryption also prevents reading.',
  },
} as const

export type SmbOptions = OptionsOf<typeof smbFields>

export const smbType: DriverType<typeof smbFields> = {
  name: 'SMB',
  fields: smbFields,
  facts: { uncached: true },
  traits: { caseSensitive: false, keeps: ['modified'], remote: true },
  async open(options, env) {
    const { openSmb } = await import('./smb.js')
    return openSmb(options, env)
  },
}
