/** The contents of files at a vendor's double: small ones in memory, large ones in temporary files. */
import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Test } from 'tap'

const hashNames = ['md5', 'sha1'] as const

/** Upper-case hexadecimal digests. */
export type Digests = Readonly<Record<(typeof hashNames)[number], string>>

/** Bytes that have arrived together: a whole file, or a part of one. */
interface Segment {
  readonly size: number
  /** Undefined: in the file. */
  readonly bytes?: Buffer
  readonly file?: string
}

/** Bytes in memory, of each segment. */
const memoryLimit = 64 * 1024
/** Bytes of the beginning that are kept beside: vendors look a file up by the hash of its beginning. */
const headLength = 1024

export interface Content {
  readonly size: number
  readonly digests: Digests
  /** The first KiB. */
  readonly head: Buffer
  /** The bytes from `start` up to `end`. */
  read(start?: number, end?: number): AsyncGenerator<Buffer>
}

export class Contents {
  #files = 0

  private constructor(private readonly folder: string) {}

  /** Removes its files when the test ends. */
  static async open(t: Test): Promise<Contents> {
    const folder = await mkdtemp(join(tmpdir(), 'vendor-contents-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    return new Contents(folder)
  }

  /** A content whose parts arrive one after the other. */
  begin(): GrowingContent {
    return new GrowingContent(() => join(this.folder, String(++this.#files)))
  }

  async of(bytes: string | Buffer): Promise<Content> {
    const content = this.begin()
    await content.append([Buffer.from(bytes)])
    return content.finish()
  }
}

export class GrowingContent {
  readonly #segments: Segment[] = []
  #hashes: Readonly<Record<keyof Digests, Hash>> = { md5: createHash('md5'), sha1: createHash('sha1') }
  #head = Buffer.alloc(0)

  constructor(private readonly newFile: () => string) {}

  /** Bytes of all parts. */
  get size(): number {
    return this.#segments.reduce((sum, { size }) => sum + size, 0)
  }

  /** Bytes of the parts, in their order. */
  get sizes(): readonly number[] {
    return this.#segments.map(({ size }) => size)
  }

  /** Appends a part. If its bytes end with an error, nothing is appended. Resolves to their digests. */
  async append(chunks: Iterable<Buffer> | AsyncIterable<Buffer>): Promise<Digests & { readonly size: number }> {
    const own = { md5: createHash('md5'), sha1: createHash('sha1') }
    const whole = { md5: this.#hashes.md5.copy(), sha1: this.#hashes.sha1.copy() }
    let head = this.#head
    const hashed = async function* () {
      for await (const chunk of chunks) {
        for (const hash of [own.md5, own.sha1, whole.md5, whole.sha1]) hash.update(chunk)
        if (head.length < headLength) head = Buffer.concat([head, chunk]).subarray(0, headLength)
        yield chunk
      }
    }
    const segment = await this.#store(hashed())
    this.#segments.push(segment)
    this.#hashes = whole
    this.#head = head
    return { ...digestsOf(own), size: segment.size }
  }

  finish(): Content {
    const segments = this.#segments
    const { size } = this
    return {
      size,
      digests: digestsOf(this.#hashes),
      head: this.#head,
      read: (start = 0, end = size) => read(segments, start, end),
    }
  }

  async #store(chunks: AsyncGenerator<Buffer>): Promise<Segment> {
    const inMemory: Buffer[] = []
    let size = 0
    let next = await chunks.next()
    while (next.done !== true && size + next.value.length <= memoryLimit) {
      inMemory.push(Buffer.from(next.value))
      size += next.value.length
      next = await chunks.next()
    }
    if (next.done === true) return { size, bytes: Buffer.concat(inMemory) }
    const first = next.value
    const file = this.newFile()
    const all = async function* () {
      yield* inMemory
      size += first.length
      yield first
      for await (const chunk of chunks) {
        size += chunk.length
        yield chunk
      }
    }
    await pipeline(Readable.from(all(), { objectMode: false }), createWriteStream(file))
    return { size, file }
  }
}

function digestsOf(hashes: Readonly<Record<keyof Digests, Hash>>): Digests {
  const digest = (hash: Hash) => hash.copy().digest('hex').toUpperCase()
  return { md5: digest(hashes.md5), sha1: digest(hashes.sha1) }
}

async function* read(segments: readonly Segment[], start: number, end: number): AsyncGenerator<Buffer> {
  let offset = 0
  for (const { size, bytes, file } of segments) {
    const [from, to] = [Math.max(0, start - offset), Math.min(size, end - offset)]
    offset += size
    if (from >= to) continue
    if (bytes) yield bytes.subarray(from, to)
    else if (file !== undefined) {
      yield* createReadStream(file, { start: from, end: to - 1, highWaterMark: 256 * 1024 }) as AsyncIterable<Buffer>
    }
  }
}
