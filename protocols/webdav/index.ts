/** WebDAV as the daemon starts it. */
import type { Protocol } from '../lib/protocol.js'

export const webdav = {
  name: 'webdav',
  permissions: { read: 'webdavRead', manage: 'webdavManage' },
  appPasswords: true,
  repeatsCredentials: true,
  path: '/dav',
  async handler({ config, opening }) {
    const { webdavHandler } = await import('./server.js')
    return webdavHandler(await opening, { trustedProxies: config.trusted_proxies, siteUrl: config.site_url })
  },
} as const satisfies Protocol
