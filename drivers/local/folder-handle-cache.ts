/**
 * Caches handles of recently used folders. Checking where a handle is located takes a tenth of the time of opening its
 * path. It is checked once for each turn of the event loop (docs/decisions/0002-local-on-disk.md). Handles are closed
 * soon, so that disks can be unmounted and revoked permissions take effect. Without the cache, a small GET takes 1.2
 * and a small PUT 1.3 times the processor time.
 */
import { LRUCache } from 'lru-cache'
import type { HandleFolder } from './folder.js'

/** Milliseconds for which a handle is cached. */
const lifetime = 1000
/** Milliseconds after which a handle is checked again in the same turn, which may include a wait for events. */
const checkLifetime = 1
const maxHandles = 128

interface CachedFolder {
  readonly folder: HandleFolder
  /** The number of the last turn in which it was where it was opened, and the time in milliseconds. */
  checkedIn: number
  checkedAt: number
}

export class FolderHandleCache {
  /** The open folders by their paths on the host. */
  readonly #cached = new LRUCache<string, CachedFolder>({
    max: maxHandles,
    ttl: lifetime,
    ttlAutopurge: true,
    // Otherwise each look sets a timer, for which the time is remembered.
    ttlResolution: 0,
    dispose: ({ folder }) => folder.close(),
  })

  /**
   * The cached folder of this path, if neither it nor a folder above it was moved or replaced before this turn. The
   * caller closes it.
   */
  get(host: string, turn: number): HandleFolder | undefined {
    const cached = this.#cached.get(host)
    if (!cached) return undefined
    const now = performance.now()
    if (cached.checkedIn !== turn || now - cached.checkedAt > checkLifetime) {
      if (!cached.folder.isUnmoved()) {
        this.#cached.delete(host)
        return undefined
      }
      cached.checkedIn = turn
      cached.checkedAt = now
    }
    return cached.folder.share()
  }

  /** Caches another reference to the folder, which was opened in this turn. The caller still closes its own. */
  add(folder: HandleFolder, turn: number): void {
    this.#cached.set(folder.host, { folder: folder.share(), checkedIn: turn, checkedAt: performance.now() })
  }

  close(): void {
    this.#cached.clear()
  }
}
