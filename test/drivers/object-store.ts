/**
 * A driver without empty folders (`emptyFolders: false`), like an object store: it keeps content by key, in memory, and
 * shows a folder wherever a key continues below a path.
 */
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { Attributes, Usage } from '../../src/contract/capabilities.js'
import type { ByteRange, CallOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import { isWithin, nameOf, segmentsOf, type Path } from '../../src/base/path.js'

interface StoredObject {
  readonly content: Buffer
  readonly modified: Date
  readonly revision: string
}

const pageSize = 1000

export class ObjectStoreDriver implements Driver {
  readonly traits = { emptyFolders: false }
  readonly #objects = new Map<Path, StoredObject>()
  #revisions = 0

  async stat(path: Path, { signal }: CallOptions = {}): Promise<Entry> {
    throwIfAborted(signal)
    const entry = this.#entry(path)
    if (!entry) throw new GatewayError('not_found')
    return entry
  }

  async *pages(path: Path, options: CallOptions = {}): AsyncGenerator<readonly Entry[]> {
    if ((await this.stat(path, options)).kind !== 'folder') throw new GatewayError('not_folder')
    const depth = segmentsOf(path).length
    const members = new Map<string, Entry>()
    for (const [key, object] of this.#objects) {
      const [name, ...below] = segmentsOf(key).slice(depth)
      if (name === undefined || !isWithin(path, key)) continue
      members.set(name, below.length === 0 ? fileEntry(name, object) : folderEntry(name))
    }
    const entries = [...members.values()]
    for (let at = 0; at < entries.length; at += pageSize) {
      throwIfAborted(options.signal)
      yield entries.slice(at, at + pageSize)
    }
  }

  async read(path: Path, range: ByteRange = { offset: 0 }, { signal }: CallOptions = {}): Promise<Readable> {
    throwIfAborted(signal)
    const { content } = this.#file(path)
    const part = content.subarray(range.offset, range.length === undefined ? undefined : range.offset + range.length)
    return Readable.from(part.length > 0 ? [part] : [], { objectMode: false, signal })
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    throwIfAborted(options.signal)
    this.#assertReplaceable(path, options)
    const content = await received(source, options.signal)
    await options.beforePublish?.()
    throwIfAborted(options.signal)
    this.#assertReplaceable(path, options)
    return fileEntry(nameOf(path), this.#put(path, content, options.modified))
  }

  async mkdir(path: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    if (this.#entry(path)) throw new GatewayError('exists')
  }

  async remove(path: Path, options: CallOptions = {}): Promise<void> {
    if ((await this.stat(path, options)).kind === 'folder') throw new GatewayError('not_empty')
    this.#objects.delete(path)
  }

  async removeTree(path: Path, options: CallOptions = {}): Promise<void> {
    await this.stat(path, options)
    for (const key of [...this.#objects.keys()]) if (isWithin(path, key)) this.#objects.delete(key)
  }

  /** Moves files only: the core moves folders file by file. */
  async move(from: Path, to: Path, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    const { content, modified } = this.#file(from)
    this.#assertReplaceable(to)
    this.#objects.delete(from)
    this.#put(to, content, modified)
  }

  async copy(from: Path, to: Path, options: WriteOptions = {}): Promise<void> {
    throwIfAborted(options.signal)
    const { content, modified } = this.#file(from)
    this.#assertReplaceable(to, options)
    await options.beforePublish?.()
    this.#assertReplaceable(to, options)
    this.#put(to, content, options.modified ?? modified)
  }

  async setAttributes(path: Path, { modified }: Attributes, { signal }: CallOptions = {}): Promise<void> {
    throwIfAborted(signal)
    const object = this.#file(path)
    if (modified) this.#put(path, object.content, modified)
  }

  async usage(): Promise<Usage> {
    const used = [...this.#objects.values()].reduce((sum, { content }) => sum + content.length, 0)
    return { total: Number.MAX_SAFE_INTEGER, used, free: Number.MAX_SAFE_INTEGER - used }
  }

  #entry(path: Path): Entry | undefined {
    const object = this.#objects.get(path)
    if (object) return fileEntry(nameOf(path), object)
    const isFolder = path === '/' || [...this.#objects.keys()].some((key) => isWithin(path, key))
    return isFolder ? folderEntry(nameOf(path)) : undefined
  }

  #file(path: Path): StoredObject {
    const object = this.#objects.get(path)
    if (object) return object
    throw new GatewayError(this.#entry(path) ? 'is_folder' : 'not_found')
  }

  #assertReplaceable(path: Path, { createOnly = false }: WriteOptions = {}): void {
    const old = this.#entry(path)
    if (old?.kind === 'folder') throw new GatewayError('is_folder')
    if (old && createOnly) throw new GatewayError('exists')
  }

  #put(path: Path, content: Buffer, modified = new Date()): StoredObject {
    const object = { content, modified, revision: String(++this.#revisions) }
    this.#objects.set(path, object)
    return object
  }
}

async function received(source: Source, signal: AbortSignal | undefined): Promise<Buffer> {
  const chunks: Buffer[] = []
  const take = async (body: AsyncIterable<Buffer>) => {
    for await (const chunk of body) chunks.push(Buffer.from(chunk))
  }
  try {
    await pipeline(await source.read(undefined, { signal }), take, { signal })
  } catch (error) {
    if (isGatewayError(error)) throw error
    const wasCut = (error as NodeJS.ErrnoException).code === 'ERR_STREAM_PREMATURE_CLOSE'
    throw new GatewayError(signal?.aborted || wasCut ? 'aborted' : 'internal', { cause: error })
  }
  const content = Buffer.concat(chunks)
  if (source.size !== undefined && source.size !== content.length) throw new GatewayError('invalid')
  return content
}

function fileEntry(name: string, { content, modified, revision }: StoredObject): Entry {
  return { name, kind: 'file', size: content.length, modified, revision }
}

function folderEntry(name: string): Entry {
  return { name, kind: 'folder', size: 0, modified: new Date(0) }
}
