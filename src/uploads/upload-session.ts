/**
 * A file that arrives in chunks, each in a request of its own. The chunks are passed on in order to one `write` of the
 * tree, without being stored in between: only the request of the next chunk is read, the others wait unread. The file
 * is published when the client completes the upload: until then the last bytes are withheld from the storage.
 */
import { randomBytes } from 'node:crypto'
import type { Readable } from 'node:stream'
import { crc32 } from 'node:zlib'
import { settlesWithin, untilAborted } from '../base/cancellation.js'
import type { ByteRange, Source } from '../contract/call-options.js'
import { hashNames, type Hashes } from '../contract/entry.js'
import { GatewayError, isGatewayError, isTransient, toGatewayError } from '../base/errors.js'
import type { Path } from '../base/path.js'
import { verifiedSource } from '../contract/sources.js'
import type { SessionUpload } from '../transfer/task-uploads.js'
import type { VirtualFs } from '../tree/virtual-fs.js'
import { ChunkFeed } from './chunk-feed.js'

/** The file, as the client announces it. */
export interface AnnouncedFile {
  /** Relative to the base of the principal. */
  readonly path: Path
  /** The size in bytes; more than 0. */
  readonly size: number
  readonly modified?: Date | undefined
  /** Digests of the whole content, which is compared with them. */
  readonly hashes?: Hashes | undefined
  /** SHA-256 of the first MiB, or of all of a smaller file. */
  readonly headSha256?: string | undefined
  /** Rejects with `exists` if the name is taken. */
  readonly createOnly: boolean
  /** The password of the folder. */
  readonly password?: string | undefined
}

/**
 * 'receiving': chunks are expected. 'failed_retriable': the next attempt may succeed. 'failed_permanent': it would fail
 * for the same reason.
 */
type UploadState = 'receiving' | 'completed' | 'failed_retriable' | 'failed_permanent' | 'aborted'

/** Chunks, from the next one on, whose requests may wait for their turn. */
const chunkWindow = 8

/** The times of an upload, in milliseconds. */
export interface UploadTimes {
  /** Milliseconds for which a request waits while nothing arrives, or if its chunk is outside the window. */
  readonly hold: number
  /** Maximum milliseconds for which a request waits: proxies give up after a minute. */
  readonly maxHold: number
  /** After this time without a byte another request may take over its chunk: its connection may be lost. */
  readonly takeOver: number
}

/** The request of one chunk. */
interface Receipt {
  readonly index: number
  /** Bytes of the chunk. */
  readonly length: number
  received: number
  /** Bytes that an earlier request for the same chunk has brought: they are compared, and not passed on again. */
  known: number
  /** The checksum of the received bytes, up to `known`. */
  checksum: number
  cancel: (error: GatewayError) => void
}

/** Milliseconds that a session waits for its write to end when it is aborted. */
const endTimeout = 10_000

export class UploadSession {
  readonly id = randomBytes(16).toString('base64url')
  readonly totalChunks: number
  #state: UploadState = 'receiving'
  #failure: GatewayError | undefined
  #attempt = 0
  /** Chunks from the start that were received completely. */
  #frontier = 0
  /** Bytes from the start that were received, of the next chunk too. */
  #position = 0
  /** CRC-32 of the received bytes of the next chunk; undefined if they are those of an earlier attempt. */
  #checksum: number | undefined = 0
  /** The last bytes of the file. */
  #last: Buffer | undefined
  /** The source that the storage reads; undefined until it reads. */
  #feed: ChunkFeed | undefined
  #writing: Promise<void> = Promise.resolve()
  #controller = new AbortController()
  #isCompleting = false
  readonly #receipts = new Map<number, Receipt>()
  /** The request whose body is being read. */
  #active: Receipt | undefined
  #lastReceived = performance.now()
  /** Waiters for a change of the session. */
  readonly #waiting = new Set<() => void>()

  constructor(
    readonly userId: number,
    public file: AnnouncedFile,
    readonly chunkSize: number,
    private readonly upload: SessionUpload,
    private readonly times: UploadTimes,
  ) {
    this.totalChunks = Math.ceil(file.size / chunkSize)
  }

  get state(): UploadState {
    return this.#state
  }

  /** The error of the upload; undefined while it has not failed. */
  get failure(): GatewayError | undefined {
    return this.#failure
  }

  /** The number of the current attempt, counted from 1. */
  get attempt(): number {
    return this.#attempt
  }

  get frontier(): number {
    return this.#frontier
  }

  /** Bytes of the chunks that were received completely. */
  get receivedBytes(): number {
    return Math.min(this.#frontier * this.chunkSize, this.file.size)
  }

  /** Bytes that the storage has taken. */
  get storedBytes(): number {
    if (this.#state === 'completed') return this.file.size
    return this.#position - (this.#last?.length ?? 0) - (this.#feed?.stream.readableLength ?? 0)
  }

  /** Milliseconds since the last byte arrived; 0 while the session works on a request. */
  get idle(): number {
    const isBusy = this.#receipts.size > 0 || (this.#isCompleting && this.#state === 'receiving')
    return isBusy ? 0 : performance.now() - this.#lastReceived
  }

  /** Keeps the session from being idle. */
  touch(): void {
    this.#lastReceived = performance.now()
  }

  /**
   * Starts the first attempt, or another one after a failure. Resolves when the storage is ready to receive, has
   * finished or has failed, or after a time; `receivedBytes` is then what it still has of earlier attempts.
   */
  async start(fs: VirtualFs, file: AnnouncedFile, patience: number): Promise<void> {
    this.file = file
    this.#attempt++
    this.#state = 'receiving'
    this.#failure = undefined
    this.#isCompleting = false
    this.#restartAt(0)
    this.#controller = new AbortController()
    const { path, createOnly, modified, password } = file
    // The digest of a file that is read from the middle would be unknown.
    const resumable = file.hashes === undefined ? this.upload : undefined
    const options = { createOnly, modified, password, parents: true, resumable, signal: this.#controller.signal }
    const read: Source['read'] = async (range) => this.#read(range)
    const source = verifiedSource({ size: file.size, modified, hashes: file.hashes, rereadable: false, read })
    this.#writing = fs.write(path, source, options).then(
      () => this.#end('completed'),
      (error: unknown) => this.#fail(toGatewayError(error)),
    )
    const isReady = async () => {
      while (!this.#feed && this.#state === 'receiving') await this.#nextChange()
    }
    await settlesWithin(isReady(), patience)
  }

  #read({ offset, length }: ByteRange = { offset: 0 }): Readable {
    if (this.#feed || length !== undefined) {
      throw new GatewayError('internal', { reason: 'an upload in chunks can be read once, to its end' })
    }
    this.#restartAt(offset)
    this.#feed = new ChunkFeed()
    this.#changed()
    return this.#feed.stream
  }

  /** The bytes before `offset` are stored. */
  #restartAt(offset: number): void {
    this.#feed = undefined
    this.#last = undefined
    this.#position = offset
    this.#frontier = Math.floor(offset / this.chunkSize)
    this.#checksum = offset % this.chunkSize === 0 ? 0 : undefined
    this.touch()
  }

  /**
   * Receives a chunk. `length`: that of the body, if it is known. `open`: begins to read the body. Resolves to false,
   * without reading the body, if the chunk was received before. Rejects with `invalid` if the session has no such
   * chunk, or the body has another length; with `busy` if another request sends the same chunk; with `throttled` if it
   * is not the turn of this chunk for too long; with `not_found` once the session is aborted; and with `aborted`.
   */
  async receive(
    index: number,
    length: number | undefined,
    open: () => Promise<Readable>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const receipt = this.#newReceipt(index)
    if (length !== undefined && length !== receipt.length) throw wrongLength(receipt, length)
    if (this.#state !== 'completed') this.#assertReceiving()
    if (index < this.#frontier) return false
    this.#takeOver(index)
    // The next chunk is what the others wait for.
    if (this.#receipts.size >= chunkWindow && index !== this.#frontier) throw tooManyChunks()
    this.#receipts.set(index, receipt)
    try {
      if (!(await this.#turn(index, signal))) return false
      this.#active = receipt
      receipt.known = this.#position - index * this.chunkSize
      await this.#receiveBody(receipt, await open())
      this.#frontier++
      this.#checksum = 0
      return true
    } finally {
      if (this.#active === receipt) this.#active = undefined
      if (this.#receipts.get(index) === receipt) this.#receipts.delete(index)
      this.#changed()
    }
  }

  #newReceipt(index: number): Receipt {
    if (!Number.isSafeInteger(index) || index < 0 || index >= this.totalChunks) {
      throw new GatewayError('invalid', { reason: `the upload has ${this.totalChunks} chunks, counted from 0` })
    }
    const length = Math.min(this.chunkSize, this.file.size - index * this.chunkSize)
    return { index, length, received: 0, known: 0, checksum: 0, cancel: () => undefined }
  }

  /** Ends an earlier request for the same chunk whose sender is silent. Rejects with `busy` if it is not. */
  #takeOver(index: number): void {
    const earlier = this.#receipts.get(index)
    if (!earlier) return
    const isSilent = performance.now() - this.#lastProgress > this.times.takeOver
    if (this.#active !== earlier || !isSilent) throw new GatewayError('busy', { reason: 'the chunk is being received' })
    this.#receipts.delete(index)
    earlier.cancel(new GatewayError('busy', { reason: 'another request sends the same chunk' }))
  }

  /** The time of the last byte; now, if the storage is what bytes wait for. */
  get #lastProgress(): number {
    return !this.#feed || this.#feed.isBlocked ? performance.now() : this.#lastReceived
  }

  /** Resolves to true when it is the turn of this chunk, and to false if it was received meanwhile. */
  async #turn(index: number, signal: AbortSignal): Promise<boolean> {
    const began = performance.now()
    for (;;) {
      this.#assertReceiving()
      if (index < this.#frontier) return false
      if (index === this.#frontier && this.#feed && !this.#active) return true
      const isInWindow = index < this.#frontier + chunkWindow
      const since = isInWindow ? Math.max(began, this.#lastProgress) : began
      const left = Math.min(since + this.times.hold, began + this.times.maxHold) - performance.now()
      if (left <= 0) throw tooManyChunks()
      await this.#nextChange(left, signal)
    }
  }

  #assertReceiving(): void {
    if (this.#state === 'receiving') return
    throw this.#failure ?? hasEnded()
  }

  /** Resolves when the whole body was passed on. */
  #receiveBody(receipt: Receipt, body: Readable): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (error: unknown) => {
        reject(toGatewayError(error))
        body.destroy()
      }
      receipt.cancel = fail
      const receive = (bytes: Buffer) => {
        try {
          if (!this.#accept(receipt, bytes, () => body.resume())) body.pause()
        } catch (error) {
          fail(error)
        }
      }
      const end = () => {
        if (receipt.received === receipt.length) resolve()
        else fail(wrongLength(receipt, receipt.received))
      }
      body.on('error', fail).on('data', receive).on('end', end)
      body.on('close', () => fail(new GatewayError('aborted', { reason: 'the request ended before its body' })))
    })
  }

  /** Returns false if the body has to wait until `resume`. */
  #accept(receipt: Receipt, bytes: Buffer, resume: () => void): boolean {
    // The body of a request that was replaced may still emit what it has read.
    if (this.#active !== receipt) return true
    this.touch()
    const known = Math.max(0, Math.min(receipt.known - receipt.received, bytes.length))
    receipt.received += bytes.length
    if (receipt.received > receipt.length) throw wrongLength(receipt, receipt.received)
    if (known > 0) this.#compare(receipt, bytes.subarray(0, known))
    return known === bytes.length || this.#pass(known === 0 ? bytes : bytes.subarray(known), resume)
  }

  /** Fails the session if the bytes are not those that an earlier request for the chunk has brought. */
  #compare(receipt: Receipt, bytes: Buffer): void {
    receipt.checksum = crc32(bytes, receipt.checksum)
    const isCompared = receipt.received >= receipt.known
    if (!isCompared || this.#checksum === undefined || receipt.checksum === this.#checksum) return
    const error = new GatewayError('invalid', { reason: 'the chunk has other bytes than before: the file has changed' })
    this.#fail(error)
    throw error
  }

  #pass(bytes: Buffer, resume: () => void): boolean {
    if (this.#checksum !== undefined) this.#checksum = crc32(bytes, this.#checksum)
    this.#position += bytes.length
    if (this.#position < this.file.size) return this.#feed?.push(bytes, resume) ?? true
    this.#last = bytes
    return true
  }

  /**
   * Publishes the file. Resolves when it is stored. Rejects with `invalid` if chunks are missing, with the error of the
   * storage, and with `aborted`; the upload then continues in the background. May be called again.
   */
  async complete(signal: AbortSignal): Promise<void> {
    if (this.#state === 'receiving' && !this.#isCompleting) {
      if (this.#frontier < this.totalChunks || !this.#feed || !this.#last) {
        const received = `${this.receivedBytes} of ${this.file.size} bytes received`
        throw new GatewayError('invalid', { reason: `cannot complete: ${received}` })
      }
      this.#isCompleting = true
      this.#feed.end(this.#last)
      this.#last = undefined
    }
    await untilAborted(this.#writing, signal)
    if (this.#state !== 'completed') this.#assertReceiving()
  }

  /**
   * Ends the session, and discards what the storage has received. If the file is being published, it may be
   * `completed`. Resolves when nothing of it remains, or after a time; the rest continues in the background.
   */
  async abort(): Promise<void> {
    if (this.#state !== 'completed') this.#state = 'aborted'
    this.#stop(hasEnded())
    const discarded = this.#writing.then(() => this.upload.discard())
    await settlesWithin(discarded, endTimeout)
  }

  #fail(error: GatewayError): void {
    if (this.#state !== 'receiving') return
    this.#failure = error
    const isRetriable = isTransient(error) || isGatewayError(error, 'unauthenticated', 'no_space', 'internal')
    this.#end(isRetriable ? 'failed_retriable' : 'failed_permanent')
  }

  #end(state: UploadState): void {
    this.#state = state
    if (state === 'completed') {
      this.#position = this.file.size
      this.#frontier = this.totalChunks
    }
    this.touch()
    this.#stop(this.#failure ?? hasEnded())
  }

  /** Ends the write and all requests. */
  #stop(error: GatewayError): void {
    this.#controller.abort()
    this.#feed?.cut()
    this.#last = undefined
    this.#active?.cancel(error)
    this.#changed()
  }

  #changed(): void {
    for (const wake of this.#waiting) wake()
  }

  /** Resolves after the next change, or after a time in milliseconds. Rejects with `aborted`. */
  #nextChange(time?: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = () => {
        clearTimeout(timer)
        this.#waiting.delete(end)
        signal?.removeEventListener('abort', end)
        if (signal?.aborted === true) reject(new GatewayError('aborted'))
        else resolve()
      }
      const timer = time === undefined ? undefined : setTimeout(end, time)
      this.#waiting.add(end)
      signal?.addEventListener('abort', end, { once: true })
      if (signal?.aborted === true) end()
    })
  }
}

/** Whether both are certainly the same content, so that the chunks of one continue the other. */
export function isSameFile(one: AnnouncedFile, other: AnnouncedFile): boolean {
  const digests = [
    [one.headSha256, other.headSha256],
    ...hashNames.map((name) => [one.hashes?.[name], other.hashes?.[name]]),
  ]
  const isAlike = one.size === other.size && one.createOnly === other.createOnly
  const isSameTime = one.modified !== undefined && one.modified.getTime() === other.modified?.getTime()
  const isSameContent =
    digests.some(([mine]) => mine !== undefined) && digests.every(([mine, theirs]) => mine === theirs)
  return isAlike && isSameTime && isSameContent
}

/** The error of a request for a session that is aborted. */
function hasEnded(): GatewayError {
  return new GatewayError('not_found', { reason: 'the upload has ended' })
}

function wrongLength({ index, length }: Receipt, received: number): GatewayError {
  return new GatewayError('invalid', { reason: `chunk ${index} has ${length} bytes, not ${received}` })
}

function tooManyChunks(): GatewayError {
  return new GatewayError('throttled', { reason: 'too many chunks are waiting, try again', retryAfter: 1 })
}
