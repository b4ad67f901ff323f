/** An upload as the body of a request: exactly as long as it was announced, if it was, and whatever breaks it told for what it is. */
import type { Writable } from 'node:stream'
import type { Source } from '../../src/driver.js'
import { toGatewayError } from '../../src/errors.js'
import { flow } from './flow.js'
import type { SentBody } from './http-client.js'
import { Outlet } from './outlet.js'

export class UploadBody implements SentBody {
  /** Bytes that have been sent, once all have. */
  sent = 0

  constructor(
    private readonly source: Source,
    private readonly signal: AbortSignal | undefined,
  ) {}

  get size(): number | undefined {
    return this.source.size
  }

  /**
   * Rejects with `invalid` where the body is not as long as announced, with its own error where it fails, with that of `into` where that
   * one does. `into` is destroyed then: a short body never looks like a whole one.
   */
  async send(into: Writable): Promise<void> {
    const outlet = new Outlet(into)
    try {
      this.sent = await flow(this.source, outlet, this.signal)
      await outlet.finish()
    } catch (error) {
      const failure = outlet.isBroken ? error : toGatewayError(error)
      into.destroy()
      throw failure
    }
  }
}
