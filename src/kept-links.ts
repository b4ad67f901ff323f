/** Direct addresses of files: asked for once by all who want one at the same time, and kept while they are good. */
import type { Link } from './driver.js'
import { isWithin, type Path } from './path.js'

/** Milliseconds that a kept link must still be good for: whoever is sent there has to arrive. */
const leastTime = 60_000
const linksAtMost = 4096

export class KeptLinks {
  /** Each with a time, the oldest first. */
  readonly #kept = new Map<Path, Link>()
  readonly #asked = new Map<Path, Promise<Link | undefined>>()

  /** Undefined where there is none, or only one that is good no longer. */
  of(path: Path, ask: () => Promise<Link | undefined>): Promise<Link | undefined> {
    const kept = this.#kept.get(path)
    if (kept && timeLeft(kept) > leastTime) return Promise.resolve(kept)
    const asked = this.#asked.get(path)
    if (asked) return asked
    const asking: Promise<Link | undefined> = this.#ask(path, ask, () => this.#asked.get(path) === asking)
    this.#asked.set(path, asking)
    return asking
  }

  async #ask(path: Path, ask: () => Promise<Link | undefined>, stands: () => boolean): Promise<Link | undefined> {
    try {
      const link = await ask()
      if (!link || timeLeft(link) <= 0) return undefined
      if (link.until && stands()) this.#keep(path, link)
      return link
    } finally {
      if (stands()) this.#asked.delete(path)
    }
  }

  #keep(path: Path, link: Link): void {
    this.#kept.delete(path)
    this.#kept.set(path, link)
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= linksAtMost) break
      this.#kept.delete(oldest)
    }
  }

  /** What was changed there, or with `below` in there, has another address from now on. */
  forget(path: Path, below: boolean): void {
    for (const links of [this.#kept, this.#asked]) {
      if (below) for (const each of links.keys()) if (isWithin(path, each)) links.delete(each)
      links.delete(path)
    }
  }
}

/** Milliseconds. */
function timeLeft({ until }: Link): number {
  return until ? until.getTime() - Date.now() : Number.POSITIVE_INFINITY
}
