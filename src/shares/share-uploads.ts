/**
 * The limits of a share for all its uploads together, of all processes. An upload reserves what it will need before its
 * first byte is stored, one of unknown size step by step. What was stored is counted when it is published. A
 * reservation ends with its upload; that of a process which was killed ends with the process.
 */
import { pipeline, Transform } from 'node:stream'
import { GatewayError } from '../base/errors.js'
import { FairShare } from '../base/fair-share.js'
import type { Log } from '../base/log.js'
import { foldCase, type Path } from '../base/path.js'
import type { Source } from '../contract/call-options.js'
import type { Store } from '../database/tables.js'

/** Bytes that an upload of unknown size reserves at a time, if the limit leaves as many. */
const step = 8 * 1024 * 1024

/** Maximum numbers of copies by visitors at a time in this process: of all, and of one network. */
const maxCopies = 16
const maxCopiesOfNetwork = 4

/** The slowest pace of a body. A body must not be slower, because no other upload can have what it has reserved. */
interface Pace {
  readonly bytesPerSecond: number
  /** Milliseconds for which a body may be later than that. */
  readonly patience: number
  /** Milliseconds between two looks. */
  readonly interval: number
}

const usualPace: Pace = { bytesPerSecond: 4096, patience: 120_000, interval: 5000 }

export class ShareUploads {
  /** Copies that are running, by network: each may measure and copy a large tree. Others wait. */
  readonly copies = new FairShare(maxCopies, { most: maxCopiesOfNetwork })
  /** Writes of the ends of uploads that have failed. The next upload tries them again. */
  readonly #unsettled = new Set<() => Promise<void>>()

  /** `pace`: another one for tests. */
  constructor(
    private readonly rows: Store['shareUploads'],
    private readonly log: Pick<Log, 'warn'>,
    private readonly pace = usualPace,
  ) {}

  /**
   * Reserves the bytes of an upload, as far as they are known, and the number of files and folders that it makes. The
   * caller must finish or release it. Rejects with `no_space` (`share_full`) if the limits of the share do not allow
   * it.
   */
  async begin(shareId: string, bytes = 0, files = 1): Promise<ShareUpload> {
    for (const settle of this.#unsettled) await this.#settle(settle)
    const id = await this.rows.reserve(shareId, bytes, files)
    if (id === undefined) throw shareFull()
    return new ShareUpload(this.rows, id, bytes, this.pace, (end) => this.#settle(end))
  }

  /** Whether a running upload of a visitor will have this path of the whole tree. */
  isClaimed(at: Path): Promise<boolean> {
    return this.rows.isClaimed(foldCase(at))
  }

  /** Never rejects, because what was stored is stored. Until the write succeeds, the reservation counts. */
  async #settle(end: () => Promise<void>): Promise<void> {
    try {
      await end()
      this.#unsettled.delete(end)
    } catch (error) {
      this.#unsettled.add(end)
      this.log.warn({ err: error }, 'the end of an upload to a share is not counted yet')
    }
  }
}

/** The reservation of one running upload. */
export class ShareUpload {
  #received = 0
  #hasEnded = false

  constructor(
    private readonly rows: Store['shareUploads'],
    private readonly id: number,
    private reserved: number,
    private readonly pace: Pace,
    private readonly settle: (end: () => Promise<void>) => Promise<void>,
  ) {}

  /** Whether nothing of the body was read. */
  get isUnread(): boolean {
    return this.#received === 0
  }

  /** Claims the path of the whole tree, instead of the one before. False if another upload has claimed it. */
  claim(at: Path): Promise<boolean> {
    return this.rows.claim(this.id, foldCase(at))
  }

  /**
   * A source that is counted. Its stream fails with `no_space` (`share_full`) before a byte that could not be reserved,
   * and with `timeout` if it arrives too slowly.
   */
  counted(source: Source): Source {
    if (source.bytes !== undefined) {
      this.#received = source.bytes.length
      return source
    }
    return {
      ...source,
      rereadable: false,
      read: async (range, options) => {
        this.#received = 0
        const counter = new Transform({
          transform: (chunk: Buffer, _encoding, done) => {
            this.#received += chunk.length
            if (this.#received <= this.reserved) done(null, chunk)
            else this.#reserveMore().then(() => done(null, chunk), done)
          },
        })
        // An error of either stream destroys both. The reader receives it from the counter.
        pipeline(await source.read(range, options), counter, () => undefined)
        this.#endIfSlow(counter)
        return counter
      },
    }
  }

  /** Time in which something that has arrived waits for the storage does not count. */
  #endIfSlow(body: Transform): void {
    const { bytesPerSecond, patience, interval } = this.pace
    let waited = 0
    const timer = setInterval(() => {
      if (body.writableEnded || body.writableLength > 0 || body.readableLength > 0) return
      waited += interval
      const expected = (bytesPerSecond * (waited - patience)) / 1000
      if (this.#received < expected) body.destroy(new GatewayError('timeout', { reason: 'the upload is too slow' }))
    }, interval).unref()
    body.once('close', () => {
      clearInterval(timer)
    })
  }

  async #reserveMore(): Promise<void> {
    const needed = this.#received - this.reserved
    const added = await this.rows.extend(this.id, needed, Math.max(needed, step))
    if (added === undefined) throw shareFull()
    this.reserved += added
  }

  /** Tells of bytes that are stored without a source: those of a copy. */
  copied(bytes: number): void {
    this.#received = bytes
  }

  /** Counts what was stored. `files`: how many files and folders were made. */
  async finish(files: number): Promise<void> {
    this.#hasEnded = true
    await this.settle(() => this.rows.finish(this.id, this.#received, files))
  }

  /** Gives back what an upload has reserved that has not finished. */
  async release(): Promise<void> {
    if (!this.#hasEnded) await this.settle(() => this.rows.release(this.id))
    this.#hasEnded = true
  }
}

export function shareFull(): GatewayError {
  return new GatewayError('no_space', { detail: 'share_full' })
}
