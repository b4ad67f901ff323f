/**
 * Caches the direct URLs of files until shortly before they expire. Concurrent requests for one file share a request to
 * the backend, unless its URLs are bound to different clients.
 */
import { LRUCache } from 'lru-cache'
import type { DirectUrl, UrlClient } from '../contract/capabilities.js'
import { isWithin, type Path } from '../base/path.js'

/** Minimum remaining validity of a cached URL in milliseconds, so that a redirected client can still use it. */
const minLifetime = 60_000
const maxUrls = 4096

/** A path; for a URL that is bound to a client, followed by a NUL and what it is bound to. */
type Key = string

export class DirectUrlCache {
  /** URLs with an expiry time. */
  readonly #urls = new LRUCache<Key, DirectUrl>({ maxSize: maxUrls, sizeCalculation: () => 1 })
  readonly #pending = new Map<Key, Promise<DirectUrl | undefined>>()
  #hasBoundUrls = false

  /**
   * The URL from the cache, or from `request`. `client`: what of the client the URL is bound to. Undefined if there is
   * none, or if it has expired already.
   */
  get(
    path: Path,
    request: () => Promise<DirectUrl | undefined>,
    client: UrlClient = {},
  ): Promise<DirectUrl | undefined> {
    const isBound = Object.keys(client).length > 0
    this.#hasBoundUrls ||= isBound
    const key = isBound ? `${path}\0${JSON.stringify(client)}` : path
    const cached = this.#urls.get(key)
    if (cached && timeLeft(cached) > minLifetime) return Promise.resolve(cached)
    const pending = this.#pending.get(key)
    if (pending) return pending
    const started: Promise<DirectUrl | undefined> = this.#request(
      key,
      request,
      () => this.#pending.get(key) === started,
    )
    this.#pending.set(key, started)
    return started
  }

  /** `isValid`: the path was not invalidated since the request started. */
  async #request(
    key: Key,
    request: () => Promise<DirectUrl | undefined>,
    isValid: () => boolean,
  ): Promise<DirectUrl | undefined> {
    try {
      const url = await request()
      if (!url || timeLeft(url) <= 0) return undefined
      if (url.until && isValid()) this.#urls.set(key, url)
      return url
    } finally {
      if (isValid()) this.#pending.delete(key)
    }
  }

  /**
   * Drops the URLs that a change at `path` invalidates, and results of pending requests. `below`: those below `path`
   * too.
   */
  invalidate(path: Path, below: boolean): void {
    for (const items of [this.#urls, this.#pending]) {
      items.delete(path)
      if (!below && !this.#hasBoundUrls) continue
      for (const key of [...items.keys()]) {
        const at = pathOf(key)
        if (at === path || (below && isWithin(path, at))) items.delete(key)
      }
    }
  }
}

function pathOf(key: Key): Path {
  const end = key.indexOf('\0')
  return (end < 0 ? key : key.slice(0, end)) as Path
}

/** Milliseconds until the URL expires. */
function timeLeft({ until }: DirectUrl): number {
  return until ? until.getTime() - Date.now() : Number.POSITIVE_INFINITY
}
