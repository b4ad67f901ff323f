/** Routes downloads by the verdict of the download policy. */
import type { CallOptions } from '../contract/call-options.js'
import type { DirectUrl } from '../contract/capabilities.js'
import { GatewayError } from '../contract/errors.js'
import { extensionOf, extensionsOf } from '../contract/file-extensions.js'
import { encodePath, nameOf, trimTrailing, type Path } from '../contract/path.js'
import type { Settings } from '../settings/settings.js'
import type { Storage } from '../storage/storage.js'
import { judgeDownload, type DownloadRequestKind } from './download-policy.js'
import type { SignedUrls } from './signed-urls.js'

/**
 * 'stream': the gateway sends the file. 'direct': the client is redirected to this direct URL of the backend, which is
 * a path if it starts with a slash. 'own proxy': the client is redirected to this URL of the storage's own proxy.
 */
export type DownloadRoute =
  { readonly kind: 'stream' } | { readonly kind: 'direct' | 'own proxy'; readonly url: string }

export interface DownloadRouteOptions {
  readonly route: DownloadRequestKind
  /** Never routes to the storage's own proxy, because that proxy sends the request. */
  readonly withoutProxy?: boolean | undefined
}

const stream: DownloadRoute = { kind: 'stream' }

export class DownloadRouting {
  constructor(
    private readonly settings: Pick<Settings, 'get'>,
    private readonly signedUrls: Pick<SignedUrls, 'sign'>,
  ) {}

  /**
   * `path` is relative to the storage. Rejects with `denied` if the verdict is 'refused', and as the driver's
   * `directUrl` does.
   */
  async route(
    storage: Storage,
    path: Path,
    { route, withoutProxy = false, signal }: DownloadRouteOptions & CallOptions,
  ): Promise<DownloadRoute> {
    const { row } = storage
    const proxy = row.downProxyUrl.split('\n', 1)[0]?.trim() ?? ''
    const verdictFor = (direct: boolean) =>
      judgeDownload({
        route,
        direct,
        webProxy: row.webProxy,
        webdavPolicy: row.webdavPolicy,
        ownProxy: proxy !== '' && !withoutProxy,
        isListed: (setting) => extensionsOf(this.settings.get(setting)).includes(extensionOf(nameOf(path))),
      })
    let verdict = verdictFor(storage.hasDirectUrls)
    // Requests the direct URL only if the verdict depends on it.
    if (storage.hasDirectUrls && (verdict === 'direct' || verdict === 'refused')) {
      const url = redirectUrl(await storage.directUrl(path, { signal }))
      if (url === undefined) verdict = verdictFor(false)
      else if (verdict === 'direct') return { kind: 'direct', url }
    }
    if (verdict === 'refused') throw new GatewayError('denied', { detail: 'proxy_refused' })
    if (verdict !== 'own proxy') return stream
    const { kind } = await storage.stat(path, { signal })
    if (kind === 'folder') throw new GatewayError('is_folder')
    const treePath = storage.treePath(path)
    const query = row.disableProxySign ? '' : `?sign=${this.signedUrls.sign(treePath)}`
    return { kind: 'own proxy', url: trimTrailing(proxy, '/') + encodePath(treePath) + query }
  }
}

/**
 * The URL in visible ASCII, for a redirect; undefined if it needs additional headers, or is neither HTTP(S) nor an
 * absolute path.
 */
function redirectUrl(direct: DirectUrl | undefined): string | undefined {
  if (!direct || Object.keys(direct.headers ?? {}).length > 0) return undefined
  if (!/^(https?:\/\/|\/(?!\/))/i.test(direct.url)) return undefined
  return direct.url.toWellFormed().replace(/[^\x21-\x7e]+/g, encodeURIComponent)
}
