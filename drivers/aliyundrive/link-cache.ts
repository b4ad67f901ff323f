/** Download links of files, used for a minute: the server allows less than one request for a link per second. */
import { untilAborted } from '../../src/contract/cancellation.js'
import type { DownloadLinks } from './drive-api.js'

/** Milliseconds. The links are valid for longer, but not if the server has a reason. */
const lifetime = 60_000
const maxLinks = 1000

interface CachedLinks {
  readonly links: Promise<DownloadLinks>
  /** Milliseconds of `performance.now()`. */
  readonly until: number
}

export class LinkCache {
  /** By the ids of the files, oldest first. */
  readonly #cached = new Map<string, CachedLinks>()

  constructor(private readonly request: (id: string) => Promise<DownloadLinks>) {}

  /** One request serves all callers that wait for it. */
  async get(id: string, signal?: AbortSignal): Promise<DownloadLinks> {
    const cached = this.#cached.get(id)
    if (cached && performance.now() < cached.until) return untilAborted(cached.links, signal)
    const links = this.request(id)
    links.catch(() => this.drop(id))
    this.#cached.delete(id)
    this.#cached.set(id, { links, until: performance.now() + lifetime })
    const [oldest] = this.#cached.keys()
    if (oldest !== undefined && this.#cached.size > maxLinks) this.#cached.delete(oldest)
    return untilAborted(links, signal)
  }

  /** A link was refused, or the file was removed. */
  drop(id: string): void {
    this.#cached.delete(id)
  }
}
