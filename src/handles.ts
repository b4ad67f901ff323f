/** Handles for backends that have none: what `open` means where a file can only be read or written as a stream. */
import { open as openFile, type FileHandle } from 'node:fs/promises'
import { basename } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import type { Attributes, ByteRange, Entry, OpenFile, Source, WriteOptions } from './driver.js'
import { GatewayError } from './errors.js'
import { joinSignals } from './signals.js'
import { onSpool, readFrom, type Spool } from './spool.js'

/** A stream is asked for so many times the bytes that were read in sequence up to its start. */
const growth = 4
/** How far ahead within a stream it is cheaper to skip than to ask again. */
const skipLimit = 1024 * 1024
/** Milliseconds after which a stream without a reader is ended: backends close it in the end, and others may wait for its slot. */
const idleTime = 10_000
/** Milliseconds for which a stream is waited for that has sent all that was asked for and does not end. */
const endTimeout = 1000

/**
 * Reads by streams, one at a time. A read that does not begin where the one before ended asks for its own bytes and no more. Reads in
 * sequence ask ahead, each time for more: a file that is read from end to end comes in a few streams, whatever the reads' size, and
 * what is asked for in vain is at most four times what was read. Calls are served in turn.
 */
export class StreamReader implements OpenFile {
  #stream: Readable | undefined
  #chunks: AsyncIterator<Buffer> | undefined
  #rest: Buffer = Buffer.alloc(0)
  /** Of the stream's next byte, and where it ends. */
  #position = 0
  #end = 0
  /** Where the last read ended, and how many bytes were read in sequence up to there. */
  #last = 0
  #sequence = 0
  #turn: Promise<unknown> = Promise.resolve()
  #idle: NodeJS.Timeout | undefined
  #closed = false

  /** `ranges: false`: parts cost all that lies before them, so a stream is best read to the end of the file. */
  constructor(
    readonly entry: Entry,
    private readonly openRange: (range: ByteRange) => Promise<Readable>,
    private readonly ranges = true,
    private readonly idleLimit = idleTime,
  ) {}

  read(into: Buffer, position: number): Promise<number> {
    const turn = this.#turn.then(() => this.#fill(into, position))
    this.#turn = turn.catch(() => undefined)
    return turn
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
      // What is left of a stream that failed would look like the end of the file: the next read opens it anew.
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
      if (this.#rest.length === 0 && !(await this.#more())) break
      if (this.#position < at) {
        this.#next(at - this.#position)
        continue
      }
      const bytes = this.#next(Math.min(into.length - filled, this.#end - at))
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

  /** At most so many of the bytes that are here. */
  #next(length: number): Buffer {
    const bytes = this.#rest.subarray(0, length)
    this.#rest = this.#rest.subarray(bytes.length)
    this.#position += bytes.length
    return bytes
  }

  async #more(): Promise<boolean> {
    const next = await this.#chunks?.next()
    if (!next || next.done === true) return false
    this.#rest = next.value
    return true
  }

  /** All bytes have arrived: the stream may come to its own end, so that its connection can be used again. */
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

/** How far after the next byte a write may lie and still be held back until the gap is filled. */
const window = 8 * 1024 * 1024
/** Zeros that are written at a time where nothing was, and the most in one place: one request must not fill a backend. */
const zeros = 1024 * 1024
const zerosLimit = 64 * 1024 * 1024

/**
 * A new file written through `write` as its bytes come in order. Bytes a little ahead wait; gaps that nobody fills are
 * zeros; a write that jumps back, after bytes went out, is `unsupported`.
 */
export class StreamWriter implements OpenFile {
  readonly #body = new PassThrough({ highWaterMark: 1024 * 1024 })
  readonly #ahead = new Map<number, Buffer>()
  readonly #done: Promise<Entry>
  readonly #decided = signpost()
  readonly #given = new AbortController()
  #room: { readonly made: Promise<void>; readonly reach: () => void } | undefined
  #aheadBytes = 0
  #position = 0
  /** What `truncate` asked for: at the end, zeros are added up to here. */
  #length = 0
  #ended = false
  #failure: { readonly error: unknown } | undefined
  #committed: Promise<Entry> | undefined

  /** `start` writes the file; `adorn` gives what is stored the attributes that came with the commit. */
  constructor(
    readonly entry: Entry,
    options: WriteOptions,
    start: (source: Source, options: WriteOptions) => Promise<Entry>,
    private readonly adorn: (entry: Entry, attributes: Attributes) => Promise<Entry>,
  ) {
    // Whoever reads the body listens for itself; nobody may have begun to when it is given up.
    this.#body.on('error', () => undefined)
    const joined = joinSignals(options.signal, this.#given.signal)
    const source: Source = { rereadable: false, read: async () => this.#body }
    this.#done = start(source, {
      ...options,
      signal: joined.signal,
      beforePublish: async () => {
        await this.#decided.made
        if (this.#given.signal.aborted) throw new GatewayError('aborted')
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

  /** Nobody reads the body any more, nor may anybody wait for room in it. */
  #stop(): void {
    this.#body.destroy()
    this.#room?.reach()
  }

  async read(): Promise<number> {
    throw new GatewayError('unsupported', { reason: 'a new file of this storage can be read once it is complete' })
  }

  async write(from: readonly Buffer[], position: number): Promise<void> {
    if (this.#ended) throw new GatewayError('invalid', { reason: 'the handle is closed' })
    let at = position
    for (const bytes of from) {
      if (at < this.#position) throw outOfOrder()
      // The caller has its buffer back when this settles.
      if (at === this.#position) await this.#put(Buffer.from(bytes))
      else this.#hold(Buffer.from(bytes), at)
      at += bytes.length
    }
    await this.#release()
  }

  /** Sends what was held back and follows now. */
  async #release(): Promise<void> {
    for (let next = this.#ahead.get(this.#position); next; next = this.#ahead.get(this.#position)) {
      this.#ahead.delete(this.#position)
      this.#aheadBytes -= next.length
      await this.#put(next)
    }
  }

  /** Zeros wherever nothing was written. */
  async #fill(): Promise<void> {
    for (const at of [...this.#ahead.keys()].sort((one, other) => one - other)) {
      await this.#zerosTo(at)
      await this.#release()
    }
    await this.#zerosTo(this.#length)
  }

  async #zerosTo(end: number): Promise<void> {
    if (end - this.#position > zerosLimit) throw new GatewayError('unsupported', { reason: 'the file has a gap' })
    while (this.#position < end) await this.#put(Buffer.alloc(Math.min(zeros, end - this.#position)))
  }

  #hold(bytes: Buffer, at: number): void {
    const held = this.#aheadBytes - (this.#ahead.get(at)?.length ?? 0) + bytes.length
    if (held > window) throw outOfOrder()
    if (bytes.length === 0) return
    this.#ahead.set(at, bytes)
    this.#aheadBytes = held
  }

  async #put(bytes: Buffer): Promise<void> {
    if (bytes.length === 0) return
    this.#assertGoing()
    this.#position += bytes.length
    if (this.#body.write(bytes)) return
    if (!this.#room) {
      this.#room = signpost()
      this.#body.once('drain', () => this.#room?.reach())
      void this.#room.made.then(() => (this.#room = undefined))
    }
    await this.#room.made
    this.#assertGoing()
  }

  #assertGoing(): void {
    if (this.#failure) throw this.#failure.error
  }

  async truncate(size: number): Promise<void> {
    if (size === this.#position) {
      this.#ahead.clear()
      this.#aheadBytes = 0
    } else {
      const written = Math.max(this.#position, ...[...this.#ahead].map(([at, bytes]) => at + bytes.length))
      if (size < written) throw outOfOrder()
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
      await this.#fill()
      if (this.#ahead.size > 0) throw outOfOrder()
    } catch (error) {
      this.#giveUp()
      throw error
    }
    this.#body.end()
    this.#decided.reach()
    return this.adorn(await this.#done, attributes)
  }

  #giveUp(): void {
    this.#ended = true
    this.#given.abort()
    this.#body.destroy(new GatewayError('aborted'))
    this.#decided.reach()
  }

  async close(): Promise<void> {
    if (!this.#committed) this.#giveUp()
    await (this.#committed ?? this.#done).catch(() => undefined)
  }
}

function outOfOrder(): GatewayError {
  const reason =
    'this storage takes new files from front to back, and what it has been sent cannot be changed: ' +
    'make the file elsewhere and upload it whole, or open it to read as well'
  return new GatewayError('unsupported', { reason })
}

/** Something to wait for that happens once. */
function signpost(): { readonly made: Promise<void>; readonly reach: () => void } {
  let reach: () => void = () => undefined
  const made = new Promise<void>((resolve) => (reach = resolve))
  return { made, reach }
}

/** A file on the spool: the old bytes (or none) to read and change at any position, written back by `commit`. */
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
  /** What the file takes up, with the writes that are under way. */
  #size: number

  /** `content`: what the file holds to begin with; absent for an empty one. */
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
    await onSpool(async () => {
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
    await onSpool(() => this.handle.truncate(size))
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
    // The bytes are needed until they are written back.
    await this.#committing
    await this.handle.close()
    await this.spool.remove(basename(this.file))
  }
}

/** What happens around the calls of a handle. */
export interface FileHooks {
  /** Ahead of each call but `close`; what it throws is the call's answer. */
  readonly before?: () => void
  /** Ahead of so many bytes: what it resolves to is waited for. */
  readonly reading?: (bytes: number) => Promise<void>
  readonly writing?: (bytes: number) => Promise<void>
  /** Ahead of each change in place. */
  readonly changing?: () => void
  /** Ahead of `commit`. */
  readonly committing?: () => void
  /** With what was stored; resolves to what is told of it. */
  readonly committed?: (stored: Entry, attributes: Attributes) => Promise<Entry>
  /** What a failure is told as. */
  readonly failed?: (error: unknown, op: 'read' | 'write' | 'close') => unknown
  /** After `close` and after `commit`, whatever became of them. */
  readonly ended?: () => void
}

/** A handle that does what `file` does, and has the methods that it has. */
export function hooked(file: OpenFile, hooks: FileHooks): OpenFile {
  const { before, reading, writing, changing, committing, committed, ended } = hooks
  const { failed = (error: unknown): unknown => error } = hooks
  const told = async <T>(op: 'read' | 'write' | 'close', work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      throw failed(error, op)
    }
  }
  const over: { -readonly [Key in keyof OpenFile]: OpenFile[Key] } = {
    entry: file.entry,
    read: (into, position) =>
      told('read', async () => {
        before?.()
        if (reading) await reading(into.length)
        return file.read(into, position)
      }),
    close: async () => {
      try {
        await told('close', () => file.close())
      } finally {
        ended?.()
      }
    },
  }
  if (file.write) {
    over.write = (from, position) =>
      told('write', async () => {
        before?.()
        if (writing) await writing(from.reduce((sum, { length }) => sum + length, 0))
        changing?.()
        await file.write?.(from, position)
      })
  }
  if (file.truncate) {
    over.truncate = (size) =>
      told('write', async () => {
        before?.()
        changing?.()
        await file.truncate?.(size)
      })
  }
  if (file.sync) {
    over.sync = () =>
      told('write', async () => {
        before?.()
        await file.sync?.()
      })
  }
  if (file.atOnce !== undefined) over.atOnce = file.atOnce
  const { entry } = file
  if (file.commit) {
    over.commit = async (attributes = {}) => {
      try {
        return await told('write', async () => {
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
