/**
 * The Memory driver: a tree of maps. Every change is made in one turn of the event loop, so it is atomic to callers.
 */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { Attributes, OpenFile, OpenMode, OpenOptions, Usage } from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import { pageSize, type Entry } from '../../src/contract/entry.js'
import type { Traits } from '../../src/contract/traits.js'
import { GatewayError, toGatewayError } from '../../src/base/errors.js'
import { contentMode, settableMode } from '../../src/contract/modes.js'
import { foldCase, nameOf, parentOf, segmentsOf, type Path } from '../../src/base/path.js'

interface MemoryFile {
  readonly kind: 'file'
  name: string
  content: Content
  modified: Date
  mode: number
  version: number
  /** Number of open handles. The bytes of a removed file count until the last one is closed. */
  handles: number
  isRemoved: boolean
}
interface MemoryFolder {
  readonly kind: 'folder'
  name: string
  /** The members by name; by case-folded name if names are not case-sensitive. */
  readonly children: Map<string, MemoryNode>
  modified: Date
  mode: number
  version: number
}
type MemoryNode = MemoryFile | MemoryFolder

const chunkSize = 256 * 1024

export class MemoryDriver implements Driver {
  readonly traits: Partial<Traits>
  readonly #root: MemoryFolder
  #versions = 0
  /** Bytes of all files, including unpublished ones. */
  #used = 0

  /**
   * `sizeLimit`: maximum bytes of all files; 0 for none. `caseSensitive`: false if names that differ only in case or
   * Unicode form are the same name.
   */
  constructor(
    private readonly sizeLimit: number,
    private readonly caseSensitive = true,
  ) {
    this.traits = { caseSensitive }
    this.#root = this.#newFolder()
  }

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    throwIfAborted(signal)
    return entryOf(this.#existing(path))
  }

  async *pages(path: Path, { signal }: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    throwIfAborted(signal)
    const folder = this.#existing(path)
    if (folder.kind !== 'folder') throw new GatewayError('not_folder')
    let page: Entry[] = []
    for (const node of [...folder.children.values()]) {
      if (page.length === pageSize) {
        yield page
        throwIfAborted(signal)
        page = []
      }
      page.push(entryOf(node))
    }
    if (page.length > 0) yield page
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    throwIfAborted(signal)
    const { content } = this.#file(path)
    let position = range.offset
    const end = Math.min(content.size, range.offset + (range.length ?? content.size))
    return new Readable({
      signal,
      highWaterMark: chunkSize,
      read() {
        if (position >= end) {
          this.push(null)
          return
        }
        const chunk = Buffer.allocUnsafe(Math.min(chunkSize, end - position))
        const bytes = content.read(chunk, position)
        position += bytes
        this.push(bytes === 0 ? null : chunk.subarray(0, bytes))
      },
    })
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    throwIfAborted(options.signal)
    this.#assertReplaceable(path, options)
    const content = new Content()
    try {
      await this.#receive(source, content, options.signal)
      return await this.#publish(path, content, options)
    } catch (error) {
      this.#used -= content.size
      throw options.signal?.aborted ? new GatewayError('aborted', { cause: error }) : fromStream(error)
    }
  }

  async #receive(source: Source, content: Content, signal: AbortSignal | undefined): Promise<void> {
    const body = await source.read(undefined, { signal })
    const announced = source.size
    const take = async (chunks: AsyncIterable<Buffer | string>) => {
      for await (const data of chunks) {
        const chunk = Buffer.from(data)
        if (announced !== undefined && content.size + chunk.length > announced) {
          throw new GatewayError('invalid', { reason: `the body is longer than the announced ${announced} bytes` })
        }
        this.#reserve(chunk.length)
        content.write(chunk, content.size)
      }
    }
    await pipeline(body, take, { signal })
    if (announced !== undefined && content.size < announced) {
      throw new GatewayError('invalid', { reason: `the body ended after ${content.size} of ${announced} bytes` })
    }
  }

  async #publish(path: Path, content: Content, options: WriteOptions): Promise<Entry> {
    await options.beforePublish?.()
    throwIfAborted(options.signal)
    const old = this.#assertReplaceable(path, options)
    const { modified = new Date(), mode = old?.mode ?? 0o644 } = options
    const file = { ...this.#newFile(nameOf(path)), content, modified, mode: contentMode(mode) }
    this.#put(path, file)
    if (old) this.#release(old)
    return entryOf(file)
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    if (this.#find(path)) throw new GatewayError('exists')
    this.#put(path, this.#newFolder())
  }

  async remove(path: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    const node = this.#existing(path)
    if (node.kind === 'folder' && node.children.size > 0) throw new GatewayError('not_empty')
    this.#detach(path)
    this.#release(node)
  }

  async removeTree(path: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    const node = this.#existing(path)
    this.#detach(path)
    this.#release(node)
  }

  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    const node = this.#existing(from)
    const found = this.#find(to)
    const old = found === node ? undefined : found
    if (old?.kind === 'folder') throw new GatewayError('is_folder')
    if (old && node.kind === 'folder') throw new GatewayError('exists')
    this.#parent(to)
    this.#detach(from)
    this.#put(to, node)
    if (old) this.#release(old)
  }

  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    const { content, modified, mode } = this.#file(from)
    this.#assertReplaceable(to, options)
    this.#reserve(content.size)
    const copy = content.clone()
    try {
      await this.#publish(to, copy, {
        ...options,
        modified: options.modified ?? modified,
        mode: options.mode ?? mode,
      })
    } catch (error) {
      this.#used -= copy.size
      throw toGatewayError(error)
    }
  }

  async open(path: Path, mode: OpenMode, options: OpenOptions = {}): Promise<OpenFile> {
    throwIfAborted(options.signal)
    if (mode === 'replace') return this.#openReplacement(path, options)
    const file = this.#file(path)
    const entry = entryOf(file)
    const read = async (into: Buffer, position: number) => file.content.read(into, position)
    const close = this.#handleOf(file)
    return { entry, read, close, ...(mode === 'update' && this.#writeMethods(file)) }
  }

  /** The write methods of a handle. Each call changes the revision of the file. */
  #writeMethods(file: MemoryFile): Required<Pick<OpenFile, 'write' | 'truncate' | 'sync'>> {
    const markChanged = () => {
      file.version = ++this.#versions
      file.modified = new Date()
    }
    return {
      write: async (from, position) => {
        const bytes = from.reduce((sum, buffer) => sum + buffer.length, 0)
        this.#reserve(Math.max(0, position + bytes - file.content.size))
        let at = position
        for (const buffer of from) {
          file.content.write(buffer, at)
          at += buffer.length
        }
        markChanged()
      },
      truncate: async (size) => {
        this.#reserve(size - file.content.size)
        file.content.truncate(size)
        markChanged()
      },
      sync: async () => undefined,
    }
  }

  #openReplacement(path: Path, options: OpenOptions): OpenFile {
    this.#assertReplaceable(path, options)
    const file = this.#newFile(nameOf(path))
    const close = this.#handleOf(file)
    let published = false
    return {
      entry: entryOf(file),
      read: async (into, position) => file.content.read(into, position),
      ...this.#writeMethods(file),
      commit: async ({ modified = options.modified, mode = options.mode }: Attributes = {}) => {
        if (!published) await options.beforePublish?.()
        const old = published ? undefined : this.#assertReplaceable(path, options)
        if (modified) file.modified = modified
        file.mode = contentMode(mode ?? old?.mode ?? file.mode)
        file.version = ++this.#versions
        if (!published) this.#put(path, file)
        if (old) this.#release(old)
        published = true
        return entryOf(file)
      },
      close: async () => {
        file.isRemoved ||= !published
        await close()
      },
    }
  }

  async setAttributes(path: Path, to: Attributes, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    const node = this.#existing(path)
    if (to.modified) node.modified = to.modified
    if (to.mode !== undefined) node.mode = settableMode(node, to.mode)
    node.version = ++this.#versions
  }

  async folderRevision(path: Path, { signal }: CallOptions = {}): Promise<string> {
    throwIfAborted(signal)
    const node = this.#existing(path)
    if (node.kind !== 'folder') throw new GatewayError('not_folder')
    return String(node.version)
  }

  async usage(): Promise<Usage> {
    const total = this.sizeLimit > 0 ? this.sizeLimit : Number.MAX_SAFE_INTEGER
    return { total, used: this.#used, free: total - this.#used }
  }

  // The tree

  #find(path: Path): MemoryNode | undefined {
    let node: MemoryNode | undefined = this.#root
    for (const name of segmentsOf(path)) node = node?.kind === 'folder' ? node.children.get(this.#key(name)) : undefined
    return node
  }

  #key<Text extends string>(text: Text): Text {
    return this.caseSensitive ? text : foldCase(text)
  }

  #existing(path: Path): MemoryNode {
    const node = this.#find(path)
    if (!node) throw new GatewayError('not_found')
    return node
  }

  #file(path: Path): MemoryFile {
    const node = this.#existing(path)
    if (node.kind === 'folder') throw new GatewayError('is_folder')
    return node
  }

  #parent(path: Path): MemoryFolder {
    const parent = this.#find(parentOf(path))
    if (!parent) throw new GatewayError('parent_missing')
    if (parent.kind !== 'folder') throw new GatewayError('not_folder')
    return parent
  }

  #put(path: Path, node: MemoryNode): void {
    const parent = this.#parent(path)
    const key = this.#key(nameOf(path))
    // A write that replaces an entry does not change the spelling of its name.
    node.name = parent.children.get(key)?.name ?? nameOf(path)
    parent.children.set(key, node)
    this.#touch(parent)
  }

  #detach(path: Path): void {
    const parent = this.#parent(path)
    parent.children.delete(this.#key(nameOf(path)))
    this.#touch(parent)
  }

  #touch(folder: MemoryFolder): void {
    folder.modified = new Date()
    folder.version = ++this.#versions
  }

  #assertReplaceable(path: Path, options: WriteOptions): MemoryFile | undefined {
    const old = this.#find(path)
    if (old?.kind === 'folder') throw new GatewayError('is_folder')
    if (old && options.createOnly === true) throw new GatewayError('exists')
    this.#parent(path)
    return old
  }

  #reserve(bytes: number): void {
    if (this.sizeLimit > 0 && this.#used + bytes > this.sizeLimit) throw new GatewayError('no_space')
    this.#used += bytes
  }

  /** Counts a handle of the file. Returns the function that closes it; calling it again has no effect. */
  #handleOf(file: MemoryFile): () => Promise<void> {
    file.handles++
    let isOpen = true
    return async () => {
      if (!isOpen) return
      isOpen = false
      file.handles--
      if (file.isRemoved) this.#release(file)
    }
  }

  /** Releases the bytes of what is no longer in the tree, except those of files that are still open. */
  #release(node: MemoryNode): void {
    if (node.kind === 'folder') {
      for (const child of node.children.values()) this.#release(child)
      return
    }
    node.isRemoved = true
    if (node.handles === 0) this.#used -= node.content.size
  }

  #newFolder(): MemoryFolder {
    return {
      kind: 'folder',
      name: '',
      children: new Map(),
      modified: new Date(),
      mode: 0o755,
      version: ++this.#versions,
    }
  }

  #newFile(name: string): MemoryFile {
    return {
      kind: 'file',
      name,
      content: new Content(),
      modified: new Date(),
      mode: 0o644,
      version: ++this.#versions,
      handles: 0,
      isRemoved: false,
    }
  }
}

function entryOf(node: MemoryNode): Entry {
  const { name, kind, modified, mode, version } = node
  return { name, kind, size: kind === 'file' ? node.content.size : 0, modified, mode, revision: String(version) }
}

/** Converts a stream error. A premature end means that the sender aborted the body. */
function fromStream(error: unknown): GatewayError {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  if (code === 'ERR_STREAM_PREMATURE_CLOSE') return new GatewayError('aborted', { cause: error })
  return toGatewayError(error)
}

const blockSize = 256 * 1024

/** File content, in blocks, so that growing it does not copy the whole file. */
class Content {
  /** The blocks by number. Those that were never written are absent and read as zeros. */
  readonly #blocks = new Map<number, Buffer>()
  #size = 0

  get size(): number {
    return this.#size
  }

  read(into: Buffer, position: number): number {
    const length = Math.max(0, Math.min(into.length, this.#size - position))
    for (let done = 0; done < length;) {
      const at = position + done
      const block = this.#blocks.get(Math.floor(at / blockSize))
      const offset = at % blockSize
      const bytes = Math.min(blockSize - offset, length - done)
      if (block) block.copy(into, done, offset, offset + bytes)
      else into.fill(0, done, done + bytes)
      done += bytes
    }
    return length
  }

  write(from: Buffer, position: number): void {
    for (let done = 0; done < from.length;) {
      const at = position + done
      const index = Math.floor(at / blockSize)
      const offset = at % blockSize
      const block = this.#blocks.get(index) ?? Buffer.alloc(blockSize)
      this.#blocks.set(index, block)
      done += from.copy(block, offset, done, done + blockSize - offset)
    }
    this.#size = Math.max(this.#size, position + from.length)
  }

  truncate(size: number): void {
    if (size < this.#size) {
      for (const index of this.#blocks.keys()) if (index * blockSize >= size) this.#blocks.delete(index)
      this.#blocks.get(Math.floor(size / blockSize))?.fill(0, size % blockSize)
    }
    this.#size = size
  }

  clone(): Content {
    const copy = new Content()
    for (const [index, block] of this.#blocks) copy.#blocks.set(index, Buffer.from(block))
    copy.#size = this.#size
    return copy
  }
}
