/**
 * Streams of files of which the backend sends too much, as it cannot send a range, or too little: one that it cuts goes
 * on with a further request for the rest.
 */
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { joinSignals } from '../../base/cancellation.js'
import type { ByteRange } from '../../contract/call-options.js'
import { contentVersion, type Entry } from '../../contract/entry.js'
import { GatewayError, isGatewayError, toGatewayError } from '../../base/errors.js'
import { PassedStream } from '../edge.js'

/** Maximum number of consecutive requests after which no byte has arrived. */
const maxFutile = 4
/** Requests for the rest of a stream, in addition to one for so many bytes that have arrived. */
const freeRequests = 16
const bytesPerRequest = 256 * 1024
/** Milliseconds before the second request after which nothing has arrived; doubled for each further one. */
const initialDelay = 500
/** Maximum number of seconds by which the backend may delay a request; the stream fails if it wants more. */
const maxWait = 30

/**
 * Resolves to `stream`, which was opened by a name, if that still leads to the content of `entry`; otherwise destroys
 * it, and rejects with `busy`. The content of two files must not be mixed.
 */
export async function ofSameContent(stream: Readable, entry: Entry, stat: () => Promise<Entry>): Promise<Readable> {
  stream.on('error', () => undefined) // it may fail meanwhile: its reader gets the error
  try {
    if (contentVersion(await stat()) === contentVersion(entry)) return stream
    throw new GatewayError('busy', { reason: 'the file changed while it was read' })
  } catch (error) {
    stream.destroy()
    throw error
  }
}

interface ReadPlan {
  /**
   * The position in the file at which the stream begins. `end`: the position after its last byte, at most the size of
   * the file.
   */
  readonly start: number
  readonly end: number
  /** Opens a stream of the rest, which is aborted by the signal. */
  readonly open: (range: ByteRange, signal: AbortSignal) => Promise<Readable>
  readonly signal: AbortSignal | undefined
}

/**
 * A stream of the same bytes as the first one. If that fails with `unavailable` or `timeout`, without a detail, before
 * its end, the rest is requested anew, while such requests bring bytes; then it fails with the last error.
 */
export class ContinuedRead extends PassedStream {
  #position: number
  #requests = 0
  #futile = 0
  /**
   * The failure of the current stream. The rest is requested only when it is read: a slow reader may outlast many
   * connections.
   */
  #failure: GatewayError | undefined
  readonly #ended = new AbortController()
  #joined: ReturnType<typeof joinSignals> | undefined

  constructor(
    first: Readable,
    private readonly plan: ReadPlan,
  ) {
    super(first)
    this.#position = plan.start
  }

  protected override passing(chunk: Buffer): void {
    this.#position += chunk.length
    this.#futile = 0
    super.passing(chunk)
  }

  protected override pass(): void {
    super.pass()
    if (this.isAwaited && this.#failure) void this.#goOn(this.#failure)
  }

  protected override failed(error: Error): void {
    if (!this.#mayContinue(error)) this.destroy(error)
    else if (this.isAwaited) void this.#goOn(error)
    else this.#failure = error
  }

  #mayContinue(error: unknown): error is GatewayError {
    return (
      isGatewayError(error, 'unavailable', 'timeout') &&
      error.detail === undefined &&
      (error.retryAfter ?? 0) <= maxWait &&
      this.#position < this.plan.end &&
      this.#futile < maxFutile &&
      this.#requests < freeRequests + (this.#position - this.plan.start) / bytesPerRequest
    )
  }

  async #goOn(cause: GatewayError): Promise<void> {
    const { end, open, signal } = this.plan
    this.#failure = undefined
    this.#joined ??= joinSignals(signal, this.#ended.signal)
    const until = this.#joined.signal
    try {
      for (let reason = cause; ;) {
        const delay = this.#futile === 0 ? 0 : initialDelay * 2 ** (this.#futile - 1)
        this.#requests++
        this.#futile++
        await sleep(Math.max(delay, (reason.retryAfter ?? 0) * 1000), undefined, { signal: until })
        try {
          const stream = await open({ offset: this.#position, length: end - this.#position }, until)
          if (this.destroyed) {
            stream.destroy()
            return
          }
          this.follow(stream)
          this.pass()
          return
        } catch (error) {
          if (!this.#mayContinue(error)) throw error
          reason = error
        }
      }
    } catch (error) {
      this.destroy(toGatewayError(error))
    }
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#ended.abort()
    this.#joined?.release()
    super._destroy(error, done)
  }
}

/** Returns a range of a stream that starts at byte 0. Bytes after the range are not read. */
export function streamRange(whole: Readable, range: ByteRange): Readable {
  const cut = Readable.from(bytesOf(whole, range), { objectMode: false })
  // The whole stream may fail before the range is read.
  whole.once('error', (error) => cut.destroy(error))
  return cut.once('close', () => whole.destroy())
}

async function* bytesOf(whole: Readable, range: ByteRange): AsyncGenerator<Buffer> {
  let skip = range.offset
  let left = range.length ?? Number.POSITIVE_INFINITY
  // If the iterator destroyed the stream on an early return, it would emit an error first. The caller destroys
  // the stream instead.
  for await (const chunk of whole.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    const from = Math.min(skip, chunk.length)
    skip -= from
    const bytes = chunk.subarray(from, Math.min(chunk.length, from + left))
    left -= bytes.length
    if (bytes.length > 0) yield bytes
    if (left === 0) return
  }
}
