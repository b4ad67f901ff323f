/** Decides how a file is delivered: by the gateway, or by a redirect. A pure function, like `judge()`. */
import type { StorageRow } from '../store/rows.js'

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
  /** Of file servers, although its stored name is that of WebDAV. */
  readonly webdavPolicy: StorageRow['webdavPolicy']
  /** A proxy is configured for the storage, and the request does not bypass it. */
  readonly ownProxy: boolean
  /** Whether the name's extension is in this setting. */
  isListed(setting: 'proxy_types' | 'text_types'): boolean
}

/** 'refused': a 'proxied download' of this file is not allowed. */
export type DownloadVerdict = 'stream' | 'direct' | 'own proxy' | 'refused'

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
