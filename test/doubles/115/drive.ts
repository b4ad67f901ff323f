/** Folders and files by id, as 115 has them: names may be shared, and listings may lag behind changes. */
import { randomBytes } from 'node:crypto'
import type { Content } from '../contents.js'

export interface Item {
  readonly id: string
  /** Id of its folder. */
  readonly parent: string
  readonly name: string
  /** The content of a file; undefined for a folder. */
  readonly content: Content | undefined
  readonly pickCode: string
  /** When the item was made, in milliseconds since 1970. */
  readonly created: number
  readonly updated: number
}

interface Version {
  /** Milliseconds of `performance.now()`. */
  readonly since: number
  /** Undefined: the item is removed. */
  readonly item: Item | undefined
}

export const rootId = '0'

export class Drive {
  /** Milliseconds for which `listed` does not show a change. */
  lag = 0
  readonly #versions = new Map<string, Version[]>()
  /** The ids that are or were in a folder. */
  readonly #members = new Map<string, Set<string>>()
  readonly #byPickCode = new Map<string, string>()
  /** Removed items, newest last. */
  readonly recycled: Item[] = []
  #lastId = 2_800_000_000_000_000_000n
  #lastTime = 0

  get(id: string): Item | undefined {
    return this.#versions.get(id)?.at(-1)?.item
  }

  withPickCode(pickCode: string): Item | undefined {
    const id = this.#byPickCode.get(pickCode)
    return id === undefined ? undefined : this.get(id)
  }

  isFolder(id: string): boolean {
    const item = this.get(id)
    return id === rootId || (item !== undefined && item.content === undefined)
  }

  /** The members of a folder as they are now. */
  members(folder: string): readonly Item[] {
    return this.#membersAt(folder, Number.POSITIVE_INFINITY)
  }

  /** The members of a folder as a listing shows them. */
  listed(folder: string): readonly Item[] {
    return this.#membersAt(folder, performance.now() - this.lag)
  }

  /** The folders from the root to the folder of an item. */
  ancestors(id: string): readonly Item[] {
    const above: Item[] = []
    for (let item = this.get(this.get(id)?.parent ?? rootId); item; item = this.get(item.parent)) above.unshift(item)
    return above
  }

  add(parent: string, name: string, content?: Content): Item {
    this.#lastId += BigInt(1 + randomBytes(1).readUInt8())
    const id = String(this.#lastId)
    const time = this.#now()
    const pickCode = `${content ? '' : 'f'}a${randomBytes(8).toString('hex')}`
    const item = { id, parent, name, content, pickCode, created: time, updated: time }
    this.#byPickCode.set(pickCode, id)
    this.#set(id, item)
    return item
  }

  /** Renames or moves an item. Its times stay as they are, as in the double of the open API of the same drive. */
  change(item: Item, changes: Partial<Pick<Item, 'parent' | 'name'>>): Item {
    const changed = { ...item, ...changes }
    this.#set(item.id, changed)
    return changed
  }

  /** Copies an item with everything below it. */
  copy(item: Item, parent: string): Item {
    const copied = this.add(parent, item.name, item.content)
    if (!item.content) for (const member of this.members(item.id)) this.copy(member, copied.id)
    return copied
  }

  /** Removes an item with everything below it. */
  remove(item: Item): void {
    this.recycled.push(item)
    this.#removeAll(item)
  }

  restore(item: Item): void {
    this.recycled.splice(this.recycled.indexOf(item), 1)
    this.#set(item.id, item)
  }

  /** Whether an item is the folder or below it. */
  isWithin(id: string, folder: string): boolean {
    return id === folder || this.ancestors(id).some((above) => above.id === folder)
  }

  #removeAll(item: Item): void {
    if (!item.content) for (const member of this.members(item.id)) this.#removeAll(member)
    this.#set(item.id, undefined)
  }

  #set(id: string, item: Item | undefined): void {
    const versions = this.#versions.get(id) ?? []
    versions.push({ since: performance.now(), item })
    this.#versions.set(id, versions)
    if (!item) return
    const members = this.#members.get(item.parent) ?? new Set()
    members.add(id)
    this.#members.set(item.parent, members)
  }

  #membersAt(folder: string, time: number): readonly Item[] {
    const found: Item[] = []
    for (const id of this.#members.get(folder) ?? []) {
      const item = this.#versions.get(id)?.findLast(({ since }) => since <= time)?.item
      if (item?.parent === folder) found.push(item)
    }
    return found
  }

  /** Times differ, so that the newest of two items is known: 115 has seconds, in which tests make many. */
  #now(): number {
    this.#lastTime = Math.max(Date.now(), this.#lastTime)
    return this.#lastTime
  }
}
