/**
 * Download links of files: one request for a link serves all readers that wait for it, and later ones while it is
 * valid.
 */
import { LRUCache } from 'lru-cache'
import { untilAborted } from '../../../src/base/cancellation.js'

/** Maximum milliseconds for which a link is given to readers that know the file, if it is valid for longer. */
export const maxLinkLifetime = 5 * 60_000
const maxLinks = 1000

interface LinkCacheOptions<Link> {
  /** Milliseconds for which a link is given to further readers. */
  readonly lifetime: (link: Link) => number
  /** Whether several readers may use the link at the same time; default: yes. */
  readonly isShared?: (link: Link) => boolean
}

interface LinkUse {
  readonly signal?: AbortSignal | undefined
  /**
   * The reader has seen that the file exists. Otherwise the link is requested, which shows that, unless that is being
   * done.
   */
  readonly mayReuse: boolean
}

interface CachedLink<Link> {
  readonly link: Promise<Link>
  /** Milliseconds of `performance.now()`; infinite until the link has arrived. */
  until: number
}

export class LinkCache<Link> {
  /** The links by keys such as the ids of the files. */
  readonly #cached = new LRUCache<string, CachedLink<Link>>({ max: maxLinks })

  constructor(private readonly options: LinkCacheOptions<Link>) {}

  /** The link of this key. `request` serves other readers too, so no signal of one of them may abort it. */
  async get(key: string, request: () => Promise<Link>, use: LinkUse): Promise<Link> {
    return (await this.#take(key, request, use)).link
  }

  /**
   * Calls `work` with the link of this key, and again with a newer one if it resolves to undefined, because the link is
   * refused. Resolves to undefined if one is refused that was requested after that, for this call alone.
   */
  async use<T>(
    key: string,
    request: () => Promise<Link>,
    work: (link: Link) => Promise<T | undefined>,
    use: LinkUse,
  ): Promise<T | undefined> {
    const first = await this.#take(key, request, use)
    const result = await work(first.link)
    if (result !== undefined) return result
    this.#forget(key, first.from)
    const second = await this.#take(key, request, { ...use, mayReuse: true })
    const repeated = await work(second.link)
    if (repeated !== undefined) return repeated
    this.#forget(key, second.from)
    // Another reader may have used it up.
    return second.isOwn ? undefined : work(await untilAborted(request(), use.signal))
  }

  /** The file was removed. */
  drop(key: string): void {
    this.#cached.delete(key)
  }

  #forget(key: string, refused: CachedLink<Link>): void {
    if (this.#cached.get(key) === refused) this.#cached.delete(key)
  }

  /** `isOwn`: it was requested for this reader. */
  async #take(key: string, request: () => Promise<Link>, { signal, mayReuse }: LinkUse) {
    const { isShared = () => true } = this.options
    const cached = this.#cached.get(key)
    const isRequested = cached?.until === Number.POSITIVE_INFINITY
    if (cached && (isRequested || (mayReuse && performance.now() < cached.until))) {
      const link = await untilAborted(cached.link, signal)
      if (isShared(link)) return { link, from: cached, isOwn: false }
    }
    const from = this.#request(key, request)
    return { link: await untilAborted(from.link, signal), from, isOwn: true }
  }

  #request(key: string, request: () => Promise<Link>): CachedLink<Link> {
    const cached: CachedLink<Link> = { link: request(), until: Number.POSITIVE_INFINITY }
    this.#cached.set(key, cached)
    cached.link.then(
      (link) => (cached.until = performance.now() + this.options.lifetime(link)),
      () => this.#forget(key, cached),
    )
    return cached
  }
}
