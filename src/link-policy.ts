/** How a file is handed out: by us, or by an address that the client is sent on to. A pure function, like `judge()`. */
import type { StorageRow } from './store/rows.js'

/** Where a file is asked for: the links `/d` and `/p`, the `raw_url` of a file, WebDAV's GET. */
export type LinkRoute = 'd' | 'p' | 'raw_url' | 'webdav'

export interface LinkFacts {
  readonly route: LinkRoute
  /** The backend has an address of the file that anybody can open as it is: it is good now, and wants no headers. */
  readonly direct: boolean
  /** The storage's files are to be had from us, also where the backend has an address. */
  readonly webProxy: boolean
  readonly webdavPolicy: StorageRow['webdavPolicy']
  /** The storage names a proxy of its own, and the request does not pass it by. */
  readonly ownProxy: boolean
  /** Whether the name's extension is in this setting. */
  isListed(setting: 'proxy_types' | 'text_types'): boolean
}

/** 'refused': such a file does not go through us. */
export type LinkVerdict = 'stream' | 'direct' | 'own proxy' | 'refused'

export function judgeLink(facts: LinkFacts): LinkVerdict {
  const { route, direct, webdavPolicy } = facts
  const proxied = facts.ownProxy ? 'own proxy' : 'stream'
  const mustProxy = !direct || facts.webProxy
  switch (route) {
    case 'd':
      return mustProxy || facts.isListed('proxy_types') ? proxied : 'direct'
    case 'p': {
      const may = mustProxy || webdavPolicy === 'use_proxy_url'
      return may || facts.isListed('proxy_types') || facts.isListed('text_types') ? proxied : 'refused'
    }
    case 'raw_url':
      return mustProxy ? proxied : 'direct'
    case 'webdav':
      if (webdavPolicy === '302_redirect') return direct ? 'direct' : 'stream'
      return webdavPolicy === 'use_proxy_url' ? proxied : 'stream'
  }
}
