/** File handles for backends that only read and write streams. */
import { open as openFile, type FileHandle } from 'node:fs/promises'
import { basename } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { joinSignals } from '../contract/cancellation.js'
import type { Attributes, OpenFile } from '../contract/capabilities.js'
import type { ByteRange, Source, WriteOptions } from '../contract/driver.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError } from '../contract/errors.js'
import { convertDiskFull, readFrom, type Spool } from './spool.js'

/** Read-ahead: the length of a new stream, as a multiple of the bytes read sequentially up to its start. */
const growth = 4
/** Maximum bytes to skip within a stream. For larger distances, opening a new stream is cheaper. */
const skipLimit = 1024 * 1024
/** Milliseconds without a read after which a stream is closed, because another request may wait for its slot. */
const idleTime = 10_000
/** Maximum milliseconds to wait for the end of a stream that has sent all requested bytes. */
const endTimeout = 1000

/**
 * Positional reads on top of range streams, one stream at a time. A random read requests exactly its own bytes.
 * Sequential reads request increasing ranges, so that a few streams are enough for a whole file. At most four times the
 * bytes that were read are requested in vain. Concurrent reads are serialized.
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
      if (this.#rest.length === 0 && !(await this.#nextChunk())) break
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
    const ended = this.#chunks?.next().catch(() => undefined)
    await Promise.race([ended, pause(endTimeout, undefined, { ref: false })])
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

/** Maximum memory of out-of-order writes that are buffered, in bytes. */
const maxBuffered = 8 * 1024 * 1024
/** Memory of one buffered write in addition to its data, in bytes. */
const writeOverhead = 256
/** Bytes of zeros per write into a gap, and the maximum size of a gap: one request must not fill a backend. */
const zeroChunk = 1024 * 1024
const maxGap = 64 * 1024 * 1024

/**
 * Writes a new file to a backend as one stream. Writes ahead of the stream's position are buffered until the bytes
 * before them arrive. Gaps that remain at the commit are filled with zeros; the commit rejects with `unsupported` if one
 * is too large. A write rejects with `unsupported` before the stream's position, and if too much is buffered.
 */
export class StreamWriter implements OpenFile {
  readonly #body = new PassThrough({ highWaterMark: 1024 * 1024 })
  readonly #ahead = new Map<number, Buffer>()
  readonly #done: Promise<Entry>
  /** Resolved by `commit` and by `close`. */
  readonly #decided = deferred()
  /** Aborted when the handle is closed without a commit. */
  readonly #discarded = new AbortController()
  #drained: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined
  #aheadBytes = 0
  #position = 0
  /** The size set by `truncate`: the commit adds zeros up to it. */
  #length = 0
  #ended = false
  #failure: { readonly error: unknown } | undefined
  #committed: Promise<Entry> | undefined

  /**
   * `start` writes the file from a source. `applyAttributes` sets the attributes passed to `commit` on the stored file.
   */
  constructor(
    readonly entry: Entry,
    options: WriteOptions,
    start: (source: Source, options: WriteOptions) => Promise<Entry>,
    private readonly applyAttributes: (entry: Entry, attributes: Attributes) => Promise<Entry>,
  ) {
    // The reader of the body handles its errors, but may not have been attached yet when the body is destroyed.
    this.#body.on('error', () => undefined)
    const joined = joinSignals(options.signal, this.#discarded.signal)
    const source: Source = { rereadable: false, read: async () => this.#body }
    this.#done = start(source, {
      ...options,
      signal: joined.signal,
      beforePublish: async () => {
        await this.#decided.promise
        if (this.#discarded.signal.aborted) throw new GatewayError('aborted')
        await options.beforePublish?.()
      },
    }).finally(() => joined.release())
    this.#done.then(
      () => this.#stop(),
      (error: unknown) => {
        this.#failure = { error }
        this.#stop()
      },
    )
  }

  /** Called when the write has ended: nothing reads the body any longer, so that waiting writers must be released. */
  #stop(): void {
    this.#body.destroy()
    this.#drained?.resolve()
  }

  async read(): Promise<number> {
    throw new GatewayError('unsupported', { reason: 'a new file of this storage can be read once it is complete' })
  }

  async write(from: readonly Buffer[], position: number): Promise<void> {
    if (this.#ended) throw new GatewayError('invalid', { reason: 'the handle is closed' })
    let at = position
    for (const bytes of from) {
      if (at < this.#position) throw outOfOrder()
      // Copies: the caller may reuse its buffer once the write has resolved.
      if (at === this.#position) await this.#send(Buffer.from(bytes))
      else this.#buffer(Buffer.from(bytes), at)
      at += bytes.length
    }
    await this.#sendBuffered()
  }

  /** Sends the buffered bytes that follow the current position. */
  async #sendBuffered(): Promise<void> {
    for (let next = this.#ahead.get(this.#position); next; next = this.#ahead.get(this.#position)) {
      this.#ahead.delete(this.#position)
      this.#aheadBytes -= next.length
      await this.#send(next)
    }
  }

  /** Sends all buffered bytes, with zeros in the gaps. */
  async #fillGaps(): Promise<void> {
    for (const at of [...this.#ahead.keys()].sort((one, other) => one - other)) {
      await this.#zerosTo(at)
      await this.#sendBuffered()
    }
    await this.#zerosTo(this.#length)
  }

  async #zerosTo(end: number): Promise<void> {
    assertGap(end - this.#position)
    while (this.#position < end) await this.#send(Buffer.alloc(Math.min(zeroChunk, end - this.#position)))
  }

  #buffer(bytes: Buffer, at: number): void {
    const total = this.#aheadBytes - (this.#ahead.get(at)?.length ?? 0) + bytes.length
    if (total + this.#ahead.size * writeOverhead > maxBuffered) throw outOfOrder()
    if (bytes.length === 0) return
    this.#ahead.set(at, bytes)
    this.#aheadBytes = total
  }

  async #send(bytes: Buffer): Promise<void> {
    if (bytes.length === 0) return
    this.#assertNotFailed()
    this.#position += bytes.length
    if (this.#body.write(bytes)) return
    if (!this.#drained) {
      this.#drained = deferred()
      this.#body.once('drain', () => this.#drained?.resolve())
      void this.#drained.promise.then(() => (this.#drained = undefined))
    }
    await this.#drained.promise
    this.#assertNotFailed()
  }

  #assertNotFailed(): void {
    if (this.#failure) throw this.#failure.error
  }

  async truncate(size: number): Promise<void> {
    if (size === this.#position) {
      this.#ahead.clear()
      this.#aheadBytes = 0
    } else {
      for (const [at, bytes] of this.#ahead) if (size < at + bytes.length) throw outOfOrder()
      if (size < this.#position) throw outOfOrder()
    }
    this.#length = size
  }

  async commit(attributes: Attributes = {}): Promise<Entry> {
    if (this.#committed) return this.#committed
    if (this.#ended) throw new GatewayError('invalid', { reason: 'the handle is closed' })
    this.#ended = true
    this.#committed = this.#finish(attributes)
    return this.#committed
  }

  async #finish(attributes: Attributes): Promise<Entry> {
    try {
      await this.#fillGaps()
      if (this.#ahead.size > 0) throw outOfOrder()
    } catch (error) {
      this.#discard()
      throw error
    }
    this.#body.end()
    this.#decided.resolve()
    return this.applyAttributes(await this.#done, attributes)
  }

  #discard(): void {
    this.#ended = true
    this.#discarded.abort()
    this.#body.destroy(new GatewayError('aborted'))
    this.#decided.resolve()
  }

  async close(): Promise<void> {
    if (!this.#committed) this.#discard()
    await (this.#committed ?? this.#done).catch(() => undefined)
  }
}

function assertGap(bytes: number): void {
  if (bytes <= maxGap) return
  const reason = `this storage takes new files from front to back, and a gap must not exceed ${maxGap} bytes`
  throw new GatewayError('unsupported', { reason })
}

function outOfOrder(): GatewayError {
  const reason =
    'this storage takes new files from front to back, and what it has been sent cannot be changed: ' +
    'make the file elsewhere and upload it whole, or open it to read as well'
  return new GatewayError('unsupported', { reason })
}

/** A promise with its resolve function. */
function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve: () => void = () => undefined
  const promise = new Promise<void>((resolvePromise) => (resolve = resolvePromise))
  return { promise, resolve }
}

/**
 * A file in the spool, initially empty or with the stored content. Reads and writes at any position; `commit` writes it
 * back.
 */
export class SpooledFile implements OpenFile {
  private constructor(
    readonly entry: Entry,
    private readonly handle: FileHandle,
    private readonly spool: Spool,
    private readonly file: string,
    private readonly writeBack: (source: Source, attributes: Attributes) => Promise<Entry>,
    size: number,
  ) {
    this.#size = size
  }

  #committing: Promise<unknown> = Promise.resolve()
  /** The size of the file, including pending writes. */
  #size: number

  /** `content`: the initial content; undefined for an empty file. */
  static async open(
    spool: Spool,
    entry: Entry,
    content: Source | undefined,
    writeBack: (source: Source, attributes: Attributes) => Promise<Entry>,
    signal?: AbortSignal,
  ): Promise<SpooledFile> {
    const received = content && (await spool.receive(content, signal))
    const file = received?.file ?? spool.newFile()
    try {
      const handle = await openFile(file, received ? 'r+' : 'wx+', 0o600)
      return new SpooledFile(entry, handle, spool, file, writeBack, received?.size ?? 0)
    } catch (error) {
      await spool.remove(basename(file))
      throw error
    }
  }

  async read(into: Buffer, position: number): Promise<number> {
    let filled = 0
    while (filled < into.length) {
      const { bytesRead } = await this.handle.read(into, filled, into.length - filled, position + filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    return filled
  }

  async write(from: readonly Buffer[], position: number): Promise<void> {
    this.#resize(
      Math.max(
        this.#size,
        from.reduce((end, { length }) => end + length, position),
      ),
    )
    await convertDiskFull(async () => {
      let at = position
      for (const bytes of from) {
        for (let done = 0; done < bytes.length;) {
          done += (await this.handle.write(bytes, done, bytes.length - done, at + done)).bytesWritten
        }
        at += bytes.length
      }
    })
  }

  async truncate(size: number): Promise<void> {
    if (size > this.#size) this.#resize(size)
    await convertDiskFull(() => this.handle.truncate(size))
    if (size < this.#size) this.#resize(size)
  }

  #resize(size: number): void {
    this.spool.resize(this.file, size)
    this.#size = size
  }

  async commit(attributes: Attributes = {}): Promise<Entry> {
    const { size } = await this.handle.stat()
    const source: Source = {
      size,
      rereadable: true,
      read: readFrom(this.file),
    }
    const written = this.writeBack(source, attributes)
    this.#committing = written.catch(() => undefined)
    return written
  }

  async close(): Promise<void> {
    // Writing back reads the file until it has finished.
    await this.#committing
    await this.handle.close()
    await this.spool.remove(basename(this.file))
  }
}

/** Callbacks around the calls of a handle. */
export interface FileHooks {
  /** Called before every call except `close`. If it throws, the call rejects with that error. */
  readonly before?: () => void
  /** Awaited before a read or write of `bytes` bytes. */
  readonly reading?: (bytes: number) => Promise<void>
  readonly writing?: (bytes: number) => Promise<void>
  /** Called with the number of bytes after each read and write that succeeds. */
  readonly didRead?: (bytes: number) => void
  readonly didWrite?: (bytes: number) => void
  /** Called before each `write` and `truncate`. */
  readonly changing?: () => void
  /** Called before `commit`. */
  readonly committing?: () => void
  /** Called with the stored entry after `commit`. Returns the entry that `commit` resolves to. */
  readonly committed?: (stored: Entry, attributes: Attributes) => Promise<Entry>
  /** Converts an error before it is reported. */
  readonly failed?: (error: unknown, op: 'read' | 'write' | 'close') => unknown
  /** Called after `close`, also if it rejects. */
  readonly closed?: () => void
  /** Called after `close` and after `commit`, also if they reject. */
  readonly ended?: () => void
}

/** Returns a handle with the same methods as `file`, each of which runs the hooks. */
export function withHooks(file: OpenFile, hooks: FileHooks): OpenFile {
  const { before, reading, writing, didRead, didWrite, changing, committing, committed, closed, ended } = hooks
  const { failed = (error: unknown): unknown => error } = hooks
  const withFailed = async <T>(op: 'read' | 'write' | 'close', work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      throw failed(error, op)
    }
  }
  const over: { -readonly [Key in keyof OpenFile]: OpenFile[Key] } = {
    entry: file.entry,
    read: (into, position) =>
      withFailed('read', async () => {
        before?.()
        if (reading) await reading(into.length)
        const bytes = await file.read(into, position)
        didRead?.(bytes)
        return bytes
      }),
    close: async () => {
      try {
        await withFailed('close', () => file.close())
      } finally {
        closed?.()
        ended?.()
      }
    },
  }
  if (file.write) {
    over.write = (from, position) =>
      withFailed('write', async () => {
        before?.()
        const bytes = from.reduce((sum, { length }) => sum + length, 0)
        if (writing) await writing(bytes)
        changing?.()
        await file.write?.(from, position)
        didWrite?.(bytes)
      })
  }
  if (file.truncate) {
    over.truncate = (size) =>
      withFailed('write', async () => {
        before?.()
        changing?.()
        await file.truncate?.(size)
      })
  }
  if (file.sync) {
    over.sync = () =>
      withFailed('write', async () => {
        before?.()
        await file.sync?.()
      })
  }
  if (file.preferredReadSize !== undefined) over.preferredReadSize = file.preferredReadSize
  const { entry } = file
  if (file.commit) {
    over.commit = async (attributes = {}) => {
      try {
        return await withFailed('write', async () => {
          before?.()
          committing?.()
          const stored = (await file.commit?.(attributes)) ?? entry
          return (await committed?.(stored, attributes)) ?? stored
        })
      } finally {
        ended?.()
      }
    }
  }
  return over
}
