/** Driver type `WebDav`: a folder on a WebDAV server. */
import type { DriverType, OptionsOf } from '../../src/contract/driver-type.js'

export const webdavFields = {
  vendor: { type: 'select', options: ['sharepoint', 'other'], default: 'other' },
  address: {
    type: 'string',
    required: true,
    basic: true,
    help: 'URL of the WebDAV root, such as https://example.org/dav',
  },
  username: { type: 'string', required: true, basic: true },
  password: { type: 'string', required: true, secret: true, basic: true },
  root_folder_path: { type: 'string', default: '/', required: true, basic: true },
  tls_insecure_skip_verify: { type: 'bool', default: false, help: 'Do not verify the TLS certificate of the server.' },
} as const

export type WebdavOptions = OptionsOf<typeof webdavFields>

export const webdavType: DriverType<typeof webdavFields> = {
  name: 'WebDav',
  fields: webdavFields,
  facts: { directUrls: 'possible' },
  // The server sets modification times, until it has been seen to accept those of the client.
  traits: { timeStep: Number.POSITIVE_INFINITY, parallel: 64, remote: true },
  async open(options, env) {
    const { openWebdav } = await import('./webdav.js')
    return openWebdav(options, env)
  },
}
