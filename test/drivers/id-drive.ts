/**
 * A drive in memory that knows its entries by ids only, as most vendors' do, and a driver for it: several entries may
 * have one name, names may hold anything, listings may lag, and download URLs are bound to the User-Agent.
 */
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { IdFiles } from '../../drivers/lib/cloud/id-files.js'
import type { FileItem, IdVendor } from '../../drivers/lib/cloud/id-vendor.js'
import { pump } from '../../drivers/lib/streams/pump.js'
import { throwIfAborted } from '../../src/base/cancellation.js'
import type { ByteRange, CallOptions, ListOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { DirectUrl, DirectUrlOptions, UrlClient } from '../../src/contract/capabilities.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { Entry } from '../../src/contract/entry.js'
import type { Traits } from '../../src/contract/traits.js'
import { GatewayError, toGatewayError } from '../../src/base/errors.js'
import type { Path } from '../../src/base/path.js'
import type { Elsewhere } from '../driver-conformance/subject.js'

interface Node extends FileItem {
  readonly content: Buffer
}

export const rootId = 'root'

/** The vendor: every call is by id, and refuses an id that it does not have. */
export class IdDrive {
  readonly #nodes = new Map<string, Node>()
  /** Listings that do not show the last changes yet. */
  readonly #old = new Map<string, { readonly nodes: readonly Node[]; readonly until: number }>()
  #lastTime = 0
  /** Number of calls of `list`. */
  listings = 0

  /** `lag`: milliseconds for which a listing does not show a change. */
  constructor(readonly lag = 0) {}

  async list(id: string): Promise<readonly Node[]> {
    await turn()
    this.listings++
    if (id !== rootId && this.#of(id).kind !== 'folder') throw new GatewayError('invalid')
    const old = this.#old.get(id)
    return old && performance.now() < old.until ? old.nodes : this.#members(id)
  }

  async create(parent: string, name: string, content?: Buffer): Promise<Node> {
    await turn()
    if (parent !== rootId) this.#of(parent)
    this.#changing(parent)
    const id = randomUUID()
    // Later entries are newer.
    this.#lastTime = Math.max(Date.now(), this.#lastTime + 1)
    const kind = content ? 'file' : 'folder'
    const node: Node = {
      id,
      parent,
      name,
      kind,
      content: content ?? Buffer.alloc(0),
      modified: new Date(this.#lastTime),
    }
    this.#nodes.set(id, node)
    return node
  }

  async move(id: string, parent: string, name: string): Promise<void> {
    await turn()
    const node = this.#of(id)
    if (parent !== rootId) this.#of(parent)
    this.#changing(node.parent)
    this.#changing(parent)
    this.#nodes.set(id, { ...node, parent, name })
  }

  async remove(id: string): Promise<void> {
    await turn()
    this.#changing(this.#of(id).parent)
    this.#removeTree(id)
  }

  async content(id: string): Promise<Buffer> {
    await turn()
    return this.#of(id).content
  }

  get(id: string): Node | undefined {
    return this.#nodes.get(id)
  }

  #of(id: string): Node {
    const node = this.#nodes.get(id)
    if (!node) throw new GatewayError('not_found')
    return node
  }

  #members(id: string): readonly Node[] {
    return [...this.#nodes.values()].filter(({ parent }) => parent === id)
  }

  #removeTree(id: string): void {
    for (const member of this.#members(id)) this.#removeTree(member.id)
    this.#nodes.delete(id)
  }

  #changing(parent: string): void {
    const now = performance.now()
    if (this.lag === 0 || now < (this.#old.get(parent)?.until ?? 0)) return
    this.#old.set(parent, { nodes: this.#members(parent), until: now + this.lag })
  }
}

/** Changes by another program. */
export function elsewhereOf(drive: IdDrive): Elsewhere {
  const find = async (path: string): Promise<string> => {
    let id = rootId
    for (const name of path
      .split('/')
      .slice(1)
      .filter((part) => part !== '')) {
      id = (await drive.list(id)).find((node) => node.name === name)?.id ?? (await drive.create(id, name)).id
    }
    return id
  }
  const split = (path: string) => [path.slice(0, path.lastIndexOf('/')), path.slice(path.lastIndexOf('/') + 1)] as const
  return {
    replace: async (path, content) => {
      const [folder, name] = split(path)
      await drive.remove(await find(path))
      await drive.create(await find(folder), name, Buffer.from(content))
    },
    replaceFolder: async (path, files) => {
      await drive.remove(await find(path))
      for (const [relative, content] of Object.entries(files)) {
        const [folder, name] = split(`${path}/${relative}`)
        await drive.create(await find(folder), name, Buffer.from(content))
      }
    },
    create: async (folder, name, content) => {
      await drive.create(await find(folder), name, Buffer.from(content))
    },
  }
}

/** What the vendor sends to a client for a direct URL. */
export async function fetchFromIdDrive(
  drive: IdDrive,
  { url, headers }: DirectUrl,
  client: UrlClient,
): Promise<string | undefined> {
  const { pathname, searchParams } = new URL(url)
  const userAgent = headers?.['user-agent'] ?? client.userAgent
  if (searchParams.get('for') !== userAgent) return undefined
  return (await drive.content(pathname.slice(1))).toString()
}

/** The calls of the drive, as the library wants them. */
export function vendorOf(drive: IdDrive): IdVendor<Node> {
  const nodeOf = async (id: string): Promise<Node> => {
    const node = drive.get(id)
    if (!node) throw new GatewayError('not_found')
    return node
  }
  return {
    list: async function* (id, { signal }) {
      throwIfAborted(signal)
      const nodes = await drive.list(id)
      for (let at = 0; at < nodes.length; at += 100) yield nodes.slice(at, at + 100)
    },
    assertFolder: async (id) => {
      if (id !== rootId) await nodeOf(id)
    },
    info: nodeOf,
    makeFolder: async (parent, name) => (await drive.create(parent, name)).id,
    rename: async ({ id }, name) => drive.move(id, (await nodeOf(id)).parent, name),
    move: async ({ id }, folder) => drive.move(id, folder, (await nodeOf(id)).name),
    remove: ({ id }) => drive.remove(id),
    entryOf,
  }
}

export class IdDriveDriver implements Driver {
  readonly traits: Partial<Traits>
  protected readonly files: IdFiles<Node>

  constructor(
    readonly drive: IdDrive,
    env: DriverEnv,
  ) {
    // Twice as long as the listings really lag.
    const lag = 2 * drive.lag
    this.traits = { timeStep: Number.POSITIVE_INFINITY, listingLag: lag, urlsBoundTo: ['userAgent'] }
    this.files = new IdFiles({ vendor: vendorOf(drive), rootId, lag, env })
  }

  stat(path: Path, options?: CallOptions): Promise<Entry> {
    return this.files.stat(path, options)
  }

  pages(path: Path, options?: ListOptions): AsyncIterable<readonly Entry[]> {
    return this.files.pages(path, options)
  }

  async read(path: Path, range?: ByteRange, { signal }: CallOptions = {}): Promise<Readable> {
    const content = await this.files.file(path, ({ id }) => this.drive.content(id), { signal })
    const { offset = 0, length = content.length } = range ?? {}
    const part = content.subarray(offset, offset + length)
    const stream = Readable.from(part.length === 0 ? [] : [part], { objectMode: false })
    signal?.addEventListener('abort', () => stream.destroy(new GatewayError('aborted')), { once: true })
    return stream
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const staging = await this.files.stage(path, options)
    const chunks: Buffer[] = []
    const collect = (chunk: Buffer) => {
      chunks.push(Buffer.from(chunk))
      return undefined
    }
    await pump(source, { write: collect }, options.signal).catch((error: unknown) => {
      throw toGatewayError(error)
    })
    const { id } = await this.drive.create(staging.folder, staging.name, Buffer.concat(chunks))
    try {
      return await this.files.publish(path, id, staging, { size: source.size ?? 0, revision: id }, options)
    } catch (error) {
      this.files.abandon(staging, id)
      throw error
    }
  }

  async mkdir(path: Path, options?: CallOptions): Promise<void> {
    await this.files.mkdir(path, options)
  }

  async remove(path: Path, options?: CallOptions): Promise<void> {
    await this.files.remove(path, options)
  }

  async removeTree(path: Path, options?: CallOptions): Promise<void> {
    await this.files.removeTree(path, options)
  }

  async move(from: Path, to: Path, options?: CallOptions): Promise<void> {
    await this.files.move(from, to, options)
  }

  async directUrl(path: Path, { signal, userAgent }: DirectUrlOptions = {}): Promise<DirectUrl> {
    const client = userAgent ?? 'id drive'
    const { id, kind } = await this.files.item(path, { signal })
    if (kind === 'folder') throw new GatewayError('is_folder')
    const url = `https://drive.example/${id}?for=${encodeURIComponent(client)}`
    return { url, ...(userAgent === undefined && { headers: { 'user-agent': client } }) }
  }
}

function entryOf(name: string, { kind, content, modified, id }: Node): Entry {
  const size = kind === 'file' ? content.length : 0
  return { name, kind, size, modified, ...(kind === 'file' && { revision: id }) }
}
