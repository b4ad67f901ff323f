/** An upload as a request body. Checks the announced length, and attributes errors to the body or to the connection. */
import { PassThrough, type Writable } from 'node:stream'
import type { Source } from '../../../src/contract/call-options.js'
import { toGatewayError } from '../../../src/base/errors.js'
import type { OneShotBody } from './http-client.js'
import { pump } from '../streams/pump.js'
import { WritableSink } from '../streams/writable-sink.js'

export class RequestBody implements OneShotBody {
  /** Number of bytes sent; 0 until the body is complete. */
  sent = 0

  constructor(
    private readonly source: Source,
    private readonly signal: AbortSignal | undefined,
  ) {}

  get size(): number | undefined {
    return this.source.size
  }

  /**
   * Sends the body and ends `into`. Rejects with `invalid` if the length differs from the announced size, with the
   * error of the body, and with the error of `into`. Destroys `into` after a failure, so that the server does not take
   * a truncated body for a complete one.
   */
  async sendTo(into: Writable): Promise<void> {
    const sink = new WritableSink(into)
    try {
      this.sent = await pump(this.source, sink, this.signal)
      await sink.finish()
    } catch (error) {
      const failure = sink.isBroken ? error : toGatewayError(error)
      into.destroy()
      throw failure
    }
  }
}

/** An empty body is replaced by a string, which can be sent again if the request is retried. */
export async function sendable(body: RequestBody): Promise<string | OneShotBody> {
  if (body.size !== 0) return body
  await body.sendTo(new PassThrough().resume())
  return ''
}
