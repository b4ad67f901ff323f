/**
 * The files and folders of an account of the 115 Open double, by ids of 19 digits. Several files of a folder may have
 * one name. Listings may lag behind changes.
 */
import { randomBytes } from 'node:crypto'
import type { Content } from '../contents.js'

export interface DriveNode {
  readonly id: string
  readonly parent: string
  readonly name: string
  /** The content of a file; undefined for a folder. */
  readonly content: Content | undefined
  readonly pickCode: string
  /** Seconds since 1970. */
  readonly created: number
  /** Seconds since 1970. */
  readonly modified: number
}

export const rootFolder = '0'

interface OldListing {
  readonly nodes: readonly DriveNode[]
  /** Milliseconds of `performance.now()`. */
  readonly until: number
}

export class Drive {
  /** Milliseconds for which a listing does not show a change of its folder. */
  lag = 0
  readonly #nodes = new Map<string, DriveNode>()
  readonly #trash = new Map<string, DriveNode>()
  readonly #oldListings = new Map<string, OldListing>()
  #lastId = 2_900_000_000_000_000_000n

  get(id: string): DriveNode | undefined {
    return this.#nodes.get(id)
  }

  isFolder(id: string): boolean {
    return id === rootFolder || (this.#nodes.has(id) && this.#nodes.get(id)?.content === undefined)
  }

  all(): Iterable<DriveNode> {
    return this.#nodes.values()
  }

  /** All entries of a folder, as they are now. */
  members(folder: string): readonly DriveNode[] {
    return [...this.#nodes.values()].filter(({ parent }) => parent === folder)
  }

  /** All entries of a folder, as the vendor lists them now. */
  listing(folder: string): readonly DriveNode[] {
    const old = this.#oldListings.get(folder)
    return old && performance.now() < old.until ? old.nodes : this.members(folder)
  }

  byPickCode(pickCode: string): DriveNode | undefined {
    return [...this.#nodes.values()].find((node) => node.pickCode === pickCode)
  }

  /** The entry at a path like `/a/b`; of several, the newest. */
  byPath(path: string): DriveNode | undefined {
    let found: DriveNode | undefined
    for (const name of path.split('/').filter((each) => each !== '')) {
      const members = this.members(found?.id ?? rootFolder)
      found = members.findLast((node) => node.name === name)
      if (!found) return undefined
    }
    return found
  }

  /** The ids and names of the folders above an entry, the root first. */
  ancestors(id: string): readonly { readonly id: string; readonly name: string }[] {
    const node = this.#nodes.get(id)
    if (!node) return []
    const parent = this.#nodes.get(node.parent)
    const above = parent ? [...this.ancestors(parent.id), { id: parent.id, name: parent.name }] : []
    return parent ? above : [{ id: rootFolder, name: '根目录' }]
  }

  /** `pickCode`: one that was promised before. */
  create(parent: string, name: string, content?: Content, pickCode = this.newPickCode()): DriveNode {
    this.#changing(parent)
    const id = String(++this.#lastId)
    const now = Math.floor(Date.now() / 1000)
    const node: DriveNode = { id, parent, name, content, pickCode, created: now, modified: now }
    this.#nodes.set(id, node)
    return node
  }

  newPickCode(): string {
    return `e${randomBytes(8).toString('hex')}`
  }

  rename(id: string, name: string): void {
    this.#change(id, { name })
  }

  move(id: string, parent: string): void {
    this.#changing(parent)
    this.#change(id, { parent })
  }

  /** Copies an entry with everything below it. */
  copy(id: string, parent: string): void {
    const node = this.#nodes.get(id)
    if (!node) return
    const copied = this.create(parent, node.name, node.content)
    for (const member of this.members(id)) this.copy(member.id, copied.id)
  }

  /** Moves an entry with everything below it to the recycle bin. */
  remove(id: string): void {
    const node = this.#nodes.get(id)
    if (!node) return
    this.#changing(node.parent)
    for (const member of this.members(id)) this.remove(member.id)
    this.#nodes.delete(id)
    this.#trash.set(id, node)
  }

  /** Entries of the recycle bin. */
  get trash(): readonly DriveNode[] {
    return [...this.#trash.values()]
  }

  /** Whether `folder` is the entry itself, or below it. */
  isWithin(id: string, folder: string): boolean {
    for (let at: string | undefined = folder; at !== undefined; at = this.#nodes.get(at)?.parent) {
      if (at === id) return true
    }
    return false
  }

  #change(id: string, change: Partial<DriveNode>): void {
    const node = this.#nodes.get(id)
    if (!node) return
    this.#changing(node.parent)
    this.#nodes.set(id, { ...node, ...change })
  }

  /** Keeps the listing as it is now, for as long as listings lag. */
  #changing(folder: string): void {
    const now = performance.now()
    if (this.lag === 0 || now < (this.#oldListings.get(folder)?.until ?? 0)) return
    this.#oldListings.set(folder, { nodes: this.members(folder), until: now + this.lag })
  }
}
