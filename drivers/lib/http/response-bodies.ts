/** Response bodies: they are aborted by their signal and when the mount closes, and fail with GatewayErrors. */
import { pipeline, Transform, type Readable, type TransformCallback } from 'node:stream'
import { GatewayError } from '../../../src/base/errors.js'

export class ResponseBodies {
  readonly #open = new Set<Transform>()

  /** `server` names the server in errors, as in "S3 server". `translated` converts errors to GatewayErrors. */
  constructor(
    private readonly server: string,
    private readonly translated: (error: unknown) => GatewayError,
  ) {}

  /** Returns a stream of `body` that verifies its length. `length`: bytes that the server announced, if any. */
  track(body: Readable, length: number | undefined, signal: AbortSignal | undefined): Readable {
    const checked = new CheckedBody(this.server, this.translated, length)
    const abort = () => checked.destroy(new GatewayError('aborted'))
    this.#open.add(checked)
    signal?.addEventListener('abort', abort, { once: true })
    pipeline(body, checked, () => {
      // The reader observes both the end and the error.
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

  // Not `_destroy`: who looks at the stream after it has failed finds the error that `destroy` was called with.
  override destroy(error?: Error): this {
    return super.destroy(error && this.translated(error))
  }
}
