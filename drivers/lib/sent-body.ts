/** An upload as the body of a request: exactly as long as it was announced, and whatever breaks it told for what it is. */
import { Transform, type Readable, type TransformCallback, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Source } from '../../src/driver.js'
import { GatewayError, toGatewayError } from '../../src/errors.js'
import type { SentBody } from './http-client.js'

/** `size`: that of the source. */
export function sentBody(source: Source, size: number, signal: AbortSignal | undefined): SentBody {
  return { size, send: async (into) => sendWhole(await source.read(undefined, { signal }), size, into) }
}

/**
 * Rejects with `invalid` where the body is not as long as announced, with its own error where it fails, with that of `into` where that
 * one does. `into` is destroyed then: a short body never looks like a whole one.
 */
async function sendWhole(body: Readable, size: number, into: Writable): Promise<void> {
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
  if (body.destroyed) blame(new GatewayError('aborted'))
  try {
    await pipeline(body, new ExactLength(size), into)
  } catch (error) {
    throw failure ?? error
  }
}

class ExactLength extends Transform {
  #length = 0

  constructor(private readonly announced: number) {
    super({ highWaterMark: 256 * 1024 })
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#length += chunk.length
    if (this.#length <= this.announced) done(null, chunk)
    else done(invalid(`the body is longer than the announced ${this.announced} bytes`))
  }

  override _flush(done: TransformCallback): void {
    if (this.#length === this.announced) done()
    else done(invalid(`the body ended after ${this.#length} of ${this.announced} bytes`))
  }
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}
