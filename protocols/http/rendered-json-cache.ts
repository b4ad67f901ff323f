/**
 * Caches the JSON of chunks of long lists. A chunk is valid as long as its items are identical objects, which holds for
 * unchanged entries of a cached listing. The size is limited; the least recently used lists are evicted first.
 */

interface Chunk {
  readonly items: readonly unknown[]
  readonly text: Buffer
}

interface CachedList {
  readonly cacheKey: string
  readonly chunks: Map<number, Chunk>
  bytes: number
}

/** The cached chunks of one list, by the indices `from` (inclusive) and `to` (exclusive) of their items. */
export interface CachedChunks {
  /** The cached JSON. Undefined if it is missing or the items have changed. */
  get(from: number, to: number): Buffer | undefined
  /** Caches the JSON, unless it exceeds the limit. */
  set(from: number, to: number, text: Buffer): void
}

/** Estimated size of an item, in bytes. The cache may hold the last reference to it. */
const itemBytes = 280

export class RenderedJsonCache {
  /** Lists by name, least recently used first. */
  readonly #lists = new Map<string, CachedList>()
  #bytes = 0

  /** `limit`: maximum size of the cache, in bytes. */
  constructor(readonly limit: number = 32 * 1024 * 1024) {}

  /** The current size. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * The cached chunks of the list `name`, whose items are now `items`. `cacheKey` represents everything else that the
   * JSON depends on; if it changes, the list is evicted.
   */
  chunks(name: string, cacheKey: string, items: readonly unknown[]): CachedChunks {
    return {
      get: (from, to) => {
        const list = this.#list(name, cacheKey)
        const chunk = list?.chunks.get(from)
        if (!list || chunk?.items.length !== to - from) return undefined
        if (!chunk.items.every((item, index) => item === items[from + index])) return undefined
        this.#lists.delete(name)
        this.#lists.set(name, list)
        return chunk.text
      },
      set: (from, to, text) => {
        const list = this.#list(name, cacheKey) ?? this.#addList(name, cacheKey)
        this.#deleteChunk(list, from)
        const chunk = { items: items.slice(from, to), text }
        this.#evictOthers(bytesOf(chunk), list)
        if (this.#bytes + bytesOf(chunk) > this.limit) return
        list.chunks.set(from, chunk)
        list.bytes += bytesOf(chunk)
        this.#bytes += bytesOf(chunk)
      },
    }
  }

  #list(name: string, cacheKey: string): CachedList | undefined {
    const list = this.#lists.get(name)
    return list?.cacheKey === cacheKey ? list : undefined
  }

  #addList(name: string, cacheKey: string): CachedList {
    this.#evict(name)
    const list: CachedList = { cacheKey, chunks: new Map(), bytes: 0 }
    this.#lists.set(name, list)
    return list
  }

  #deleteChunk(list: CachedList, from: number): void {
    const chunk = list.chunks.get(from)
    if (!chunk) return
    list.chunks.delete(from)
    list.bytes -= bytesOf(chunk)
    this.#bytes -= bytesOf(chunk)
  }

  /** Evicts lists other than `current` until `bytes` fit. */
  #evictOthers(bytes: number, current: CachedList): void {
    for (const [name, list] of this.#lists) {
      if (this.#bytes + bytes <= this.limit) break
      if (list !== current) this.#evict(name)
    }
  }

  #evict(name: string): void {
    this.#bytes -= this.#lists.get(name)?.bytes ?? 0
    this.#lists.delete(name)
  }
}

function bytesOf({ items, text }: Chunk): number {
  return text.length + items.length * itemBytes
}
