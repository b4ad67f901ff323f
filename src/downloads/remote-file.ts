/**
 * A file of a web server as a source: its bytes come as one stream, whatever breaks in between. A connection that breaks is taken up
 * again where it broke, as long as the server says that it is the same file; how much comes, and how slowly, is bounded.
 */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { Egress, Source } from '../driver.js'
import { GatewayError } from '../errors.js'
import { fileNameOf } from './file-name.js'
import { connectionFailure, get, webAddress, type Answer } from './http-request.js'
import { leastBytes, PatientReader } from './patient-reader.js'

export interface RemoteOptions {
  readonly egress: Egress
  /** Bytes that a file may have. */
  readonly limit: number
  readonly signal: AbortSignal
  /** Milliseconds without an answer, or with less than `leastBytes` of one, after which a connection is given up. */
  readonly patience?: number
}

/**
 * Connections one after the other, after the first, that bring less than `leastBytes` each: a byte now and then holds nobody up
 * for ever.
 */
const mostTries = 4
const usualPatience = 60_000

export class RemoteFile {
  readonly name: string
  /** As the server announces it; undefined where it does not. */
  readonly size: number | undefined
  readonly #validator: string | undefined
  #response: IncomingMessage

  private constructor(
    private readonly address: URL,
    { url, response }: Answer,
    private readonly options: RemoteOptions,
  ) {
    this.name = fileNameOf(response.headers['content-disposition'], url)
    this.size = announced(response)
    this.#validator = validatorOf(response)
    this.#response = response
  }

  /** Asks for the file; its bytes wait. Rejects with `too_large` for one that is announced as larger than the limit. */
  static async open(address: string, options: RemoteOptions): Promise<RemoteFile> {
    const url = webAddress(address)
    const file = new RemoteFile(url, await get(url, options), options)
    try {
      file.#assertSize(file.size ?? 0)
      return file
    } catch (error) {
      file.close()
      throw error
    }
  }

  /** To be read once. */
  get source(): Source {
    const { size } = this
    return { size, rereadable: false, read: async () => Readable.from(this.#bytes(), { objectMode: false }) }
  }

  /** Ends the connection, if there still is one. */
  close(): void {
    this.#response.destroy()
  }

  async *#bytes(): AsyncGenerator<Buffer> {
    const { patience = usualPatience } = this.options
    let at = 0
    let tries = 0
    // Bytes that come again, of a server that sends nothing but the whole.
    let again = 0
    for (;;) {
      const reader = new PatientReader(this.#response, patience)
      let came = 0
      let broken: GatewayError | undefined
      try {
        for (let chunk = await reader.next(); chunk !== undefined; chunk = await reader.next()) {
          const fresh = chunk.subarray(again)
          again -= chunk.length - fresh.length
          if (fresh.length === 0) continue
          at += fresh.length
          came += fresh.length
          if (came >= leastBytes(patience)) tries = 0
          this.#assertSize(at)
          yield fresh
        }
      } catch (error) {
        broken = connectionFailure(error)
        if (broken.code !== 'unavailable' && broken.code !== 'timeout') throw broken
      } finally {
        reader.close()
      }
      if (!broken && (this.size === undefined || this.size === at)) return
      broken ??= this.#short(at)
      tries += 1
      if (tries > mostTries) throw at === 0 ? broken : this.#short(at, broken)
      again = await this.#takeUp(at, tries, broken)
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

  #short(at: number, cause?: unknown): GatewayError {
    const reason =
      this.size === undefined
        ? `the connection broke after ${at} bytes`
        : `the server announced ${this.size} bytes and sent ${at}`
    return new GatewayError('unavailable', { reason, cause })
  }

  /**
   * Asks for the rest (RFC 9110 §13.1.5, §14); resolves to how many bytes come again before it. What cannot be told to be of the same
   * file is not put together.
   */
  async #takeUp(at: number, tries: number, broken: GatewayError): Promise<number> {
    const { signal, patience = usualPatience } = this.options
    if (at > 0 && this.#validator === undefined) throw this.#short(at, broken)
    await delay(Math.min(250 * 2 ** (tries - 1), patience), undefined, { signal })
    const headers = at === 0 ? {} : { range: `bytes=${at}-`, 'if-range': this.#validator }
    try {
      const { response } = await get(this.address, { ...this.options, headers }, [200, 206, 416])
      this.#response = response
    } catch (error) {
      const failure = connectionFailure(error)
      // The next look at the broken response fails at once, and is counted.
      if (failure.code === 'unavailable' || failure.code === 'timeout') return 0
      throw failure
    }
    return this.#repeated(at, broken)
  }

  #repeated(at: number, broken: GatewayError): number {
    const response = this.#response
    const { statusCode, headers } = response
    const isSame = at === 0 || validatorOf(response) === this.#validator
    if (statusCode === 200 && isSame) return at
    if (statusCode === 206) {
      const [, first, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers['content-range'] ?? '') ?? []
      const isRest = Number(first) === at && (total === '*' || this.size === undefined || Number(total) === this.size)
      if (isRest && (isSame || strongTag(response) === undefined)) return 0
    }
    response.destroy()
    if (statusCode === 416) throw this.#short(at, broken)
    throw new GatewayError('unavailable', { reason: 'the file changed while it was fetched', cause: broken })
  }
}

function announced({ headers }: IncomingMessage): number | undefined {
  const length = headers['content-length']
  return length === undefined || headers['transfer-encoding'] !== undefined ? undefined : Number(length)
}

/** What tells two states of the file apart, for If-Range: a strong entity tag, or a time that is strong by RFC 9110 §8.8.2.2. */
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
