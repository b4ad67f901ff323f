/** The HTTP API, downloads and web pages as the daemon starts them. */
import type { Protocol } from '../lib/protocol.js'
import { settingsOfTheApi } from './compat/settings.js'

export const http: Protocol = {
  name: 'http',
  appPasswords: false,
  path: '',
  settings: settingsOfTheApi,
  async checkConfig(config, log) {
    if (config.dist_dir === '') return
    const { WebClient } = await import('./site/web-client.js')
    await WebClient.open(config, log)
  },
  async handler({ config, log, opening }) {
    const { httpHandler } = await import('./server.js')
    const { WebClient } = await import('./site/web-client.js')
    const web = await (config.dist_dir === '' ? WebClient.openConsole(config, log) : WebClient.open(config, log))
    return httpHandler(await opening, { trustedProxies: config.trusted_proxies, siteUrl: config.site_url }, web)
  },
}
