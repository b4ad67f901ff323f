/** Driver type `AliyundriveOpen`: a drive of Aliyundrive (alipan), by its open API. */
import type { DriverType, Fields, OptionsOf } from '../../src/contract/driver-type.js'

export const aliyundriveFields = {
  drive_type: {
    type: 'select',
    default: 'resource',
    options: ['default', 'resource', 'backup'],
    basic: true,
    help: 'Which of the drives of the account is shown.',
  },
  root_folder_id: {
    type: 'string',
    default: 'root',
    required: true,
    trimmed: true,
    basic: true,
    help: 'Id of the folder that is shown.',
  },
  refresh_token: {
    type: 'string',
    required: true,
    secret: true,
    trimmed: true,
    basic: true,
    singleUse: true,
    help: 'From the sign-in with Aliyundrive. Tokens that replace it are stored by the gateway, not here.',
  },
  order_by: {
    type: 'select',
    options: ['name', 'size', 'updated_at', 'created_at'],
    help: 'Order in which Aliyundrive lists a folder. It counts if the storage has no order of its own.',
  },
  order_direction: { type: 'select', options: ['ASC', 'DESC'] },
  oauth_token_url: {
    type: 'string',
    default: 'https://api.nn.ci/alist/ali_open/token',
    help: 'Service that renews tokens, if there is no client_id and use_online_api is off.',
  },
  use_online_api: {
    type: 'bool',
    default: true,
    help: 'Renew tokens by the service at api_url_address, if there is no client_id.',
  },
  alipan_type: {
    type: 'select',
    default: 'default',
    options: ['default', 'alipanTV'],
    help: 'Which sign-in of that service the token is from.',
  },
  api_url_address: { type: 'string', default: 'https://api.oplist.org/alicloud/renewapi' },
  client_id: {
    type: 'string',
    trimmed: true,
    help: 'Of an own application, with its secret: tokens are then renewed by Aliyundrive itself.',
  },
  client_secret: { type: 'string', secret: true, trimmed: true },
  remove_way: {
    type: 'select',
    options: ['trash', 'delete'],
    required: true,
    basic: true,
    help: 'Whether removed files go to the recycle bin.',
  },
  rapid_upload: {
    type: 'bool',
    help: 'Send no bytes of files that Aliyundrive knows. Uploads from clients are then stored on this machine first.',
  },
  internal_upload: { type: 'bool', help: 'Upload by the internal network of Aliyun in Beijing, from a server there.' },
  livp_download_format: {
    type: 'select',
    default: 'jpeg',
    options: ['jpeg', 'mov'],
    help: 'What a client gets of a live photo (.livp) that it downloads from Aliyundrive directly.',
  },
  AccessToken: { type: 'string', secret: true, trimmed: true, help: 'Optional: used until it is refused.' },
} as const satisfies Fields

export type AliyundriveOptions = OptionsOf<typeof aliyundriveFields>

export const aliyundriveType: DriverType<typeof aliyundriveFields> = {
  name: 'AliyundriveOpen',
  fields: aliyundriveFields,
  facts: { directUrls: 'preferred' },
  // Times of files are not listed as they were sent. Sizes have to be known before an upload. Each upload holds a part.
  traits: { writeNeeds: 'size', timeStep: Number.POSITIVE_INFINITY, parallel: 8, remote: true, metered: true },
  async open(options, env) {
    const { openAliyundrive } = await import('./open.js')
    return openAliyundrive(options, env)
  },
}
