/** Bodies of answers: they end with their signal and with the mount, and whatever breaks them is a GatewayError. */
import { pipeline, Transform, type Readable, type TransformCallback } from 'node:stream'
import { GatewayError } from '../../src/errors.js'

export class Bodies {
  readonly #open = new Set<Transform>()

  /** `server` says which one, as in "S3 server"; `translated` makes a GatewayError of what breaks a body. */
  constructor(
    private readonly server: string,
    private readonly translated: (error: unknown) => GatewayError,
  ) {}

  /** `length`: bytes that the server announced, if it did. */
  follow(body: Readable, length: number | undefined, signal: AbortSignal | undefined): Readable {
    const checked = new CheckedBody(this.server, this.translated, length)
    const abort = () => checked.destroy(new GatewayError('aborted'))
    this.#open.add(checked)
    signal?.addEventListener('abort', abort, { once: true })
    pipeline(body, checked, () => {
      // The end of a body that was read whole and that of one that was given up are both the reader's to know.
    })
    checked.once('close', () => {
      this.#open.delete(checked)
      signal?.removeEventListener('abort', abort)
    })
    if (signal?.aborted) abort()
    return checked
  }

  close(): void {
    for (const body of this.#open) body.destroy(new GatewayError('aborted'))
  }
}

class CheckedBody extends Transform {
  #received = 0

  constructor(
    private readonly server: string,
    private readonly translated: (error: unknown) => GatewayError,
    private readonly announced: number | undefined,
  ) {
    super({ highWaterMark: 256 * 1024 })
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#received += chunk.length
    done(null, chunk)
  }

  override _flush(done: TransformCallback): void {
    const isWhole = this.announced === undefined || this.#received === this.announced
    done(isWhole ? null : new GatewayError('unavailable', { reason: `the ${this.server} sent less than it announced` }))
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    done(error === null ? null : this.translated(error))
  }
}
