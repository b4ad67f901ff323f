/** An upload as the body of a request: exactly as long as it was announced, if it was, and whatever breaks it told for what it is. */
import { Transform, type Readable, type TransformCallback, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Source } from '../../src/driver.js'
import { GatewayError, toGatewayError } from '../../src/errors.js'
import type { SentBody } from './http-client.js'

export class UploadBody implements SentBody {
  /** Bytes that have been sent. */
  sent = 0

  constructor(
    private readonly source: Source,
    private readonly signal: AbortSignal | undefined,
  ) {}

  get size(): number | undefined {
    return this.source.size
  }

  async send(into: Writable): Promise<void> {
    const counter = new ExactLength(this.size, (bytes) => (this.sent += bytes))
    await sendWhole(await this.source.read(undefined, { signal: this.signal }), counter, into)
  }
}

/**
 * Rejects with `invalid` where the body is not as long as announced, with its own error where it fails, with that of `into` where that
 * one does. `into` is destroyed then: a short body never looks like a whole one.
 */
async function sendWhole(body: Readable, counter: ExactLength, into: Writable): Promise<void> {
  let failure: GatewayError | undefined
  // What comes after `into` has broken is the consequence.
  const blame = (reason: GatewayError) => {
    if (!into.destroyed) failure ??= reason
  }
  body.once('error', (error) => {
    blame(toGatewayError(error))
  })
  body.once('close', () => {
    if (!body.readableEnded) blame(new GatewayError('aborted'))
  })
  // It may have failed while the server made up its mind.
  if (body.destroyed) blame(body.errored ? toGatewayError(body.errored) : new GatewayError('aborted'))
  try {
    await pipeline(body, counter, into)
  } catch (error) {
    throw failure ?? error
  }
}

class ExactLength extends Transform {
  #length = 0

  constructor(
    private readonly announced: number | undefined,
    private readonly onPassed: (bytes: number) => void,
  ) {
    super({ highWaterMark: 256 * 1024 })
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#length += chunk.length
    if (this.announced !== undefined && this.#length > this.announced) {
      done(invalid(`the body is longer than the announced ${this.announced} bytes`))
      return
    }
    this.onPassed(chunk.length)
    done(null, chunk)
  }

  override _flush(done: TransformCallback): void {
    if (this.announced === undefined || this.#length === this.announced) done()
    else done(invalid(`the body ended after ${this.#length} of ${this.announced} bytes`))
  }
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}
