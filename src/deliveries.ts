/** The addresses that clients are sent on to, by the verdict of the link policy. */
import type { Link } from './driver.js'
import { GatewayError } from './errors.js'
import { extensionOf, extensionsOf } from './extensions.js'
import { judgeLink, type LinkRoute } from './link-policy.js'
import type { Links } from './links.js'
import { encodePath, nameOf, type Path, withoutTrailing } from './path.js'
import type { Settings } from './settings.js'
import type { Storage } from './storage.js'

/**
 * 'stream': the file's bytes come from us. 'direct': from this address of the backend, one without a host where it starts
 * with a slash. 'own proxy': from this address of the storage's own proxy.
 */
export type Delivery = { readonly kind: 'stream' } | { readonly kind: 'direct' | 'own proxy'; readonly url: string }

export interface DeliveryAsk {
  readonly route: LinkRoute
  /** Not by the storage's own proxy: it is that which asks. */
  readonly withoutProxy?: boolean | undefined
}

const stream: Delivery = { kind: 'stream' }

export class Deliveries {
  constructor(
    private readonly settings: Pick<Settings, 'get'>,
    private readonly links: Pick<Links, 'sign'>,
  ) {}

  /** `path` is the storage's own. Rejects with `denied` where the file does not go through us, and as the driver's `link` does. */
  async of(storage: Storage, path: Path, { route, withoutProxy = false }: DeliveryAsk): Promise<Delivery> {
    const { row } = storage
    const [proxy = ''] = row.downProxyUrl.split('\n', 1).map((line) => line.trim())
    const judged = (direct: boolean) =>
      judgeLink({
        route,
        direct,
        webProxy: row.webProxy,
        webdavPolicy: row.webdavPolicy,
        ownProxy: proxy !== '' && !withoutProxy,
        isListed: (setting) => extensionsOf(this.settings.get(setting)).includes(extensionOf(nameOf(path))),
      })
    let verdict = judged(storage.hasLinks)
    // Whether there is an address that serves is known only once the backend was asked: it is not for what goes another way.
    if (storage.hasLinks && (verdict === 'direct' || verdict === 'refused')) {
      const url = openAddress(await storage.link(path))
      if (url === undefined) verdict = judged(false)
      else if (verdict === 'direct') return { kind: 'direct', url }
    }
    if (verdict === 'refused') throw new GatewayError('denied', { reason: 'proxy not allowed' })
    if (verdict !== 'own proxy') return stream
    const { kind } = await storage.stat(path)
    if (kind === 'folder') throw new GatewayError('is_dir')
    const at = storage.treePath(path)
    const query = row.disableProxySign ? '' : `?sign=${this.links.sign(at)}`
    return { kind: 'own proxy', url: withoutTrailing(proxy, '/') + encodePath(at) + query }
  }
}

/** The address where anybody can open it as it is, in characters that an address may hold; undefined where nobody should be sent there. */
export function openAddress(link: Link | undefined): string | undefined {
  if (!link || Object.keys(link.headers ?? {}).length > 0) return undefined
  if (!/^(https?:\/\/|\/(?!\/))/i.test(link.url)) return undefined
  return link.url.toWellFormed().replace(/[^\x21-\x7e]+/g, encodeURIComponent)
}
