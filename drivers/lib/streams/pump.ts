/** Passes a body to a backend chunk by chunk, with backpressure. */
import { addAbortSignal, type Readable } from 'node:stream'
import { throwIfAborted } from '../../../src/base/cancellation.js'
import type { DetachableReadable } from '../../../src/contract/capabilities.js'
import type { Source } from '../../../src/contract/call-options.js'
import { GatewayError } from '../../../src/base/errors.js'
import { detach } from './detach-buffer.js'

/** Receives the chunks. */
export interface Sink {
  /**
   * Receives a chunk, which the sender does not modify afterwards. If a promise is returned, no more chunks are sent
   * until it resolves. `used` is called when the chunk is no longer read: its memory may be released then. After a
   * failure it need not be called.
   */
  write(chunk: Buffer, used: () => void): Promise<void> | undefined
  /** Rejects as soon as the sink fails, even while no chunk arrives. */
  readonly failed?: Promise<never>
}

/**
 * Passes all of `source` to `sink`. Resolves to its length in bytes. Rejects with `invalid` if the length differs
 * from the announced size, with the error of the body, with `aborted` if the body ends prematurely or the signal
 * aborts, and with the error of `sink`. Destroys the body after a failure.
 */
export async function pump(source: Source, sink: Sink, signal: AbortSignal | undefined): Promise<number> {
  const { bytes } = source
  if (bytes) {
    throwIfAborted(signal)
    if (bytes.length > 0) await Promise.race([sink.write(bytes, keepMemory), ...(sink.failed ? [sink.failed] : [])])
    return bytes.length
  }
  const body = await source.read(undefined, { signal })
  return pumpBody(signal ? addAbortSignal(signal, body) : body, source.size, sink)
}

/**
 * Uses events, because an async iterator would concatenate buffered chunks into a new buffer
 * (Node.js: lib/internal/streams/readable.js).
 */
function pumpBody(body: Readable, announced: number | undefined, sink: Sink): Promise<number> {
  return new Promise((resolve, reject) => {
    let received = 0
    const isDetachable = isDetachableReadable(body)
    const fail = (error: Error) => {
      reject(error)
      body.destroy()
    }
    const receive = (data: Buffer | string) => {
      const chunk = typeof data === 'string' ? Buffer.from(data) : data
      received += chunk.length
      try {
        if (announced !== undefined && received > announced) {
          throw invalid(`the body is longer than the announced ${announced} bytes`)
        }
        const ready = sink.write(chunk, isDetachable ? () => detach(chunk) : keepMemory)
        if (ready === undefined) return
        body.pause()
        ready.then(() => body.resume(), fail)
      } catch (error) {
        fail(error as Error)
      }
    }
    const end = () => {
      if (announced === undefined || received === announced) resolve(received)
      else reject(invalid(`the body ended after ${received} of ${announced} bytes`))
    }
    const closed = () => reject(body.errored ?? new GatewayError('aborted', { reason: 'the body ended prematurely' }))
    sink.failed?.catch(fail)
    // A destroyed body may still emit its error.
    body.on('error', reject)
    if (body.destroyed) closed()
    else body.on('data', receive).on('end', end).on('close', closed)
  })
}

function isDetachableReadable(body: Readable): body is DetachableReadable {
  return 'givesChunks' in body
}

/** The memory of the chunk is shared, so it is not released. */
function keepMemory(): void {
  // Left to the garbage collector.
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}
