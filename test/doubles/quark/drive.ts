/** The files and folders of an account, by ids, and its rules for names. */
import { randomUUID } from 'node:crypto'
import type { Content } from '../contents.js'
import { refusals } from './vendor.js'

export const rootId = '0'

export interface QuarkNode {
  readonly fid: string
  readonly parent: string
  readonly name: string
  /** The content of a file. Undefined: a folder. */
  readonly content: Content | undefined
  /** When the entry was made, in milliseconds since the epoch. */
  readonly created: number
  readonly updated: number
}

/**
 * What happens to an entry whose name another one in its folder has: it is refused, gets another name (`name(1).ext`),
 * or both have the name.
 */
export type SameName = 'refuse' | 'rename' | 'allow'

export class QuarkDrive {
  readonly #nodes = new Map<string, QuarkNode>()
  /** Listings that do not show the last changes yet. */
  readonly #old = new Map<string, { readonly nodes: readonly QuarkNode[]; readonly until: number }>()
  #lastTime = 0

  /** `lag`: milliseconds for which a listing does not show a change. */
  constructor(
    readonly lag: number,
    readonly sameName: SameName,
  ) {}

  /** Throws if nothing has this id. */
  get(fid: string): QuarkNode {
    const node = this.#nodes.get(fid)
    if (!node) throw refusals.missing()
    return node
  }

  /** Throws if no folder has this id. */
  assertFolder(fid: string): void {
    if (fid !== rootId && this.get(fid).content) throw refusals.invalid('not a folder')
  }

  /** The members of a folder as a listing shows them. */
  listed(folder: string): readonly QuarkNode[] {
    this.assertFolder(folder)
    const old = this.#old.get(folder)
    return old && performance.now() < old.until ? old.nodes : this.members(folder)
  }

  members(folder: string): readonly QuarkNode[] {
    return [...this.#nodes.values()].filter(({ parent }) => parent === folder)
  }

  /** Bytes of all files. */
  usedBytes(): number {
    return [...this.#nodes.values()].reduce((sum, { content }) => sum + (content?.size ?? 0), 0)
  }

  create(parent: string, name: string, content?: Content, fid = newId()): QuarkNode {
    this.assertFolder(parent)
    const granted = this.freeName(parent, name)
    this.#changing(parent)
    const time = this.#now()
    const node: QuarkNode = { fid, parent, name: granted, content, created: time, updated: time }
    this.#nodes.set(fid, node)
    return node
  }

  rename(fid: string, name: string): void {
    const node = this.get(fid)
    const granted = this.freeName(node.parent, name, fid)
    this.#changing(node.parent)
    this.#nodes.set(fid, { ...node, name: granted, updated: this.#now() })
  }

  move(fid: string, parent: string): void {
    const node = this.get(fid)
    this.assertFolder(parent)
    for (let id = parent; id !== rootId; id = this.get(id).parent) if (id === fid) throw refusals.invalid('into itself')
    const granted = this.freeName(parent, node.name, fid)
    this.#changing(node.parent)
    this.#changing(parent)
    this.#nodes.set(fid, { ...node, parent, name: granted })
  }

  /** Removes a file, or a folder with everything in it. */
  remove(fid: string): void {
    const { parent } = this.get(fid)
    this.#changing(parent)
    this.#removeTree(fid)
  }

  /** The name that an entry gets that asks for this one. Throws if it may not have it. `own`: the entry itself. */
  freeName(parent: string, name: string, own?: string): string {
    if (name === '' || Buffer.byteLength(name) > 255 || /[/\0]/.test(name)) throw refusals.invalid('file_name')
    const taken = new Set(
      this.members(parent)
        .filter(({ fid }) => fid !== own)
        .map((node) => node.name),
    )
    if (!taken.has(name) || this.sameName === 'allow') return name
    if (this.sameName === 'refuse') throw refusals.sameName()
    const dot = name.lastIndexOf('.')
    const [base, extension] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, '']
    for (let number = 1; ; number++) {
      const other = `${base}(${number})${extension}`
      if (!taken.has(other)) return other
    }
  }

  #removeTree(fid: string): void {
    for (const member of this.members(fid)) this.#removeTree(member.fid)
    this.#nodes.delete(fid)
  }

  #changing(folder: string): void {
    const now = performance.now()
    if (this.lag === 0 || now < (this.#old.get(folder)?.until ?? 0)) return
    this.#old.set(folder, { nodes: this.members(folder), until: now + this.lag })
  }

  /** Later changes have later times. */
  #now(): number {
    this.#lastTime = Math.max(Date.now(), this.#lastTime + 1)
    return this.#lastTime
  }
}

export function newId(): string {
  return randomUUID().replaceAll('-', '')
}
