/**
 * Parts of long lists as they were last written: entries that did not change are the same objects in a storage's kept listing, and
 * are not put into words again. Bounded in bytes; the lists that were used longest ago go first.
 */

interface Part {
  readonly items: readonly unknown[]
  readonly text: Buffer
}

interface Written {
  readonly circumstances: string
  readonly parts: Map<number, Part>
  bytes: number
}

/** What was written of one list, by the indices between which its items are. */
export interface KeptParts {
  /** The text that was kept of these very items. */
  get(from: number, to: number): Buffer | undefined
  keep(from: number, to: number, text: Buffer): void
}

/** A rough measure of an item that nobody else may hold any more. */
const itemBytes = 280

export class WrittenLists {
  /** By name, the one used longest ago first. */
  readonly #lists = new Map<string, Written>()
  #bytes = 0

  constructor(readonly limit: number = 32 * 1024 * 1024) {}

  /** What is held now. */
  get bytes(): number {
    return this.#bytes
  }

  /** Of the list with this name, as it is now. `circumstances`: all that its texts depend on beside its items; with others nothing holds. */
  of(name: string, circumstances: string, items: readonly unknown[]): KeptParts {
    return {
      get: (from, to) => {
        const list = this.#list(name, circumstances)
        const part = list?.parts.get(from)
        if (!list || part?.items.length !== to - from) return undefined
        if (!part.items.every((item, index) => item === items[from + index])) return undefined
        this.#lists.delete(name)
        this.#lists.set(name, list)
        return part.text
      },
      keep: (from, to, text) => {
        const list = this.#list(name, circumstances) ?? this.#begin(name, circumstances)
        this.#forget(list, from)
        const part = { items: items.slice(from, to), text }
        this.#makeRoom(bytesOf(part), list)
        if (this.#bytes + bytesOf(part) > this.limit) return
        list.parts.set(from, part)
        list.bytes += bytesOf(part)
        this.#bytes += bytesOf(part)
      },
    }
  }

  #list(name: string, circumstances: string): Written | undefined {
    const list = this.#lists.get(name)
    return list?.circumstances === circumstances ? list : undefined
  }

  #begin(name: string, circumstances: string): Written {
    this.#drop(name)
    const list: Written = { circumstances, parts: new Map(), bytes: 0 }
    this.#lists.set(name, list)
    return list
  }

  #forget(list: Written, from: number): void {
    const part = list.parts.get(from)
    if (!part) return
    list.parts.delete(from)
    list.bytes -= bytesOf(part)
    this.#bytes -= bytesOf(part)
  }

  /** At the cost of the other lists. */
  #makeRoom(bytes: number, own: Written): void {
    for (const [name, list] of this.#lists) {
      if (this.#bytes + bytes <= this.limit) break
      if (list !== own) this.#drop(name)
    }
  }

  #drop(name: string): void {
    this.#bytes -= this.#lists.get(name)?.bytes ?? 0
    this.#lists.delete(name)
  }
}

function bytesOf({ items, text }: Part): number {
  return text.length + items.length * itemBytes
}
