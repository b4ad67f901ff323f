/**
 * What is running now, such as the calls of a driver. Unlike a `Set` that gets and loses items with each request, it
 * leaves nothing behind: V8 links the old table of a set to the next one, so that after one of them has survived a
 * minor collection, everything that was ever in the set survives until a full one.
 */
export class Running<Item> {
  readonly #entries: { readonly item: Item; at: number }[] = []

  get size(): number {
    return this.#entries.length
  }

  /** The items, in no order. */
  get items(): readonly Item[] {
    return this.#entries.map(({ item }) => item)
  }

  /** Returns a function that removes the item. Calling it again has no effect. */
  add(item: Item): () => void {
    const entry = { item, at: this.#entries.length }
    this.#entries.push(entry)
    return () => {
      if (entry.at < 0) return
      const last = this.#entries.pop()
      if (last && last !== entry) {
        this.#entries[entry.at] = last
        last.at = entry.at
      }
      entry.at = -1
    }
  }
}
