/** Files that are opened to read, where the driver has no handles: by streams. */
import type { Readable } from 'node:stream'
import { settlesWithin } from '../../base/cancellation.js'
import type { OpenFile } from '../../contract/capabilities.js'
import type { ByteRange, CallOptions } from '../../contract/call-options.js'
import type { Entry } from '../../contract/entry.js'
import { GatewayError } from '../../base/errors.js'
import type { Path } from '../../base/path.js'
import type { Storage } from '../storage.js'
import { ofSameContent } from './read.js'

/** Read-ahead: the length of a new stream, as a multiple of the bytes read sequentially up to its start. */
const growth = 4
/** Maximum bytes to skip within a stream. For larger distances, opening a new stream is cheaper. */
const skipLimit = 1024 * 1024
/** Milliseconds without a read after which a stream is closed, because another request may wait for its slot. */
const idleTime = 10_000
/** Maximum milliseconds to wait for the end of a stream that has sent all requested bytes. */
const endTimeout = 1000

/** Opens a file to be read, as `Driver.open` does, by means of `read` of the storage. */
export async function openToRead(storage: Storage, path: Path, options: CallOptions): Promise<OpenFile> {
  // Compared with later entries, so it must not come from the cached listing.
  const entry = await storage.stat(path, { ...options, refresh: true })
  if (entry.kind === 'folder') throw new GatewayError('is_folder')
  let isFirst = true
  const open = async (range: ByteRange) => {
    const stream = await storage.read(path, range, { ...options, entry })
    const isOpenedAgain = !isFirst
    isFirst = false
    const stat = () => storage.stat(path, { ...options, refresh: true })
    return isOpenedAgain ? ofSameContent(stream, entry, stat) : stream
  }
  return new StreamReader(entry, open, storage.traits.ranges)
}

/**
 * Positional reads on top of range streams, one stream at a time. A random read requests exactly its own bytes.
 * Sequential reads request increasing ranges, so that a few streams are enough for a whole file. At most four times the
 * bytes that were read are requested in vain. Concurrent reads are serialized. A read rejects with `unavailable` if a
 * stream ends before the requested bytes and before the end of the file.
 */
export class StreamReader implements OpenFile {
  #stream: Readable | undefined
  #chunks: AsyncIterator<Buffer> | undefined
  #rest: Buffer = Buffer.alloc(0)
  /** The offsets of the stream's next byte and of its end. */
  #position = 0
  #end = 0
  /** The offset at which the last read ended, and the number of bytes read sequentially up to it. */
  #last = 0
  #sequence = 0
  #lastRead: Promise<unknown> = Promise.resolve()
  #idle: NodeJS.Timeout | undefined
  #closed = false

  /**
   * `ranges: false`: a range costs as much as all bytes before its end, so that each stream is opened to the end of the
   * file. `idleLimit`: milliseconds.
   */
  constructor(
    readonly entry: Entry,
    private readonly openRange: (range: ByteRange) => Promise<Readable>,
    private readonly ranges = true,
    private readonly idleLimit = idleTime,
  ) {}

  read(into: Buffer, position: number): Promise<number> {
    const result = this.#lastRead.then(() => this.#fill(into, position))
    this.#lastRead = result.catch(() => undefined)
    return result
  }

  async #fill(into: Buffer, position: number): Promise<number> {
    this.#assertOpen()
    if (into.length === 0 || position >= this.entry.size) return 0
    clearTimeout(this.#idle)
    try {
      if (position !== this.#last) this.#sequence = 0
      const filled = await this.#take(into, position)
      this.#last = position + filled
      this.#sequence += filled
      return filled
    } catch (error) {
      // The rest of a failed stream would look like the end of the file: the next read opens a new stream.
      this.#drop()
      this.#assertOpen()
      throw error
    } finally {
      if (this.#stream) this.#idle = setTimeout(() => this.#drop(), this.idleLimit).unref()
    }
  }

  #assertOpen(): void {
    if (this.#closed) throw new GatewayError('invalid', { reason: 'the handle is closed' })
  }

  async #take(into: Buffer, position: number): Promise<number> {
    let filled = 0
    while (filled < into.length) {
      const at = position + filled
      if (!this.#stream || at < this.#position || at >= this.#end || at > this.#position + skipLimit) {
        if (at >= this.entry.size) break
        await this.#open(at, into.length - filled)
      }
      if (this.#rest.length === 0 && !(await this.#nextChunk())) {
        if (this.#position >= Math.min(this.#end, this.entry.size)) break
        throw new GatewayError('unavailable', { reason: 'the storage sent only a part of the file' })
      }
      if (this.#position < at) {
        this.#consume(at - this.#position)
        continue
      }
      const bytes = this.#consume(Math.min(into.length - filled, this.#end - at))
      bytes.copy(into, filled)
      filled += bytes.length
      if (this.#position === this.#end) await this.#finish()
    }
    return filled
  }

  async #open(position: number, needed: number): Promise<void> {
    this.#drop()
    const left = this.entry.size - position
    const length = Math.max(needed, this.ranges ? Math.min(left, this.#sequence * growth) : left)
    this.#stream = await this.openRange({ offset: position, length })
    this.#assertOpen()
    this.#chunks = this.#stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    this.#position = position
    this.#end = position + length
  }

  /** Consumes up to `length` bytes of the current chunk. */
  #consume(length: number): Buffer {
    const bytes = this.#rest.subarray(0, length)
    this.#rest = this.#rest.subarray(bytes.length)
    this.#position += bytes.length
    return bytes
  }

  /** Loads the next chunk. false: the stream has ended. */
  async #nextChunk(): Promise<boolean> {
    const next = await this.#chunks?.next()
    if (!next || next.done === true) return false
    this.#rest = next.value
    return true
  }

  /** Waits for the end of a stream whose bytes have all arrived, so that its connection can be reused. */
  async #finish(): Promise<void> {
    const ended = this.#chunks?.next()
    if (ended) await settlesWithin(ended, endTimeout)
    this.#drop()
  }

  #drop(): void {
    this.#stream?.destroy()
    this.#stream = undefined
    this.#chunks = undefined
    this.#rest = Buffer.alloc(0)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#idle)
    this.#drop()
  }
}
