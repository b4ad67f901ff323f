/**
 * Caches the direct URLs of files until shortly before they expire. Concurrent requests for one file share a request to
 * the backend.
 */
import type { DirectUrl } from '../contract/capabilities.js'
import { isWithin, type Path } from '../contract/path.js'

/** Minimum remaining validity of a cached URL in milliseconds, so that a redirected client can still use it. */
const minLifetime = 60_000
const maxUrls = 4096

export class DirectUrlCache {
  /** URLs with an expiry time, oldest first. */
  readonly #urls = new Map<Path, DirectUrl>()
  readonly #pending = new Map<Path, Promise<DirectUrl | undefined>>()

  /** The URL from the cache, or from `request`. Undefined if there is none, or if it has expired already. */
  get(path: Path, request: () => Promise<DirectUrl | undefined>): Promise<DirectUrl | undefined> {
    const cached = this.#urls.get(path)
    if (cached && timeLeft(cached) > minLifetime) return Promise.resolve(cached)
    const pending = this.#pending.get(path)
    if (pending) return pending
    const started: Promise<DirectUrl | undefined> = this.#request(
      path,
      request,
      () => this.#pending.get(path) === started,
    )
    this.#pending.set(path, started)
    return started
  }

  /** `isValid`: the path was not invalidated since the request started. */
  async #request(
    path: Path,
    request: () => Promise<DirectUrl | undefined>,
    isValid: () => boolean,
  ): Promise<DirectUrl | undefined> {
    try {
      const url = await request()
      if (!url || timeLeft(url) <= 0) return undefined
      if (url.until && isValid()) this.#add(path, url)
      return url
    } finally {
      if (isValid()) this.#pending.delete(path)
    }
  }

  #add(path: Path, url: DirectUrl): void {
    this.#urls.delete(path)
    this.#urls.set(path, url)
    for (const oldest of this.#urls.keys()) {
      if (this.#urls.size <= maxUrls) break
      this.#urls.delete(oldest)
    }
  }

  /**
   * Drops the URLs that a change at `path` invalidates, and results of pending requests. `below`: those below `path`
   * too.
   */
  invalidate(path: Path, below: boolean): void {
    for (const items of [this.#urls, this.#pending]) {
      if (below) for (const each of items.keys()) if (isWithin(path, each)) items.delete(each)
      items.delete(path)
    }
  }
}

/** Milliseconds until the URL expires. */
function timeLeft({ until }: DirectUrl): number {
  return until ? until.getTime() - Date.now() : Number.POSITIVE_INFINITY
}
