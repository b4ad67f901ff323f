/** Decides how a file is delivered, by the gateway or by a redirect, and routes its download. */
import type { CallOptions, Awaitable } from '../contract/call-options.js'
import type { DirectUrl, UrlClient } from '../contract/capabilities.js'
import { GatewayError } from '../base/errors.js'
import { extensionOf, extensionsOf } from '../settings/file-extensions.js'
import { encodePath, nameOf, trimTrailing, type Path } from '../base/path.js'
import type { Settings } from '../settings/settings.js'
import type { Storage } from '../storage/storage.js'
import type { StorageRow } from '../database/tables/storages.js'
import type { SignedUrls } from './signed-urls.js'

/**
 * 'stream': the gateway sends the file. 'direct': the client is redirected to this direct URL of the backend, which is
 * a path if it starts with a slash. 'own proxy': the client is redirected to this URL of the storage's own proxy.
 */
export type DownloadRoute =
  { readonly kind: 'stream' } | { readonly kind: 'direct' | 'own proxy'; readonly url: string }

export interface DownloadRouteOptions {
  readonly route: DownloadRequestKind
  /** The client that will request the URL. */
  readonly client?: UrlClient | undefined
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
   * `path` is relative to the storage. Returns at once if the gateway sends the file. Rejects with `denied` if the
   * verdict is 'refused', and as the driver's `directUrl` does.
   */
  route(storage: Storage, path: Path, options: DownloadRouteOptions & CallOptions): Awaitable<DownloadRoute> {
    const verdict = this.#verdict(storage, path, options, storage.hasDirectUrls)
    return verdict === 'stream' ? stream : this.#redirect(storage, path, options, verdict)
  }

  #verdict({ row }: Storage, path: Path, options: DownloadRouteOptions, direct: boolean): DownloadVerdict {
    return judgeDownload({
      route: options.route,
      direct,
      webProxy: row.webProxy,
      webdavPolicy: row.webdavPolicy,
      ownProxy: ownProxyOf(row) !== '' && options.withoutProxy !== true,
      isListed: (setting) => extensionsOf(this.settings.get(setting)).includes(extensionOf(nameOf(path))),
    })
  }

  async #redirect(
    storage: Storage,
    path: Path,
    options: DownloadRouteOptions & CallOptions,
    first: DownloadVerdict,
  ): Promise<DownloadRoute> {
    const { row } = storage
    const { signal, client } = options
    let verdict = first
    // Requests the direct URL only if the verdict depends on it.
    if (storage.hasDirectUrls && (verdict === 'direct' || verdict === 'refused')) {
      const url = redirectUrl(await storage.directUrl(path, { signal, ...client }))
      if (url === undefined) verdict = this.#verdict(storage, path, options, false)
      else if (verdict === 'direct') return { kind: 'direct', url }
    }
    if (verdict === 'refused') throw new GatewayError('denied', { detail: 'proxy_refused' })
    if (verdict !== 'own proxy') return stream
    const { kind } = await storage.stat(path, { signal })
    if (kind === 'folder') throw new GatewayError('is_folder')
    const treePath = storage.treePath(path)
    const query = row.disableProxySign ? '' : `?sign=${this.signedUrls.sign(treePath)}`
    return { kind: 'own proxy', url: trimTrailing(ownProxyOf(row), '/') + encodePath(treePath) + query }
  }
}

/** The URL of the storage's own proxy, or its path on this server; empty if it has none. */
function ownProxyOf({ downProxyUrl }: StorageRow): string {
  if (downProxyUrl === '') return ''
  // Two slashes would begin the name of a host.
  return (
    downProxyUrl
      .split('\n', 1)[0]
      ?.trim()
      .replace(/^\/{2,}/, '/') ?? ''
  )
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

/**
 * The kind of request: a download that may be redirected to the backend, one that may not, the display of a file in the
 * console, the URL in the details of a file, or a GET of a file server.
 */
export type DownloadRequestKind = 'download' | 'proxied download' | 'preview' | 'file details' | 'file server'

interface DownloadFacts {
  readonly route: DownloadRequestKind
  /** The backend has a direct URL of the file that needs no additional request headers. */
  readonly direct: boolean
  /** The storage's option to deliver files through a proxy even if there is a direct URL. */
  readonly webProxy: boolean
  /** How requests of the kind 'file server' are answered. The stored name of the option is that of WebDAV. */
  readonly webdavPolicy: StorageRow['webdavPolicy']
  /** A proxy is configured for the storage, and the request does not bypass it. */
  readonly ownProxy: boolean
  /** Whether the name's extension is in this setting. */
  isListed(setting: 'proxy_types' | 'text_types'): boolean
}

/** 'refused': a 'proxied download' of this file is not allowed. */
export type DownloadVerdict = 'stream' | 'direct' | 'own proxy' | 'refused'

/** The download policy: a pure function, like `judge()`. */
export function judgeDownload(facts: DownloadFacts): DownloadVerdict {
  const { route, direct, webdavPolicy } = facts
  const proxied = facts.ownProxy ? 'own proxy' : 'stream'
  const mustProxy = !direct || facts.webProxy
  switch (route) {
    case 'download':
      return mustProxy || facts.isListed('proxy_types') ? proxied : 'direct'
    case 'proxied download': {
      const may = mustProxy || webdavPolicy === 'use_proxy_url'
      return may || facts.isListed('proxy_types') || facts.isListed('text_types') ? proxied : 'refused'
    }
    case 'preview':
      // The policy of the console lets browsers load files from this server only.
      return 'stream'
    case 'file details':
      return mustProxy ? proxied : 'direct'
    case 'file server':
      if (webdavPolicy === '302_redirect') return direct ? 'direct' : 'stream'
      return webdavPolicy === 'use_proxy_url' ? proxied : 'stream'
  }
}
