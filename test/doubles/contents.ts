/** The bytes that a double stores, in temporary files. */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, mkdtempSync } from 'node:fs'
import { open, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable, Transform, type TransformCallback } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Test } from 'tap'

export interface Content {
  /** Upper-case hexadecimal, as the vendors write it. */
  readonly sha1: string
  /** The MD5 in upper-case hexadecimal. */
  readonly md5: string
  readonly size: number
  readonly file: string
}

export class Contents {
  readonly #folder = mkdtempSync(join(tmpdir(), 'double-'))
  /** The contents that were published, by SHA-1. */
  readonly #published = new Map<string, Content>()
  #files = 0

  /** The files are removed when the test ends. */
  constructor(t: Test) {
    t.teardown(() => rm(this.#folder, { recursive: true, force: true }))
  }

  /** The content with this SHA-1, if the vendor has it as a file: the base of rapid uploads. */
  find(sha1: string): Content | undefined {
    return this.#published.get(sha1.toUpperCase())
  }

  /** Stores a file's content, and publishes it. */
  async add(bytes: string | Buffer): Promise<Content> {
    const file = this.#newFile()
    const digests = new Digests()
    digests.update(Buffer.from(bytes))
    await writeFile(file, bytes)
    return this.publish(digests.content(file))
  }

  /** Stores the bytes of a stream. Rejects, and stores nothing, if it fails. */
  async receive(from: AsyncIterable<Buffer>): Promise<Content> {
    const file = this.#newFile()
    const digests = new Digests()
    try {
      await pipeline(from, new Counting(digests), createWriteStream(file))
    } catch (error) {
      await rm(file, { force: true })
      throw error
    }
    return digests.content(file)
  }

  /** Stores these contents, one after the other, as one, and discards them. */
  async join(parts: readonly Content[]): Promise<Content> {
    const all = async function* (contents: Contents) {
      for (const part of parts) yield* contents.read(part) as AsyncIterable<Buffer>
    }
    const joined = await this.receive(all(this))
    for (const part of parts) await this.discard(part)
    return joined
  }

  /** From now on, `find` finds it. */
  publish(content: Content): Content {
    this.#published.set(content.sha1, content)
    return content
  }

  /** From now on, `find` finds nothing of what was published before: the vendor does not know it as a file. */
  forget(): void {
    this.#published.clear()
  }

  /** All contents that the vendor has as files. */
  published(): Iterable<Content> {
    return this.#published.values()
  }

  /** For a content that was not published. */
  async discard({ file }: Content): Promise<void> {
    await rm(file, { force: true })
  }

  /** `end`: the position after the last byte. */
  read({ file, size }: Content, start = 0, end = size): Readable {
    return start >= end ? Readable.from([]) : createReadStream(file, { start, end: end - 1 })
  }

  /** The bytes from position `first` to position `last`. */
  async range({ file }: Content, first: number, last: number): Promise<Buffer> {
    const opened = await open(file)
    try {
      const bytes = Buffer.alloc(Math.max(0, last - first + 1))
      const { bytesRead } = await opened.read(bytes, 0, bytes.length, first)
      return bytes.subarray(0, bytesRead)
    } finally {
      await opened.close()
    }
  }

  #newFile(): string {
    return join(this.#folder, String(++this.#files))
  }
}

class Digests {
  readonly #sha1 = createHash('sha1')
  readonly #md5 = createHash('md5')
  #size = 0

  update(chunk: Buffer): void {
    this.#sha1.update(chunk)
    this.#md5.update(chunk)
    this.#size += chunk.length
  }

  content(file: string): Content {
    const [sha1, md5] = [this.#sha1, this.#md5].map((hash) => hash.digest('hex').toUpperCase())
    return { sha1: sha1 ?? '', md5: md5 ?? '', size: this.#size, file }
  }
}

class Counting extends Transform {
  constructor(private readonly digests: Digests) {
    super()
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.digests.update(chunk)
    done(null, chunk)
  }
}
