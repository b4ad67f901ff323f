/** Links of shares of File Browser and of Quantum, of which an import takes the hashes as ids. */
import { sharedFiles, sharedPages } from '../../../src/shares/path-in-share.js'
import { sitePath } from '../../lib/client.js'
import type { HttpApi } from '../api/http-api.js'

/**
 * The page of a share, which is below `/public` in Quantum, and downloads from it. What follows the hash is a path
 * within the share, as here.
 */
const oldLink = /^\/((?:public\/)?share|api\/public\/dl)\/([\w-]+)((?:\/[^?#]*)?)(?=[?#]|$)/

/** Where a link leads, if a setting says so and there is such a share. `url`: relative to the site. */
export function newShareLink({ gateway }: HttpApi, url: string): string | undefined {
  const { settings, shares, config } = gateway
  if (!settings.bool('filebrowser_share_links')) return undefined
  const [, kind, id = '', path = ''] = oldLink.exec(url) ?? []
  if (!shares.has(id)) return undefined
  return `${sitePath(config.site_url)}${kind === 'api/public/dl' ? sharedFiles : sharedPages}${id}${path}`
}
