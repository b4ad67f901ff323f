/**
 * A drive that asks for the hash of a file before its bytes, as several vendors do, and a driver for it: a file that
 * the vendor knows needs no body, but a proof that the client has it. The vendor is strict: parts in order, URLs that
 * expire, no completion without all parts.
 */
import { createHash, randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import { contiguousParts, resumableUpload, sendParts, withBody, BodyReader } from '../../drivers/lib/streams/parts.js'
import { PartLinks } from '../../drivers/lib/cloud/lease.js'
import { rangeOf } from '../../drivers/lib/cloud/source-range.js'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { ByteRange, CallOptions, ListOptions, Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Upload, UploadPlan } from '../../src/contract/capabilities.js'
import type { Driver } from '../../src/contract/driver.js'
import type { Entry } from '../../src/contract/entry.js'
import type { Traits } from '../../src/contract/traits.js'
import { throwIfAborted } from '../../src/base/cancellation.js'
import { GatewayError, undefinedIfMissing } from '../../src/base/errors.js'
import { childOf, parentOf, type Path } from '../../src/base/path.js'
import { byteSource } from '../../src/contract/sources.js'

interface Session {
  readonly size: number
  readonly parts: Buffer[]
}

/** Bytes of each part but the last. */
export const partLength = 1000
const proofLength = 8

function sha1Of(bytes: Buffer): string {
  return createHash('sha1').update(bytes).digest('hex')
}

/** The vendor. */
export class HashVendor {
  readonly known = new Map<string, Buffer>()
  readonly #sessions = new Map<string, Session>()
  #links = new Set<string>()
  /** What it was sent: bytes of parts, and requests. */
  readonly seen = { bytes: 0, parts: 0, links: 0, proofs: 0 }
  /** Links that are used up after so many parts. */
  partsPerLink = Number.POSITIVE_INFINITY

  constructor(private readonly length = partLength) {}

  learn(content: string | Buffer): string {
    const bytes = Buffer.from(content)
    this.known.set(sha1Of(bytes), bytes)
    return sha1Of(bytes)
  }

  /** Where the proof of a file with this hash has to come from; undefined if the file is not known. */
  challenge(sha1: string): number | undefined {
    const bytes = this.known.get(sha1)
    return bytes && (bytes.length === 0 ? 0 : Number.parseInt(sha1.slice(0, 8), 16) % bytes.length)
  }

  /** Whether the client has the file: then it has its content. */
  prove(sha1: string, proof: Buffer): Buffer | undefined {
    this.seen.proofs++
    const [bytes, offset] = [this.known.get(sha1), this.challenge(sha1)]
    if (!bytes || offset === undefined) return undefined
    return bytes.subarray(offset, offset + proofLength).equals(proof) ? bytes : undefined
  }

  begin(size: number): string {
    const id = randomUUID()
    this.#sessions.set(id, { size, parts: [] })
    return id
  }

  link(id: string, part: number): string {
    this.seen.links++
    const link = `${id}/${part}/${this.seen.links}`
    this.#links.add(link)
    return link
  }

  put(link: string, bytes: Buffer): void {
    if (!this.#links.has(link)) throw new GatewayError('denied', { reason: 'the link has expired' })
    const [id = '', number = ''] = link.split('/')
    const session = this.#sessions.get(id)
    const expected = Math.min(this.length, (session?.size ?? 0) - this.length * (Number(number) - 1))
    if (session?.parts.length !== Number(number) - 1) throw new GatewayError('invalid', { reason: 'not in order' })
    if (bytes.length !== expected) throw new GatewayError('invalid', { reason: 'of the wrong size' })
    session.parts.push(Buffer.from(bytes))
    this.seen.bytes += bytes.length
    this.seen.parts++
    if (this.seen.parts % this.partsPerLink === 0) this.#links.clear()
  }

  /** The stored parts of an upload of a file of this size; undefined if there is no such upload. */
  stored(id: string, size: number): readonly { readonly number: number; readonly size: number }[] | undefined {
    const session = this.#sessions.get(id)
    return session?.size !== size
      ? undefined
      : session.parts.map(({ length }, index) => ({ number: index + 1, size: length }))
  }

  complete(id: string): Buffer {
    const session = this.#sessions.get(id)
    const bytes = Buffer.concat(session?.parts ?? [])
    if (bytes.length !== session?.size) throw new GatewayError('invalid', { reason: 'parts are missing' })
    this.#sessions.delete(id)
    this.learn(bytes)
    return bytes
  }

  drop(id: string): void {
    this.#sessions.delete(id)
  }
}

/** Names and folders are in memory; contents come by way of the vendor. */
export class HashDriveDriver implements Driver {
  readonly traits: Partial<Traits> = { writeNeeds: 'reread', writeHashes: ['sha1'], caseSensitive: true }
  readonly #names = new MemoryDriver(0)
  readonly #hashes = new Map<Path, string>()

  constructor(
    private readonly vendor: HashVendor,
    /** Bytes of each part but the last. */
    private readonly length = partLength,
  ) {}

  async stat(path: Path, options?: CallOptions): Promise<Entry> {
    return this.#withHash(path, await this.#names.stat(path, options))
  }

  async *pages(path: Path, options?: ListOptions): AsyncGenerator<readonly Entry[]> {
    for await (const page of this.#names.pages(path, options)) {
      yield page.map((entry) => this.#withHash(childOf(path, entry.name), entry))
    }
  }

  read(path: Path, range?: ByteRange, options?: CallOptions): Promise<Readable> {
    return this.#names.read(path, range, options)
  }

  async write(path: Path, source: Source, options: WriteOptions = {}): Promise<Entry> {
    const { signal } = options
    await this.#assertReplaceable(path, options)
    const known = await this.#proved(source, signal)
    if (known) return this.#publish(path, options, () => known)
    const { size = 0 } = source
    if (size === 0) return this.#publish(path, options, () => Buffer.alloc(0))
    const id = this.vendor.begin(size)
    const body = await source.read(undefined, { signal })
    try {
      await withBody(body, signal, () => {
        const layout = { partLength: () => this.length, maxParts: 10_000, parallel: 1, firstPart: 1 }
        return sendParts(new BodyReader(body, size), layout, this.#sender(id, size), signal)
      })
      return await this.#publish(path, options, () => this.vendor.complete(id))
    } catch (error) {
      this.vendor.drop(id)
      throw error
    }
  }

  async upload(path: Path, plan: UploadPlan, options: WriteOptions = {}): Promise<Upload> {
    const { size, resumeToken, source } = plan
    const { signal } = options
    if (!source || size === 0) throw new GatewayError('unsupported')
    await this.#assertReplaceable(path, options)
    const known = await this.#proved(source, signal)
    if (known) {
      const commit = () => this.#publish(path, options, () => known)
      const none = { maxParts: 0, parallel: 1, send: async () => undefined }
      return resumableUpload({
        token: 'known',
        size,
        partLength: this.length,
        committedOffset: size,
        commit,
        signal,
        ...none,
      })
    }
    const stored = resumeToken === undefined ? undefined : this.vendor.stored(resumeToken, size)
    const { bytes } = await contiguousParts(stored ?? [], this.length, size)
    if (!stored && resumeToken !== undefined) this.vendor.drop(resumeToken)
    const id = stored && resumeToken !== undefined ? resumeToken : this.vendor.begin(size)
    return resumableUpload({
      token: id,
      size,
      partLength: this.length,
      committedOffset: bytes,
      maxParts: 10_000,
      parallel: 1,
      send: this.#sender(id, size),
      commit: () => this.#publish(path, options, () => this.vendor.complete(id)),
      signal,
    })
  }

  async dropUpload(token: string): Promise<void> {
    this.vendor.drop(token)
  }

  async mkdir(path: Path, options?: CallOptions): Promise<void> {
    await this.#names.mkdir(path, options)
  }

  async remove(path: Path, options?: CallOptions): Promise<void> {
    await this.#names.remove(path, options)
  }

  /** The content, if the vendor knows it and believes that we have it. */
  async #proved(source: Source, signal: AbortSignal | undefined): Promise<Buffer | undefined> {
    const { sha1 } = source.hashes ?? {}
    const offset = sha1 === undefined ? undefined : this.vendor.challenge(sha1)
    if (sha1 === undefined || offset === undefined) return undefined
    return this.vendor.prove(sha1, await rangeOf(source, offset, proofLength, signal))
  }

  #sender(id: string, size: number) {
    const { vendor } = this
    const links = new PartLinks<string>({
      request: async (parts) => new Map(parts.map((part) => [part, vendor.link(id, part)])),
      batch: 4,
      count: Math.ceil(size / this.length),
      lifetime: 60_000,
      isExpired: (error) => error instanceof GatewayError && error.code === 'denied',
    })
    return async (part: number, bytes: Buffer, signal: AbortSignal) => {
      await links.use(part, async (link) => vendor.put(link, bytes), signal)
    }
  }

  async #publish(path: Path, options: WriteOptions, content: () => Buffer): Promise<Entry> {
    await options.beforePublish?.()
    const bytes = content()
    const { beforePublish: _done, ...rest } = options
    const entry = await this.#names.write(path, byteSource(bytes), rest)
    this.#hashes.set(path, sha1Of(bytes))
    return this.#withHash(path, entry)
  }

  async #assertReplaceable(path: Path, { createOnly, signal }: WriteOptions): Promise<void> {
    throwIfAborted(signal)
    const parent = await undefinedIfMissing(this.#names.stat(parentOf(path)))
    if (!parent) throw new GatewayError('parent_missing')
    if (parent.kind !== 'folder') throw new GatewayError('not_folder')
    const old = await undefinedIfMissing(this.#names.stat(path))
    if (old?.kind === 'folder') throw new GatewayError('is_folder')
    if (old && createOnly === true) throw new GatewayError('exists')
  }

  #withHash(path: Path, entry: Entry): Entry {
    const sha1 = entry.kind === 'file' ? this.#hashes.get(path) : undefined
    return sha1 === undefined ? entry : { ...entry, hashes: { sha1 } }
  }
}
