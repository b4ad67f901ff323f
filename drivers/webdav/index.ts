/** Storages on a WebDAV server. */
import type { DriverType, OptionsOf } from '../../src/driver.js'

export const webdavFields = {
  vendor: { type: 'select', options: ['sharepoint', 'other'], default: 'other' },
  address: {
    type: 'string',
    required: true,
    help: 'URL of the folder that the server shows, such as https://example.org/dav',
  },
  username: { type: 'string', required: true },
  password: { type: 'string', required: true, secret: true },
  root_folder_path: { type: 'string', default: '/', required: true },
  tls_insecure_skip_verify: { type: 'bool', default: false, help: 'Trust any certificate of the server.' },
} as const

export type WebdavOptions = OptionsOf<typeof webdavFields>

export const webdavType: DriverType<typeof webdavFields> = {
  name: 'WebDav',
  fields: webdavFields,
  config: { local_sort: true, prefer_proxy: true, default_root: '/' },
  // Times are of the server's own making, unless it has shown that it takes ours.
  traits: { timeStep: Number.POSITIVE_INFINITY, parallel: 64, remote: true },
  async open(options, env) {
    const { openWebdav } = await import('./webdav.js')
    return openWebdav(options, env)
  },
}
