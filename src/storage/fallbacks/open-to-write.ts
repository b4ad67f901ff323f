/** Files that are opened to write, where the driver has no handles: as one stream, or as a copy in the spool. */
import { open as openFile, type FileHandle } from 'node:fs/promises'
import { basename } from 'node:path'
import { PassThrough } from 'node:stream'
import { joinSignals } from '../../base/cancellation.js'
import type { Attributes, OpenFile, OpenOptions } from '../../contract/capabilities.js'
import type { CallOptions, Source, WriteOptions } from '../../contract/call-options.js'
import type { Entry } from '../../contract/entry.js'
import { GatewayError, isGatewayError } from '../../base/errors.js'
import { nameOf, parentOf, type Path } from '../../base/path.js'
import type { Storage } from '../storage.js'
import { convertDiskFull, readFrom, type Spool } from './spool.js'

/** Maximum memory of out-of-order writes that are buffered, in bytes. */
const maxBuffered = 8 * 1024 * 1024
/** Memory of one buffered write in addition to its data, in bytes. */
const writeOverhead = 256
/** Bytes of zeros per write into a gap, and the maximum size of a gap: one request must not fill a backend. */
const zeroChunk = 1024 * 1024
const maxGap = 64 * 1024 * 1024

/** Opens a file to be written, as `Driver.open` does, by means of `write` of the storage. */
export async function openToWrite(
  storage: Storage,
  spool: Spool,
  path: Path,
  mode: 'update' | 'replace',
  options: OpenOptions,
): Promise<OpenFile> {
  // The size is announced for the content of the old file, so it must not come from the cached listing.
  const old = await storage.stat(path, { ...options, refresh: true }).catch((error: unknown) => {
    if (mode === 'replace' && isGatewayError(error, 'not_found')) return undefined
    throw error
  })
  if (old?.kind === 'folder') throw new GatewayError('is_folder')
  if (old && options.createOnly === true) throw new GatewayError('exists')
  if (!old) await assertParent(storage, path, options)
  const fresh: Entry = { name: nameOf(path), kind: 'file', size: 0, modified: new Date() }
  const { readable, ...publish } = options
  const writeBack = (source: Source, { modified = publish.modified, mode = publish.mode }: Attributes) =>
    storage.write(path, source, { ...publish, modified, mode })
  if (mode === 'update' && old) {
    // A change in place does not change the permission bits.
    const content = storage.source(path, old, options.holder)
    const change = (source: Source, { mode = publish.mode ?? old.mode, modified }: Attributes) =>
      writeBack(source, { mode, modified })
    return SpooledFile.open(spool, old, content, change, options.signal)
  }
  if (readable === true) return SpooledFile.open(spool, fresh, undefined, writeBack, options.signal)
  return new StreamWriter(
    fresh,
    publish,
    (source, write) => storage.write(path, source, write),
    async (entry, attributes) => {
      if (attributes.modified === undefined && attributes.mode === undefined) return entry
      await storage.setAttributes(path, attributes, { signal: options.signal })
      return storage.stat(path, { signal: options.signal })
    },
  )
}

/** Rejects if the parent folder is missing, which a stream would report only at its end. */
async function assertParent(storage: Storage, path: Path, options: CallOptions): Promise<void> {
  // On a backend without folders, no parent can be missing.
  if (!storage.traits.emptyFolders) return
  const parent = await storage.stat(parentOf(path), options).catch((error: unknown) => {
    throw isGatewayError(error, 'not_found') ? new GatewayError('parent_missing', { cause: error }) : error
  })
  if (parent.kind !== 'folder') throw new GatewayError('not_folder')
}

/**
 * Writes a new file to a backend as one stream. Writes ahead of the stream's position are buffered until the bytes
 * before them arrive. Gaps that remain at the commit are filled with zeros; the commit rejects with `unsupported` if
 * one is too large. A write rejects with `unsupported` before the stream's position, and if too much is buffered.
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
