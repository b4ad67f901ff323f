/**
 * Bandwidth limits from the settings: to and from clients, and to and from backends on the network. All transfers in
 * one direction share its limit.
 */
import type { Readable } from 'node:stream'
import type { Source } from '../contract/call-options.js'
import { GatewayError } from '../base/errors.js'
import type { Settings } from '../settings/settings.js'
import { PassedStream } from './edge.js'

/** Number of chunks per second of a transfer that has the limit to itself. */
const chunksPerSecond = 8
/** Minimum bytes of a chunk. */
const minChunk = 1024

export class SpeedLimit {
  readonly #bytesPerSecond: () => number
  /** The time, as of `performance.now()`, at which the next bytes may be sent. */
  #nextSlot = 0
  readonly #waiting = new Set<() => void>()

  /** `bytesPerSecond`: returns the current limit, or Infinity for none. */
  constructor(bytesPerSecond: () => number) {
    this.#bytesPerSecond = bytesPerSecond
  }

  /** Whether there is a limit now. */
  get isLimited(): boolean {
    return this.#bytesPerSecond() < Infinity
  }

  /** The recommended number of bytes per request or chunk. */
  get chunkSize(): number {
    return Math.max(minChunk, Math.ceil(this.#bytesPerSecond() / chunksPerSecond))
  }

  /** Resolves when this number of bytes may be transferred. Rejects with `aborted`. */
  async acquire(bytes: number, signal?: AbortSignal): Promise<void> {
    for (let left = bytes; left > 0;) {
      if (signal?.aborted) throw new GatewayError('aborted')
      const rate = this.#bytesPerSecond()
      if (rate === Infinity) return
      const chunk = Math.min(left, this.chunkSize)
      const now = performance.now()
      const start = Math.max(now, this.#nextSlot)
      this.#nextSlot = start + (chunk / rate) * 1000
      // If the limit has changed during the wait, compute the slot again.
      if (start > now && !(await this.#wait(start - now, signal))) continue
      left -= chunk
    }
  }

  /** Returns a stream that is limited, or `bytes` if there is no limit now. */
  stream(bytes: Readable): Readable {
    return this.isLimited ? new PassedStream(bytes, { limit: this }) : bytes
  }

  /** Returns a source whose streams are throttled. */
  source(source: Source): Source {
    if (!this.isLimited) return source
    return {
      size: source.size,
      modified: source.modified,
      hashes: source.hashes,
      rereadable: source.rereadable,
      read: async (range, options) => this.stream(await source.read(range, options)),
    }
  }

  /** To be called when `bytesPerSecond` returns a new value: waiting transfers compute their slots again. */
  recalculate(): void {
    this.#nextSlot = 0
    for (const wake of this.#waiting) wake()
  }

  /** Waits until the time has elapsed (true), or until the limit has changed or the signal aborts (false). */
  #wait(milliseconds: number, signal: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (hasElapsed: boolean) => {
        clearTimeout(timer)
        this.#waiting.delete(wake)
        signal?.removeEventListener('abort', wake)
        resolve(hasElapsed)
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

  /** Removes all limits. Waiting transfers continue immediately. */
  close(): void {
    this.#closed = true
    this.#unsubscribe()
    this.#changed()
  }

  #changed(): void {
    for (const limit of [this.toClients, this.fromClients, this.toBackends, this.fromBackends]) limit.recalculate()
  }
}

/** No limit. */
export const unlimited = new SpeedLimit(() => Infinity)
