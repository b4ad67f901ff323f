/**
 * Folders that were used a moment ago, still open: asking one of them where it stands tells what opening its path would,
 * for a tenth of the time. They are let go soon, so that a disk can be unmounted, and a right that was taken away counts.
 */
import type { Calls } from './calls.js'
import { HandleFolder } from './folder.js'

/** Milliseconds. */
const lifetime = 1000
const heldAtMost = 128

interface Held {
  readonly folder: HandleFolder
  readonly until: number
}

export class HeldFolders {
  /** By path of the host, the oldest first. */
  readonly #held = new Map<string, Held>()
  #sweep: NodeJS.Timeout | undefined

  /** The folder with this very path, if it is held and nothing above it was moved or replaced. The taker closes it. */
  take(host: string, calls: Calls): HandleFolder | undefined {
    const held = this.#held.get(host)
    if (!held) return undefined
    const { folder, until } = held
    if (performance.now() < until && folder.stands()) return new HandleFolder(host, calls, folder.handle.share())
    this.#drop(held)
    return undefined
  }

  /** The caller goes on using, and closes, its own. */
  keep({ host, calls, handle }: HandleFolder): void {
    const known = this.#held.get(host)
    if (known) this.#drop(known)
    const folder = new HandleFolder(host, calls, handle.share())
    this.#held.set(host, { folder, until: performance.now() + lifetime })
    const [oldest] = this.#held.values()
    if (oldest && this.#held.size > heldAtMost) this.#drop(oldest)
    this.#sweep ??= setTimeout(() => this.#letGo(), lifetime).unref()
  }

  #drop({ folder }: Held): void {
    this.#held.delete(folder.host)
    folder.close()
  }

  #letGo(): void {
    const now = performance.now()
    for (const held of this.#held.values()) if (held.until <= now) this.#drop(held)
    this.#sweep = this.#held.size > 0 ? setTimeout(() => this.#letGo(), lifetime).unref() : undefined
  }

  close(): void {
    clearTimeout(this.#sweep)
    this.#sweep = undefined
    for (const held of this.#held.values()) this.#drop(held)
  }
}
