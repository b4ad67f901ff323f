/**
 * The files and folders of the double of AliyundriveOpen: by id, in three drives, with names that need not be unique.
 */
import { randomBytes } from 'node:crypto'
import type { Content, Contents } from '../contents.js'
import type { Elsewhere } from '../../driver-conformance/subject.js'

export interface AliyunNode {
  readonly driveId: string
  readonly fileId: string
  parentId: string
  name: string
  /** The content of a file. Undefined: a folder. */
  content: Content | undefined
  readonly createdAt: Date
  updatedAt: Date
}

export const rootId = 'root'

/** An error of the API. */
export class AliyunError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message)
  }
}

export class AliyunDrives {
  /** Ids of the drives that the account has. */
  readonly ids = { default: '1001', resource: '1002', backup: '1003' } as const
  readonly #nodes = new Map<string, AliyunNode>()
  /** What listings of folders still show, and until when. */
  readonly #old = new Map<string, { readonly nodes: readonly AliyunNode[]; readonly until: number }>()
  #lastTime = 0

  constructor(
    private readonly contents: Contents,
    /** Milliseconds for which a listing does not show a change. */
    private readonly lag: number,
  ) {}

  /** Rejects a missing id, and what is in another drive. The root has no node. */
  get(driveId: string, fileId: string): AliyunNode {
    const node = this.#nodes.get(fileId)
    if (node?.driveId !== driveId) throw notFound()
    return node
  }

  /** The content of a file; undefined of a folder, and if there is no such file. */
  contentOf(fileId: string): Content | undefined {
    return this.#nodes.get(fileId)?.content
  }

  assertFolder(driveId: string, folderId: string): void {
    if (!Object.values<string>(this.ids).includes(driveId)) throw notFound('Drive')
    if (folderId !== rootId && this.get(driveId, folderId).content) throw notFound()
  }

  /** The members of a folder as a listing shows them. */
  list(driveId: string, folderId: string): readonly AliyunNode[] {
    this.assertFolder(driveId, folderId)
    const old = this.#old.get(`${driveId}/${folderId}`)
    return old && performance.now() < old.until ? old.nodes : this.members(driveId, folderId)
  }

  /** The members of a folder as they are now. */
  members(driveId: string, folderId: string): readonly AliyunNode[] {
    return [...this.#nodes.values()].filter((node) => node.driveId === driveId && node.parentId === folderId)
  }

  named(driveId: string, folderId: string, name: string): AliyunNode | undefined {
    return this.members(driveId, folderId).find((node) => node.name === name)
  }

  create(driveId: string, parentId: string, name: string, content?: Content, fileId = newId()): AliyunNode {
    this.assertFolder(driveId, parentId)
    assertName(name)
    this.#changing(driveId, parentId)
    const now = this.#now()
    const node = { driveId, fileId, parentId, name, content, createdAt: now, updatedAt: now }
    this.#nodes.set(fileId, node)
    if (content) this.contents.publish(content)
    return node
  }

  /** Moves a node to another folder, or gives it another name. */
  change(node: AliyunNode, parentId: string, name: string): void {
    this.assertFolder(node.driveId, parentId)
    assertName(name)
    for (let at = parentId; at !== rootId; at = this.get(node.driveId, at).parentId) {
      if (at === node.fileId) throw new AliyunError(400, 'InvalidParameter.ToParentFileId', 'into itself')
    }
    this.#changing(node.driveId, node.parentId)
    this.#changing(node.driveId, parentId)
    node.parentId = parentId
    node.name = name
    node.updatedAt = this.#now()
  }

  copy(node: AliyunNode, parentId: string, name = node.name): AliyunNode {
    const made = this.create(node.driveId, parentId, name, node.content)
    for (const member of node.content ? [] : this.members(node.driveId, node.fileId)) this.copy(member, made.fileId)
    return made
  }

  remove(node: AliyunNode): void {
    this.#changing(node.driveId, node.parentId)
    for (const member of this.members(node.driveId, node.fileId)) this.remove(member)
    this.#nodes.delete(node.fileId)
  }

  /** Bytes of all files. */
  usedBytes(): number {
    return [...this.#nodes.values()].reduce((sum, { content }) => sum + (content?.size ?? 0), 0)
  }

  // For tests

  /** Another program that changes what is below a folder. Paths are relative to it. */
  elsewhere(driveId: string, folderId: string): Elsewhere {
    const folderAt = (names: readonly string[]): string =>
      names.reduce((at, name) => (this.named(driveId, at, name) ?? this.create(driveId, at, name)).fileId, folderId)
    const split = (path: string) => {
      const names = path.split('/').filter((name) => name !== '')
      return { folder: names.slice(0, -1), name: names.at(-1) ?? '' }
    }
    const add = async (path: string, content: string) => {
      const { folder, name } = split(path)
      this.create(driveId, folderAt(folder), name, await this.contents.add(content))
    }
    const removeAt = (path: string) => {
      const { folder, name } = split(path)
      const node = this.named(driveId, folderAt(folder), name)
      if (node) this.remove(node)
    }
    return {
      replace: async (path, content) => {
        removeAt(path)
        await add(path, content)
      },
      replaceFolder: async (path, files) => {
        removeAt(path)
        for (const [relative, content] of Object.entries(files)) await add(`${path}/${relative}`, content)
      },
      create: async (folder, name, content) => {
        const at = folderAt(folder.split('/').filter((each) => each !== ''))
        this.create(driveId, at, name, await this.contents.add(content))
      },
    }
  }

  /** Later changes have later times. */
  #now(): Date {
    this.#lastTime = Math.max(Date.now(), this.#lastTime + 1)
    return new Date(this.#lastTime)
  }

  #changing(driveId: string, folderId: string): void {
    const key = `${driveId}/${folderId}`
    const now = performance.now()
    if (this.lag === 0 || now < (this.#old.get(key)?.until ?? 0)) return
    const nodes = this.members(driveId, folderId).map((node) => ({ ...node }))
    this.#old.set(key, { nodes, until: now + this.lag })
  }
}

export function newId(): string {
  return randomBytes(20).toString('hex')
}

export function notFound(what = 'File'): AliyunError {
  return new AliyunError(404, `NotFound.${what}`, `The resource ${what.toLowerCase()} cannot be found.`)
}

function assertName(name: string): void {
  if (name !== '' && Buffer.byteLength(name) <= 1024) return
  throw new AliyunError(400, 'InvalidParameter.Name', 'The input parameter name is not valid.')
}
