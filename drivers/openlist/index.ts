/** Driver types `OpenList` and `AList V3`: another gateway with the API of this family, Tidegate included. */
import type { DriverType, Fields, OptionsOf } from '../../src/contract/driver-type.js'

export const alistFields = {
  root_folder_path: {
    type: 'string',
    default: '/',
    required: true,
    basic: true,
    help: 'Folder of the other gateway that is shown.',
  },
  url: {
    type: 'string',
    required: true,
    basic: true,
    help: 'Address of the other gateway, such as https://files.example.org',
  },
  meta_password: { type: 'string', secret: true, help: 'Password of its folders, if a rule asks for one.' },
  username: { type: 'string', basic: true, help: 'Empty, without a token: its guest.' },
  password: { type: 'string', secret: true, basic: true },
  token: { type: 'string', secret: true, trimmed: true, help: 'Used instead of the password, until it is refused.' },
  pass_ip_to_upsteam: { type: 'bool', default: true, help: 'Tell it the address of the client that will download.' },
  pass_ua_to_upsteam: { type: 'bool', default: true, help: 'Tell it the User-Agent of the client that will download.' },
} as const satisfies Fields

export const openlistFields = {
  ...alistFields,
  pass_refresh_flag_to_upsteam: {
    type: 'bool',
    default: true,
    help: 'A refresh of a folder also refreshes it there, if the account may.',
  },
} as const satisfies Fields

export type OpenlistOptions = OptionsOf<typeof alistFields> & Partial<OptionsOf<typeof openlistFields>>

const kind = {
  facts: { directUrls: 'preferred' },
  // Uploads of unknown size are refused by some, or received twice.
  traits: { writeNeeds: 'size', parallel: 32, remote: true },
} as const

async function open(options: OpenlistOptions, env: Parameters<DriverType['open']>[1]) {
  const { openOpenlist } = await import('./openlist.js')
  return openOpenlist(options, env)
}

export const openlistType: DriverType<typeof openlistFields> = {
  name: 'OpenList',
  fields: openlistFields,
  ...kind,
  open,
}

export const alistType: DriverType<typeof alistFields> = { name: 'AList V3', fields: alistFields, ...kind, open }
