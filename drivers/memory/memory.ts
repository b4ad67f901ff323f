/** Nodes of folders and files. A reader keeps what it opened, whatever becomes of the file meanwhile. */
import { Readable } from 'node:stream'
import type {
  Attributes,
  ByteRange,
  CallOptions,
  Driver,
  Entry,
  OpenFile,
  OpenMode,
  OpenOptions,
  Source,
  Usage,
  WriteOptions,
} from '../../src/driver.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../src/errors.js'
import { isWithin, nameOf, parentOf, segmentsOf, type Path } from '../../src/path.js'
import { Content } from './content.js'

interface FileNode {
  readonly kind: 'file'
  readonly content: Content
  modified: Date
  mode: number
  readonly created: Date
  revision: number
}

interface FolderNode {
  readonly kind: 'folder'
  readonly members: Map<string, Node>
  modified: Date
  mode: number
  readonly created: Date
}

type Node = FileNode | FolderNode

const pageSize = 1000

/** Revisions are never used twice, whatever is removed and made again. */
let revisions = 0

function newFolder(): FolderNode {
  const now = new Date()
  return { kind: 'folder', members: new Map(), modified: now, mode: 0o755, created: now }
}

export class MemoryDriver implements Driver {
  readonly #root = newFolder()
  #used = 0

  /** `limit`: bytes that all files together may hold; 0 for none. */
  constructor(private readonly limit = 0) {}

  async stat(path: Path, options: CallOptions = {}): Promise<Entry> {
    assertGoing(options.signal)
    return entryOf(nameOf(path), this.#node(path))
  }

  async *list(path: Path, options: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    const entries = [...this.#folder(path).members].map(([name, node]) => entryOf(name, node))
    for (let at = 0; at < entries.length; at += pageSize) {
      assertGoing(options.signal)
      yield entries.slice(at, at + pageSize)
    }
  }

  async read(path: Path, range?: ByteRange, options: CallOptions = {}): Promise<Readable> {
    assertGoing(options.signal)
    const { content } = this.#file(path)
    const stream = Readable.from(content.read(range), { objectMode: false })
    const { signal } = options
    if (!signal) return stream
    const stop = () => stream.destroy(new GatewayError('aborted'))
    signal.addEventListener('abort', stop, { once: true })
    return stream.once('close', () => signal.removeEventListener('abort', stop))
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    assertGoing(options.signal)
    this.#placeForFile(path, options)
    const content = new Content()
    const stop = () => stream?.destroy(new GatewayError('aborted'))
    let stream: Readable | undefined
    try {
      stream = await source.read(undefined, options)
      options.signal?.addEventListener('abort', stop, { once: true })
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        this.#assertRoom(content.size + chunk.length)
        if (source.size !== undefined && content.size + chunk.length > source.size) throw wrongSize(source.size)
        content.write(chunk, content.size)
      }
      assertGoing(options.signal)
      if (source.size !== undefined && content.size !== source.size) throw wrongSize(source.size)
      return await this.#publish(path, content, { modified: source.modified, ...defined(options) }, options)
    } catch (error) {
      stream?.destroy()
      throw toGatewayError(error)
    } finally {
      options.signal?.removeEventListener('abort', stop)
    }
  }

  async #publish(path: Path, content: Content, to: Attributes, options: WriteOptions): Promise<Entry> {
    await options.beforePublish?.()
    assertGoing(options.signal)
    const folder = this.#placeForFile(path, options)
    const old = folder.members.get(nameOf(path))
    const oldSize = old?.kind === 'file' ? old.content.size : 0
    this.#assertRoom(content.size - oldSize)
    this.#used += content.size - oldSize
    const now = new Date()
    const mode = to.mode ?? old?.mode ?? 0o644
    const node: FileNode = {
      kind: 'file',
      content,
      modified: to.modified ?? now,
      mode,
      created: old?.created ?? now,
      revision: ++revisions,
    }
    folder.members.set(nameOf(path), node)
    folder.modified = now
    return entryOf(nameOf(path), node)
  }

  #assertRoom(more: number): void {
    if (this.limit > 0 && this.#used + more > this.limit) throw new GatewayError('no_space')
  }

  async mkdir(path: Path, options: CallOptions = {}): Promise<void> {
    assertGoing(options.signal)
    if (this.#find(path)) throw new GatewayError('exists')
    this.#add(path, newFolder())
  }

  async remove(path: Path, options: CallOptions = {}): Promise<void> {
    assertGoing(options.signal)
    const node = this.#node(path)
    if (node.kind === 'folder' && node.members.size > 0) throw new GatewayError('not_empty')
    this.#take(path)
    this.#used -= sizeOf(node)
  }

  async removeTree(path: Path, options: CallOptions = {}): Promise<void> {
    assertGoing(options.signal)
    const node = this.#node(path)
    this.#take(path)
    this.#used -= sizeOf(node)
  }

  async move(from: Path, to: Path, options: CallOptions = {}): Promise<void> {
    assertGoing(options.signal)
    const node = this.#node(from)
    if (from === to) return
    if (isWithin(from, to)) throw new GatewayError('invalid', { reason: 'a folder cannot be moved into itself' })
    const old = this.#find(to)
    if (old?.kind === 'folder') throw new GatewayError('is_dir')
    if (old && node.kind === 'folder') throw new GatewayError('not_dir')
    this.#folderFor(to)
    this.#take(from)
    this.#add(to, node)
    if (old) this.#used -= sizeOf(old)
  }

  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    assertGoing(options.signal)
    const { content, modified, mode } = this.#file(from)
    await this.#publish(to, content.copy(), { modified, mode, ...defined(options) }, options)
  }

  async open(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile> {
    assertGoing(options.signal)
    if (mode === 'read') {
      const node = this.#file(path)
      const content = node.content.copy()
      return {
        entry: entryOf(nameOf(path), node),
        read: async (into, position) => content.fill(into, position),
        close: async () => undefined,
      }
    }
    return mode === 'update' ? this.#openUpdate(path) : this.#openReplace(path, options)
  }

  #openUpdate(path: Path): OpenFile {
    const node = this.#file(path)
    const change = (work: () => void) => {
      const before = node.content.size
      work()
      this.#used += node.content.size - before
      node.modified = new Date()
      node.revision = ++revisions
    }
    return {
      entry: entryOf(nameOf(path), node),
      read: async (into, position) => node.content.fill(into, position),
      write: async (from, position) => {
        this.#assertRoom(Math.max(0, position + total(from) - node.content.size))
        change(() => writeAll(node.content, from, position))
      },
      truncate: async (size) => {
        this.#assertRoom(Math.max(0, size - node.content.size))
        change(() => node.content.truncate(size))
      },
      sync: async () => undefined,
      close: async () => undefined,
    }
  }

  #openReplace(path: Path, options: OpenOptions): OpenFile {
    this.#placeForFile(path, options)
    const content = new Content()
    return {
      entry: { name: nameOf(path), kind: 'file', size: 0, modified: new Date() },
      read: async (into, position) => content.fill(into, position),
      write: async (from, position) => {
        this.#assertRoom(Math.max(content.size, position + total(from)))
        writeAll(content, from, position)
      },
      truncate: async (size) => {
        this.#assertRoom(size)
        content.truncate(size)
      },
      sync: async () => undefined,
      commit: (attributes) =>
        this.#publish(path, content, { ...defined(options), ...(attributes && defined(attributes)) }, options),
      close: async () => undefined,
    }
  }

  async setAttributes(path: Path, to: Attributes, options: CallOptions = {}): Promise<void> {
    assertGoing(options.signal)
    const node = this.#node(path)
    node.modified = to.modified ?? node.modified
    node.mode = to.mode ?? node.mode
  }

  async usage(): Promise<Usage> {
    const total = this.limit > 0 ? this.limit : Number.MAX_SAFE_INTEGER
    return { total, used: this.#used, free: total - this.#used }
  }

  #find(path: Path): Node | undefined {
    let at: Node | undefined = this.#root
    for (const name of segmentsOf(path)) {
      if (at?.kind !== 'folder') return undefined
      at = at.members.get(name)
    }
    return at
  }

  #node(path: Path): Node {
    const node = this.#find(path)
    if (!node) throw new GatewayError('not_found')
    return node
  }

  #file(path: Path): FileNode {
    const node = this.#node(path)
    if (node.kind === 'folder') throw new GatewayError('is_dir')
    return node
  }

  #folder(path: Path): FolderNode {
    const node = this.#node(path)
    if (node.kind === 'file') throw new GatewayError('not_dir')
    return node
  }

  /** The folder that holds, or will hold, what has this path. */
  #folderFor(path: Path): FolderNode {
    try {
      return this.#folder(parentOf(path))
    } catch (error) {
      throw isGatewayError(error, 'not_found', 'not_dir') ? new GatewayError('parent_missing') : error
    }
  }

  #placeForFile(path: Path, options: WriteOptions): FolderNode {
    const old = this.#find(path)
    if (old && options.createOnly === true) throw new GatewayError('exists')
    if (old?.kind === 'folder') throw new GatewayError('is_dir')
    return this.#folderFor(path)
  }

  #add(path: Path, node: Node): void {
    const folder = this.#folderFor(path)
    folder.members.set(nameOf(path), node)
    folder.modified = new Date()
  }

  #take(path: Path): void {
    if (path === '/') throw new GatewayError('denied', { reason: 'the root of a storage stays' })
    const folder = this.#folderFor(path)
    folder.members.delete(nameOf(path))
    folder.modified = new Date()
  }
}

function entryOf(name: string, node: Node): Entry {
  const { kind, modified, mode, created } = node
  if (node.kind === 'folder') return { name, kind, size: 0, modified, mode, created }
  return { name, kind, size: node.content.size, modified, mode, created, revision: node.revision.toString(36) }
}

function sizeOf(node: Node): number {
  if (node.kind === 'file') return node.content.size
  return [...node.members.values()].reduce((sum, member) => sum + sizeOf(member), 0)
}

function total(buffers: readonly Buffer[]): number {
  return buffers.reduce((sum, buffer) => sum + buffer.length, 0)
}

function writeAll(content: Content, from: readonly Buffer[], position: number): void {
  let at = position
  for (const bytes of from) {
    content.write(bytes, at)
    at += bytes.length
  }
}

/** The attributes that were given, without those that were not. */
function defined({ modified, mode }: Attributes): Attributes {
  return { ...(modified && { modified }), ...(mode !== undefined && { mode }) }
}

function wrongSize(announced: number): GatewayError {
  return new GatewayError('invalid', { reason: `${announced} bytes were announced, another number came` })
}

function assertGoing(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new GatewayError('aborted')
}
