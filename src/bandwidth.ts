/**
 * How fast bytes may go, as the settings say: to and from clients, and to and from backends that lie behind a network. All who go
 * one way share its limit, and take turns.
 */
import { pipeline, Transform, type Readable } from 'node:stream'
import type { OpenFile, Source } from './driver.js'
import { GatewayError } from './errors.js'
import { hooked } from './handles.js'
import type { Settings } from './settings.js'

/** Pieces that are let through in a second by one who is alone. */
const piecesPerSecond = 8
const smallestPiece = 1024

export class SpeedLimit {
  readonly #bytesPerSecond: () => number
  /** In milliseconds: when the next bytes may go. */
  #free = 0
  readonly #waiting = new Set<() => void>()

  /** Infinity: none. */
  constructor(bytesPerSecond: () => number) {
    this.#bytesPerSecond = bytesPerSecond
  }

  get stands(): boolean {
    return this.#bytesPerSecond() < Infinity
  }

  /** Bytes that are well asked for at once. */
  get piece(): number {
    return Math.max(smallestPiece, Math.ceil(this.#bytesPerSecond() / piecesPerSecond))
  }

  /** Resolves when it is the turn of so many bytes; rejects with `aborted`. */
  async pass(bytes: number, signal?: AbortSignal): Promise<void> {
    for (let left = bytes; left > 0;) {
      if (signal?.aborted) throw new GatewayError('aborted')
      const rate = this.#bytesPerSecond()
      if (rate === Infinity) return
      const turn = Math.min(left, this.piece)
      const now = performance.now()
      const begin = Math.max(now, this.#free)
      this.#free = begin + (turn / rate) * 1000
      // A limit that changed while one waited is asked anew.
      if (begin > now && !(await this.#wait(begin - now, signal))) continue
      left -= turn
    }
  }

  /** The same bytes, no faster; ends with an error where they do, and ends them where nobody wants more. */
  stream(bytes: Readable): Readable {
    if (!this.stands) return bytes
    const gone = new AbortController()
    const letThrough = async (chunk: Buffer): Promise<void> => {
      for (let at = 0; at < chunk.length;) {
        const part = chunk.subarray(at, at + this.piece)
        await this.pass(part.length, gone.signal)
        slow.push(part)
        at += part.length
      }
    }
    const slow = new Transform({
      highWaterMark: smallestPiece,
      transform: (chunk: Buffer, _encoding, done) => {
        letThrough(chunk).then(() => done(), done)
      },
      destroy: (error, done) => {
        gone.abort()
        done(error)
      },
    })
    return pipeline(bytes, slow, () => undefined)
  }

  source(source: Source): Source {
    if (!this.stands) return source
    return {
      size: source.size,
      modified: source.modified,
      hashes: source.hashes,
      rereadable: source.rereadable,
      read: async (range, options) => this.stream(await source.read(range, options)),
    }
  }

  /** Called when what it asks for its bytes per second tells something else: those who wait ask again. */
  changed(): void {
    this.#free = 0
    for (const wake of this.#waiting) wake()
  }

  /** Whether it was waited for as long as that. */
  #wait(milliseconds: number, signal: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (whole: boolean) => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        signal?.removeEventListener('abort', wake)
        resolve(whole)
      }
      const wake = () => end(false)
      const timer = setTimeout(end, milliseconds, true)
      this.#waiting.add(wake)
      signal?.addEventListener('abort', wake, { once: true })
    })
  }
}

export class Bandwidth {
  readonly toClients: SpeedLimit
  readonly fromClients: SpeedLimit
  readonly toBackends: SpeedLimit
  readonly fromBackends: SpeedLimit
  readonly #unsubscribe: () => void
  #closed = false

  constructor(settings: Pick<Settings, 'number' | 'onChange'>) {
    const limit = (key: string) =>
      new SpeedLimit(() => {
        const kibibytes = this.#closed ? 0 : settings.number(key)
        return kibibytes > 0 ? kibibytes * 1024 : Infinity
      })
    this.toClients = limit('max_client_download_speed')
    this.fromClients = limit('max_client_upload_speed')
    this.toBackends = limit('max_server_upload_speed')
    this.fromBackends = limit('max_server_download_speed')
    this.#unsubscribe = settings.onChange(() => this.#changed())
  }

  /** Whoever waits goes on. */
  close(): void {
    this.#closed = true
    this.#unsubscribe()
    this.#changed()
  }

  #changed(): void {
    for (const limit of [this.toClients, this.fromClients, this.toBackends, this.fromBackends]) limit.changed()
  }
}

/** A way without limits. */
export const unlimited = new SpeedLimit(() => Infinity)

/** The file, read and written no faster than that. */
export function atSpeed(file: OpenFile, reading: SpeedLimit, writing: SpeedLimit): OpenFile {
  if (!reading.stands && !writing.stands) return file
  return {
    ...hooked(file, { reading: (bytes) => reading.pass(bytes), writing: (bytes) => writing.pass(bytes) }),
    ...(reading.stands && { atOnce: Math.min(reading.piece, file.atOnce ?? Infinity) }),
  }
}
