/**
 * What the content of a file passes at two edges: that of a storage, to its backend (bandwidth of backends, slots, the
 * log of failures), and that of the tree, to a client (revocation, bandwidth of clients, the count of bytes, errors in
 * the words of the principal). Each edge surrounds a stream or a handle once.
 */
import { finished, Readable } from 'node:stream'
import { joinSignals, withReason } from '../base/cancellation.js'
import { GatewayError } from '../base/errors.js'
import type { Awaitable } from '../contract/call-options.js'
import type { Attributes, OpenFile, WritableFile } from '../contract/capabilities.js'
import type { Entry } from '../contract/entry.js'
import type { SpeedLimit } from './bandwidth.js'
import type { EndingHandle } from './ending-writes.js'

interface StreamEdge {
  /** The bytes wait for it if it limits them now. */
  readonly limit?: SpeedLimit | undefined
  /** The error of the stream for one of `bytes`, and for an abort. Not called if the consumer destroys the stream. */
  readonly failed?: ((error: unknown) => Error) | undefined
  /** Ends the stream with `aborted`. */
  readonly signal?: AbortSignal | undefined
}

/**
 * A stream of the same bytes as another one. It starts and buffers nothing before it is read, and destroys the other
 * one when it is destroyed. It can fail before its reader listens.
 */
export class PassedStream extends Readable {
  #from: Readable
  readonly #edge: StreamEdge
  readonly #limit: SpeedLimit | undefined
  readonly #destroyed: AbortController | undefined
  readonly #abort = () => this.destroy(this.#failure(new GatewayError('aborted')))
  #isStarted = false
  #isAwaited = false
  /** The stream has ended, but its last bytes wait for the limit. */
  #hasEnded = false
  /** The rest of a chunk, which the limit has not let pass yet. */
  #rest: Buffer | undefined

  constructor(from: Readable, edge: StreamEdge = {}) {
    super({ highWaterMark: 0 })
    this.#from = from
    this.#edge = edge
    if (edge.limit?.isLimited === true) {
      this.#limit = edge.limit
      this.#destroyed = new AbortController()
    }
    this.on('error', () => undefined)
    edge.signal?.addEventListener('abort', this.#abort, { once: true })
    this.follow(from)
  }

  /** Whether the consumer waits for a chunk. */
  protected get isAwaited(): boolean {
    return this.#isAwaited
  }

  /** Goes on with the bytes of this stream. */
  protected follow(from: Readable): void {
    this.#from = from
    if (this.#isStarted) this.#listen()
    finished(from, { writable: false }, (error) => {
      if (this.destroyed) return
      if (error) this.failed(error)
      else if (this.#limit && !this.#isAwaited) this.#hasEnded = true
      else this.push(null)
    })
  }

  /** The stream that is passed on has failed. */
  protected failed(error: Error): void {
    this.destroy(this.#failure(error))
  }

  #failure(error: unknown): Error {
    return this.#edge.failed?.(error) ?? (error as Error)
  }

  #listen(): void {
    const from = this.#from
    from.on('readable', () => {
      if (this.#isAwaited && from === this.#from) this.pass()
    })
  }

  override _read(): void {
    if (!this.#isStarted) {
      this.#isStarted = true
      this.#listen()
    }
    this.pass()
  }

  /** Passes the next chunk on, as soon as there is one. */
  protected pass(): void {
    const chunk = this.#rest ?? this.#next()
    this.#isAwaited = chunk === null
    if (chunk === null) {
      if (this.#hasEnded) this.push(null)
    } else if (this.#limit) void this.#passLimited(chunk, this.#limit)
    else this.passing(chunk)
  }

  #next(): Buffer | null {
    for (;;) {
      const chunk = this.#from.read() as Buffer | null
      // A stream in object mode can have empty chunks.
      if (chunk?.length !== 0) return chunk
    }
  }

  async #passLimited(chunk: Buffer, limit: SpeedLimit): Promise<void> {
    const part = chunk.subarray(0, limit.chunkSize)
    this.#rest = part.length < chunk.length ? chunk.subarray(part.length) : undefined
    try {
      await limit.acquire(part.length, this.#destroyed?.signal)
      this.passing(part)
    } catch (error) {
      if (!this.destroyed) this.destroy(this.#failure(error))
    }
  }

  /** Passes a chunk on. Subclasses count it. */
  protected passing(chunk: Buffer): void {
    this.push(chunk)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#edge.signal?.removeEventListener('abort', this.#abort)
    this.#destroyed?.abort()
    this.#from.destroy()
    done(error)
  }
}

type FileOperation = 'read' | 'write' | 'close'

/** The calls that follow changes of a handle. */
export interface HandleChanges {
  /** Called before each `write` and `truncate`. */
  readonly changing: () => Awaitable<void>
  /** Called before `commit`. */
  readonly committing: () => void
  /** Called with the stored entry after `commit`. Returns the entry that `commit` resolves to, or its error. */
  readonly committed: (stored: Entry, attributes: Attributes) => Awaitable<Entry>
  /** Called after `close` and after `commit`, also if they reject. */
  readonly ended: () => void
}

/** The calls that measure a handle. */
export interface HandleMeter {
  /** Called with the number of bytes after each read and write that succeeds. */
  readonly didRead: (bytes: number) => void
  readonly didWrite: (bytes: number) => void
  /** Called before `commit`. */
  readonly committing: () => void
  /** Called with the error of each call. */
  readonly failed: (error: unknown) => void
  /** Called after `close`, also if it rejects. */
  readonly closed: () => void
}

type Optional<Parts> = { readonly [Part in keyof Parts]?: Parts[Part] | undefined }

/**
 * The functions that the calls of a handle pass, each in this order: `check`, `limits`, `changing` or `committing`,
 * `call` or `staged`, `committed`, `didRead` or `didWrite`. An error passes `failed`. `closed` and `ended` are called
 * at the end.
 */
export interface FileEdge extends Optional<HandleChanges>, Optional<Omit<HandleMeter, 'committing' | 'failed'>> {
  /** Called before every call except `close`. If it throws, the call rejects with that error. */
  readonly check?: (() => void) | undefined
  /** Reads and writes wait for these, until one of the signals aborts or the handle is closed. */
  readonly limits?: FileLimits | undefined
  /** Makes a call of the handle: by default at once. */
  readonly call?: (<T>(op: FileOperation, work: () => Promise<T>) => Promise<T>) | undefined
  /**
   * Returns the `commit` and `close` of a handle that stages a file. `close`: closes the handle itself. Default: both
   * are made as every other call.
   */
  readonly staged?: ((close: () => Promise<void>) => EndingHandle) | undefined
  /** Converts the error of a call. It is given the reason of a signal of `limits` for the error `aborted`. */
  readonly failed?: ((error: unknown, op: FileOperation) => unknown) | undefined
}

interface FileLimits {
  readonly reading: SpeedLimit
  readonly writing: SpeedLimit
  readonly signals: readonly (AbortSignal | undefined)[]
}

/** A handle with the same methods as `file`, each of which passes the edge. */
export function passedFile(file: WritableFile, edge: FileEdge): WritableFile
export function passedFile(file: OpenFile, edge: FileEdge): OpenFile
export function passedFile(file: OpenFile, edge: FileEdge): OpenFile {
  const { check, didRead, closed, ended, call = atOnce } = edge
  const failed = failureOf(edge)
  const throttle = throttleOf(edge.limits)
  const staged = edge.staged?.(() => call('close', () => file.close()))
  const passed: PassedFile = {
    entry: file.entry,
    read: async (into, position) => {
      try {
        check?.()
        if (throttle) await throttle.reading(into.length)
        const bytes = await call('read', () => file.read(into, position))
        didRead?.(bytes)
        return bytes
      } catch (error) {
        throw failed(error, 'read')
      }
    },
    close: async () => {
      try {
        await (staged ? staged.close() : call('close', () => file.close()))
      } catch (error) {
        throw failed(error, 'close')
      } finally {
        throttle?.end()
        closed?.()
        ended?.()
      }
    },
  }
  const preferredReadSize = throttle?.preferredReadSize(file) ?? file.preferredReadSize
  if (preferredReadSize !== undefined) passed.preferredReadSize = preferredReadSize
  if (file.write || file.truncate || file.sync || file.commit) addWrites(passed, file, edge, throttle, staged)
  return passed
}

type PassedFile = { -readonly [Key in keyof OpenFile]: OpenFile[Key] }

/** Adds those methods of `file` that only a handle for writing has. */
function addWrites(
  passed: PassedFile,
  file: OpenFile,
  edge: FileEdge,
  throttle: Throttle | undefined,
  staged: EndingHandle | undefined,
): void {
  const { check, changing, committing, committed, didWrite, ended, call = atOnce } = edge
  const failed = failureOf(edge)
  const [write, truncate] = [file.write?.bind(file), file.truncate?.bind(file)]
  const [sync, commit] = [file.sync?.bind(file), file.commit?.bind(file)]
  const checked = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      check?.()
      return await work()
    } catch (error) {
      throw failed(error, 'write')
    }
  }
  if (write) {
    passed.write = (from, position) =>
      checked(async () => {
        const bytes = from.reduce((sum, { length }) => sum + length, 0)
        if (throttle) await throttle.writing(bytes)
        // Without a pause: the order of writes is kept.
        const checking = changing?.()
        if (checking) await checking
        await call('write', () => write(from, position))
        didWrite?.(bytes)
      })
  }
  if (truncate) {
    passed.truncate = (size) =>
      checked(async () => {
        await changing?.()
        await call('write', () => truncate(size))
      })
  }
  if (sync) passed.sync = () => checked(() => call('write', sync))
  if (commit) {
    passed.commit = async (attributes = {}) => {
      try {
        const publish = () => call('write', () => commit(attributes))
        const stored = await checked(() => {
          committing?.()
          return staged ? staged.commit(publish) : publish()
        })
        return committed ? await committed(stored, attributes) : stored
      } finally {
        ended?.()
      }
    }
  }
}

/** Returns what converts the errors of calls. */
function failureOf({ failed, limits }: FileEdge) {
  return (error: unknown, op: FileOperation): unknown => {
    const reason = limits?.signals.reduce(withReason, error) ?? error
    return failed ? failed(reason, op) : reason
  }
}

const atOnce = <T>(_: FileOperation, work: () => Promise<T>): Promise<T> => work()

/** The limits that the calls of a handle wait for. */
type Throttle = NonNullable<ReturnType<typeof throttleOf>>

/** Undefined if there is no limit now. */
function throttleOf(limits: FileLimits | undefined) {
  if (!limits) return undefined
  const { reading, writing, signals } = limits
  if (!reading.isLimited && !writing.isLimited) return undefined
  const closed = new AbortController()
  const joined = joinSignals(...signals, closed.signal)
  return {
    reading: (bytes: number) => reading.acquire(bytes, joined.signal),
    writing: (bytes: number) => writing.acquire(bytes, joined.signal),
    preferredReadSize: (file: OpenFile) =>
      reading.isLimited ? Math.min(reading.chunkSize, file.preferredReadSize ?? Infinity) : undefined,
    end: () => {
      closed.abort()
      joined.release()
    },
  }
}
