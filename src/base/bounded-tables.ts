/**
 * Tables of what clients have done. They lose their oldest entries, so that clients cannot exhaust the memory. An
 * `LRUCache` knows no owners of entries: names that one address makes up would remove the entries of others.
 */

/** Maximum entries of one table. */
const maxEntries = 50_000

/**
 * Values of pairs. Beyond `maxEntries`, the oldest one of the address with the most is removed: an address that tries
 * many names removes its own.
 */
export class PairTable<Value> {
  /** The values by name and address; the addresses of which a value was set last are last. */
  readonly #addresses = new Map<string, Map<string, Value>>()
  #size = 0

  get(address: string, name: string): Value | undefined {
    return this.#addresses.get(address)?.get(name)
  }

  set(address: string, name: string, value: Value): void {
    const names = this.#addresses.get(address) ?? new Map<string, Value>()
    this.#addresses.delete(address)
    this.#addresses.set(address, names)
    if (!names.delete(name)) this.#size++
    names.set(name, value)
    if (this.#size > maxEntries) this.#removeOne()
  }

  delete(address: string, name: string): void {
    const names = this.#addresses.get(address)
    if (names?.delete(name) !== true) return
    if (names.size === 0) this.#addresses.delete(address)
    this.#size--
  }

  /** All values with their pairs. */
  *entries(): Generator<readonly [address: string, name: string, value: Value]> {
    for (const [address, names] of this.#addresses) for (const [name, value] of names) yield [address, name, value]
  }

  #removeOne(): void {
    let [largest, most] = ['', new Map<string, Value>()]
    for (const [address, names] of this.#addresses) if (names.size > most.size) [largest, most] = [address, names]
    const [oldest = ''] = most.keys()
    most.delete(oldest)
    if (most.size === 0) this.#addresses.delete(largest)
    this.#size--
  }
}

/** Counts events by key; those of a key are forgotten `time` milliseconds after its last one. */
export class RecentCounts {
  readonly #entries = new Map<string, { readonly count: number; readonly last: number }>()

  constructor(
    private readonly time: number,
    private readonly now: () => number,
  ) {}

  add(key: string): void {
    put(this.#entries, key, { count: this.count(key) + 1, last: this.now() })
  }

  count(key: string): number {
    return this.remaining(key) > 0 ? (this.#entries.get(key)?.count ?? 0) : 0
  }

  /** Milliseconds until the events of the key are forgotten. */
  remaining(key: string): number {
    return (this.#entries.get(key)?.last ?? -Infinity) + this.time - this.now()
  }
}

/** Sets the entry as the newest one, and removes the oldest one beyond `max`. */
export function put<Key, Value>(table: Map<Key, Value>, key: Key, value: Value, max = maxEntries): void {
  table.delete(key)
  table.set(key, value)
  dropOldest(table, max)
}

/** Removes the entry that was added first, if there are more than `max`. */
export function dropOldest<Key>(entries: Map<Key, unknown> | Set<Key>, max: number): void {
  if (entries.size <= max) return
  const [oldest] = entries.keys()
  if (oldest !== undefined) entries.delete(oldest)
}
