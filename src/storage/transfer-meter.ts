/**
 * Measures every transfer of file content between a client or a task and a storage, and reports it once, when it ends
 * (docs/decisions/0020). A transfer is one stream or one open handle. A backend's own copies and downloads from a
 * direct URL do not pass through the gateway and are none. The progress of tasks is counted in the same way.
 */
import { EventEmitter } from 'node:events'
import type { Readable } from 'node:stream'
import type { OpenMode } from '../contract/capabilities.js'
import type { Source } from '../contract/call-options.js'
import type { Entry } from '../contract/entry.js'
import { GatewayError, toGatewayError, type ErrorCode } from '../base/errors.js'
import type { Holder } from '../base/fair-share.js'
import type { Path } from '../base/path.js'
import type { StorageRow } from '../database/tables/storages.js'
import type { Events } from './events.js'
import type { HandleMeter } from './edge.js'
import type { Storage } from './storage.js'

/** 'aborted': by the client, the task, or the end of the principal's session. */
type TransferOutcome = 'completed' | 'failed' | 'aborted'

export interface TransferEvent {
  /** The protocol of the client, or `task`. */
  readonly by: string
  readonly storage: StorageRow
  /** 'read': from the storage. */
  readonly direction: 'read' | 'write'
  readonly bytes: number
  readonly outcome: TransferOutcome
  readonly seconds: number
}

/** The outcome of a transfer that ended with an error. 'refused': nothing was transferred, because of the request. */
const outcomes: Readonly<Record<ErrorCode, 'failed' | 'aborted' | 'refused'>> = {
  not_found: 'refused',
  parent_missing: 'refused',
  exists: 'refused',
  not_folder: 'refused',
  is_folder: 'refused',
  not_empty: 'refused',
  denied: 'refused',
  hidden: 'refused',
  password_required: 'refused',
  unauthenticated: 'aborted',
  throttled: 'refused',
  invalid: 'refused',
  precondition_failed: 'refused',
  unsupported: 'refused',
  locked: 'refused',
  range: 'refused',
  too_large: 'refused',
  no_space: 'failed',
  busy: 'refused',
  unavailable: 'failed',
  timeout: 'failed',
  aborted: 'aborted',
  internal: 'failed',
}

/** The transfers of one client or task. */
export class TransferMeter {
  /** `by`: the protocol of the client, or `task`. */
  constructor(
    private readonly events: Pick<Events, 'emitTransfer' | 'openTransfers'>,
    private readonly by: string,
  ) {}

  /** Starts a transfer. The caller must end it. */
  start(storage: Pick<Storage, 'row'>, direction: TransferEvent['direction']): MeteredTransfer {
    return new MeteredTransfer(this.events, this.by, storage.row, direction)
  }

  /** A stored file as a source. Each read of it is a transfer. `holder`: who its bytes are for. */
  source(storage: Storage, path: Path, entry: Entry, holder?: Holder): Source {
    const source = storage.source(path, entry, holder)
    return {
      ...source,
      read: async (range, options) => {
        const transfer = this.start(storage, 'read')
        try {
          return transfer.deliver(await source.read(range, options))
        } catch (error) {
          transfer.end(error)
          throw error
        }
      },
    }
  }

  /**
   * Returns the meter of a handle. `signal` aborts when the client disconnects. `onRead` is called with the event of
   * the bytes that were read, when the handle is closed.
   */
  handle(
    storage: Storage,
    mode: OpenMode,
    signal: AbortSignal | undefined,
    onRead?: (event: TransferEvent) => void,
  ): HandleMeter {
    const isRead = mode === 'read'
    const { row } = storage
    const direction = isRead ? 'read' : 'write'
    const transfer = new MeteredTransfer(this.events, this.by, row, direction, 1, isRead ? onRead : undefined)
    // Reads of a handle that writes are a transfer in the other direction.
    const reads = isRead ? transfer : new MeteredTransfer(this.events, this.by, row, 'read', 0, onRead)
    let failure: unknown
    let isPublished = mode !== 'replace'
    return {
      didRead: reads.count,
      didWrite: transfer.count,
      committing: () => {
        failure = undefined
        isPublished = true
      },
      failed: (error) => {
        failure = error
      },
      closed: () => {
        if (!isPublished || signal?.aborted === true) failure ??= new GatewayError('aborted')
        transfer.end(failure)
        reads.end()
      },
    }
  }
}

/** One transfer. Whoever makes it must end it. */
export class MeteredTransfer {
  #bytes = 0
  #hasEnded = false
  readonly #started = performance.now()

  constructor(
    private readonly events: Pick<Events, 'emitTransfer' | 'openTransfers'>,
    private readonly by: string,
    private readonly storage: StorageRow,
    private readonly direction: TransferEvent['direction'],
    /** The number of open transfers that it counts as. */
    private readonly counts = 1,
    /** Called with the transfer, when it is reported. */
    private readonly onEnd?: (event: TransferEvent) => void,
  ) {
    events.openTransfers += counts
  }

  readonly count = (bytes: number): void => {
    this.#bytes += bytes
  }

  /**
   * Returns the stream, which is the whole transfer. Its bytes are counted as they are consumed; its end is reported.
   */
  deliver(stream: Readable): Readable {
    return countBytes(stream, this.count).once('close', () => {
      this.end(stream.readableEnded ? undefined : (stream.errored ?? new GatewayError('aborted')))
    })
  }

  /** Returns the source with its bytes counted as the storage consumes them, unless they are in memory. */
  counted(source: Source): Source {
    if (source.bytes) return source
    return { ...source, read: async (range, options) => countBytes(await source.read(range, options), this.count) }
  }

  /** Runs the work of the transfer, and reports it with the outcome of the work. */
  async run<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      const result = await work()
      this.end()
      return result
    } catch (error) {
      this.end(error)
      throw error
    }
  }

  /**
   * Reports the transfer, which failed if there is an error. Does nothing if it has ended before. A transfer without
   * content is not reported if it was completed or refused.
   */
  end(error?: unknown): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.events.openTransfers -= this.counts
    const outcome = error === undefined ? 'completed' : outcomes[toGatewayError(error).code]
    if (this.#bytes === 0 && (outcome === 'completed' || outcome === 'refused')) return
    const event: TransferEvent = {
      by: this.by,
      storage: this.storage,
      direction: this.direction,
      bytes: this.#bytes,
      outcome: outcome === 'refused' ? 'failed' : outcome,
      seconds: (performance.now() - this.#started) / 1000,
    }
    this.events.emitTransfer(event)
    this.onEnd?.(event)
  }
}

/**
 * Calls `count` with the length of each chunk that the consumer of the stream receives. Does not start the stream,
 * which `stream.on('data')` would. The consumer must not stop listening for 'readable' while it still needs the stream:
 * some versions of Node.js then start any stream that has a listener for 'data' (Node.js:
 * lib/internal/streams/readable.js).
 */
export function countBytes<Stream extends Readable>(stream: Stream, count: (bytes: number) => void): Stream {
  EventEmitter.prototype.on.call(stream, 'data', (chunk: Buffer) => count(chunk.length))
  return stream
}

interface CountedSource extends Source {
  /** Reports the bytes of the source that were not read, because the backend copied them by itself. */
  complete(): void
  /** Reports everything counted so far as a negative number, after a failure. */
  revert(): void
}

/**
 * Calls `advance` with the number of bytes of each chunk that is read. A read that starts at an offset counts the bytes
 * before it immediately, and replaces the count of earlier reads.
 */
export function countedSource(source: Source, advance: (bytes: number) => void): CountedSource {
  let counted = 0
  const count = (bytes: number) => {
    counted += bytes
    advance(bytes)
  }
  return {
    ...source,
    bytes: undefined,
    revert: () => count(-counted),
    complete: () => count((source.size ?? counted) - counted),
    async read(range, options) {
      const bytes = await source.read(range, options)
      count((range?.offset ?? 0) - counted)
      return countBytes(bytes, count)
    },
  }
}
