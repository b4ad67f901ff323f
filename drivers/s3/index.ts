/** Buckets of Amazon S3 and of compatible servers. */
import type { DriverType, OptionsOf } from '../../src/contract/driver-type.js'

export const s3Fields = {
  root_folder_path: { type: 'string', default: '/', required: true, help: 'Folder of the bucket that is shown.' },
  bucket: { type: 'string', required: true, basic: true },
  endpoint: {
    type: 'string',
    required: true,
    basic: true,
    help: 'Address of the server, such as https://s3.eu-central-1.amazonaws.com. Without a scheme: https.',
  },
  region: { type: 'string', help: 'Many other servers than those of Amazon take any.' },
  access_key_id: { type: 'string', required: true, basic: true },
  secret_access_key: { type: 'string', required: true, secret: true, basic: true },
  session_token: { type: 'string', secret: true, help: 'Third part of temporary credentials.' },
  custom_host: { type: 'string', help: 'Public host in addresses of files, instead of that of the endpoint.' },
  enable_custom_host_presign: { type: 'bool', help: 'Sign addresses of the custom host.' },
  sign_url_expire: { type: 'number', default: 4, help: 'Hours for which a signed address is good; 168 at most.' },
  placeholder: { type: 'string', help: 'Name of the empty file that keeps a folder. Empty: .openlist.' },
  force_path_style: { type: 'bool', help: 'The bucket is in the path of an address, not in its host.' },
  list_object_version: { type: 'select', options: ['v1', 'v2'], default: 'v1' },
  remove_bucket: { type: 'bool', help: 'With a custom host: leave the bucket out of the path of addresses.' },
  add_filename_to_disposition: {
    type: 'bool',
    help: 'Addresses name the file also for clients that only know plain names.',
  },
  user_agent: { type: 'string' },
  keep_times: {
    type: 'bool',
    default: false,
    help: 'Show the times that clients gave their files, not those of the uploads. Each listing then asks for every file by itself.',
  },
} as const

export type S3Options = OptionsOf<typeof s3Fields>

export const s3Type: DriverType<typeof s3Fields> = {
  name: 'S3',
  fields: s3Fields,
  facts: { directUrls: 'preferred' },
  traits: { timeStep: Number.POSITIVE_INFINITY, parallel: 128, remote: true },
  async open(options, env) {
    const { openS3 } = await import('./s3.js')
    return openS3(options, env)
  },
}
