/**
 * A file of a web server as a `Source`. If the connection breaks, the download resumes at the same offset, provided
 * that the server confirms that the file is unchanged. Size and minimum speed are limited.
 */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { Source } from '../contract/call-options.js'
import type { Egress } from '../contract/driver-env.js'
import { GatewayError } from '../base/errors.js'
import { fileNameOf } from './file-name.js'
import { connectionError, parseWebAddress } from '../net/web-address.js'
import { get, type OpenResponse } from './http-request.js'

export interface RemoteOptions {
  readonly egress: Egress
  /** Maximum size of the file in bytes. */
  readonly limit: number
  readonly signal: AbortSignal
  /**
   * Milliseconds without a response, or with fewer bytes of its body than `minBytesWithin`, until a connection is
   * closed.
   */
  readonly timeout?: number
}

/**
 * Consecutive retries that receive fewer bytes than `minBytesWithin` each. Limits servers that send a byte at a time.
 */
const maxTries = 4
const defaultTimeout = 60_000

export class RemoteFile {
  readonly name: string
  /** The size that the server announces, if any. */
  readonly size: number | undefined
  readonly #validator: string | undefined
  #response: IncomingMessage

  private constructor(
    private readonly address: URL,
    { url, response }: OpenResponse,
    private readonly options: RemoteOptions,
  ) {
    this.name = fileNameOf(response.headers['content-disposition'], url)
    this.size = announcedSize(response)
    this.#validator = validatorOf(response)
    this.#response = response
  }

  /** Sends the request; the body is not read yet. Rejects with `too_large` if the announced size exceeds the limit. */
  static async open(address: string, options: RemoteOptions): Promise<RemoteFile> {
    const url = parseWebAddress(address)
    const file = new RemoteFile(url, await get(url, options), options)
    try {
      file.#assertSize(file.size ?? 0)
      return file
    } catch (error) {
      file.close()
      throw error
    }
  }

  /** A source that can be read once. */
  get source(): Source {
    const { size } = this
    return { size, rereadable: false, read: async () => Readable.from(this.#bytes(), { objectMode: false }) }
  }

  /** Closes the connection. */
  close(): void {
    this.#response.destroy()
  }

  async *#bytes(): AsyncGenerator<Buffer> {
    const { timeout = defaultTimeout } = this.options
    let offset = 0
    let tries = 0
    // Bytes to skip because the server does not support ranges and sends the whole file again.
    let repeated = 0
    for (;;) {
      const reader = new MinimumSpeedReader(this.#response, timeout)
      let received = 0
      let failure: GatewayError | undefined
      try {
        for (let chunk = await reader.next(); chunk !== undefined; chunk = await reader.next()) {
          const fresh = chunk.subarray(repeated)
          repeated -= chunk.length - fresh.length
          if (fresh.length === 0) continue
          offset += fresh.length
          received += fresh.length
          if (received >= minBytesWithin(timeout)) tries = 0
          this.#assertSize(offset)
          yield fresh
        }
      } catch (error) {
        failure = connectionError(error)
        if (failure.code !== 'unavailable' && failure.code !== 'timeout') throw failure
      } finally {
        reader.close()
      }
      if (!failure && (this.size === undefined || this.size === offset)) return
      failure ??= this.#incomplete(offset)
      tries += 1
      if (tries > maxTries) throw offset === 0 ? failure : this.#incomplete(offset, failure)
      repeated = await this.#resume(offset, tries, failure)
    }
  }

  #assertSize(bytes: number): void {
    const { limit } = this.options
    if (bytes <= limit) return
    const megabytes = Math.floor(limit / 1024 / 1024)
    throw new GatewayError('too_large', {
      reason: `the file is larger than ${megabytes} MB (offline_download_size_limit)`,
    })
  }

  #incomplete(offset: number, cause?: unknown): GatewayError {
    const reason =
      this.size === undefined
        ? `the connection broke after ${offset} bytes`
        : `the server announced ${this.size} bytes and sent ${offset}`
    return new GatewayError('unavailable', { reason, cause })
  }

  /**
   * Requests the remaining bytes (RFC 9110 §13.1.5, §14). Resolves to the number of bytes to skip before them. Rejects
   * if the server does not confirm that the file is unchanged.
   */
  async #resume(offset: number, tries: number, cause: GatewayError): Promise<number> {
    const { signal, timeout = defaultTimeout } = this.options
    if (offset > 0 && this.#validator === undefined) throw this.#incomplete(offset, cause)
    await delay(Math.min(250 * 2 ** (tries - 1), timeout), undefined, { signal })
    const headers = offset === 0 ? {} : { range: `bytes=${offset}-`, 'if-range': this.#validator }
    try {
      const { response } = await get(this.address, { ...this.options, headers }, [200, 206, 416])
      this.#response = response
    } catch (error) {
      const failure = connectionError(error)
      // The next read of the broken response fails immediately, and counts as a try.
      if (failure.code === 'unavailable' || failure.code === 'timeout') return 0
      throw failure
    }
    return this.#bytesToSkip(offset, cause)
  }

  #bytesToSkip(offset: number, cause: GatewayError): number {
    const response = this.#response
    const { statusCode, headers } = response
    const isUnchanged = offset === 0 || validatorOf(response) === this.#validator
    if (statusCode === 200 && isUnchanged) return offset
    if (statusCode === 206) {
      const [, first, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers['content-range'] ?? '') ?? []
      const isRest =
        Number(first) === offset && (total === '*' || this.size === undefined || Number(total) === this.size)
      if (isRest && (isUnchanged || strongTag(response) === undefined)) return 0
    }
    response.destroy()
    if (statusCode === 416) throw this.#incomplete(offset, cause)
    throw new GatewayError('unavailable', { reason: 'the file changed while it was fetched', cause })
  }
}

function announcedSize({ headers }: IncomingMessage): number | undefined {
  const length = headers['content-length']
  return length === undefined || headers['transfer-encoding'] !== undefined ? undefined : Number(length)
}

/** The validator for If-Range: a strong entity tag, or a strong date by RFC 9110 §8.8.2.2. */
function validatorOf(response: IncomingMessage): string | undefined {
  const tag = strongTag(response)
  if (tag !== undefined) return tag
  const { 'last-modified': modified, date } = response.headers
  if (modified === undefined || date === undefined) return undefined
  return Date.parse(date) - Date.parse(modified) >= 1000 ? modified : undefined
}

function strongTag({ headers: { etag } }: IncomingMessage): string | undefined {
  return etag?.startsWith('"') === true ? etag : undefined
}

/** Minimum average speed over one timeout of waiting, in bytes per second. */
const minBytesPerSecond = 1024
/** Samples within one timeout. */
const samplesPerTimeout = 20

/** The bytes that must arrive within `timeout` milliseconds of waiting. */
function minBytesWithin(timeout: number): number {
  return Math.ceil((timeout * minBytesPerSecond) / 1000)
}

/** Reads a stream chunk by chunk, and destroys it if it is slower than the minimum speed. */
class MinimumSpeedReader {
  readonly #chunks: AsyncIterator<Buffer>
  readonly #timer: NodeJS.Timeout
  readonly #minBytes: number
  #isWaiting = false
  #waitingSamples = 0
  #received = 0

  /** `timeout`: in milliseconds. Only time in which `next` waits counts: a slow reader is not the sender's fault. */
  constructor(
    private readonly stream: Readable,
    timeout: number,
  ) {
    this.#chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>
    this.#minBytes = minBytesWithin(timeout)
    this.#timer = setInterval(() => this.#sample(), timeout / samplesPerTimeout).unref()
  }

  /** The next chunk; undefined at the end. Rejects with `timeout` if the stream is too slow. */
  async next(): Promise<Buffer | undefined> {
    this.#isWaiting = true
    try {
      const next = await this.#chunks.next()
      if (next.done === true) return undefined
      this.#received += next.value.length
      return next.value
    } finally {
      this.#isWaiting = false
    }
  }

  /** Stops the timer and destroys the stream. */
  close(): void {
    clearInterval(this.#timer)
    this.stream.destroy()
  }

  #sample(): void {
    if (!this.#isWaiting) return
    this.#waitingSamples += 1
    if (this.#waitingSamples < samplesPerTimeout) return
    if (this.#received < this.#minBytes) {
      this.stream.destroy(new GatewayError('timeout', { reason: 'the server sends next to nothing' }))
    }
    this.#waitingSamples = 0
    this.#received = 0
  }
}
