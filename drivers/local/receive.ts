/** Taking in a body: chunks are gathered to about 1 MiB and written at once, the next ones gathered meanwhile. */
import { addAbortSignal } from 'node:stream'
import type { Source } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { writeAll, type Calls } from './calls.js'
import { translated } from './errors.js'

const largestBatch = 1024 * 1024
const smallestBatch = 128 * 1024
/** Bytes that all bodies together gather before they are written. */
const gatheredAtOnce = 16 * 1024 * 1024
/** Bodies on their way in. */
let receiving = 0

/** Large batches are quick; many bodies at once share the room for them. */
function batchSize(): number {
  return Math.max(smallestBatch, Math.min(largestBatch, gatheredAtOnce / receiving))
}

/** Up to so many bytes are written without a hop through the thread pool. */
export const immediateBytes = 64 * 1024

/**
 * Writes all of `source` from byte 0 on; resolves to its size. Rejects with `invalid` where that is not what was
 * announced, and with `aborted`.
 */
export async function receive(
  source: Source,
  fd: number,
  calls: Calls,
  patient: Calls,
  signal?: AbortSignal,
): Promise<number> {
  const body = await source.read(undefined, { signal })
  const announced = source.size
  let received = 0
  let batch: Buffer[] = []
  let gathered = 0
  let writing: Promise<void> | undefined
  const take = async (chunks: AsyncIterable<Buffer | string>) => {
    for await (const data of chunks) {
      const chunk = typeof data === 'string' ? Buffer.from(data) : data
      batch.push(chunk)
      gathered += chunk.length
      if (announced !== undefined && received + gathered > announced) {
        throw new GatewayError('invalid', { reason: `the body is longer than the announced ${announced} bytes` })
      }
      if (gathered < batchSize()) continue
      await writing
      writing = writeAll(patient, fd, batch, received)
      // Its failure is met by the next one to wait for it.
      writing.catch(() => undefined)
      received += gathered
      batch = []
      gathered = 0
    }
  }
  receiving++
  try {
    // Whoever stops reading a stream ends it: there is nothing here that a pipeline would add.
    await take(signal ? addAbortSignal(signal, body) : body)
    await writing
    await writeAll(gathered <= immediateBytes ? calls : patient, fd, batch, received)
  } catch (error) {
    throw signal?.aborted ? new GatewayError('aborted', { cause: error }) : translated(error)
  } finally {
    receiving--
    // The descriptor may be closed after this: nothing may be on its way to it.
    await writing?.catch(() => undefined)
  }
  received += gathered
  if (announced !== undefined && received < announced) {
    throw new GatewayError('invalid', { reason: `the body ended after ${received} of ${announced} bytes` })
  }
  return received
}
