/** Writes one body to several storages. It is read once, and published nowhere before all of them have received it. */
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { joinSignals } from '../../src/base/cancellation.js'
import type { Source, WriteOptions } from '../../src/contract/call-options.js'
import type { Entry } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'

/** Writes `source` to one storage. */
type WriteOne = (source: Source, options: WriteOptions) => Promise<Entry>

/**
 * Resolves to the entry of the first write. If any write fails before all have received the body, none is published.
 */
export async function writeAll(writes: readonly WriteOne[], source: Source, options: WriteOptions): Promise<Entry> {
  const failed = new AbortController()
  const joined = joinSignals(options.signal, failed.signal)
  const { signal } = joined
  let reason: unknown
  const fail = (error: unknown) => {
    reason ??= error
    failed.abort()
  }
  const beforePublish = barrier(writes.length, signal, async () => options.beforePublish?.())
  const bodies = writes.map(() => new PassThrough({ signal }).on('error', () => undefined))
  const settled = Promise.allSettled(
    writes.map(async (write, index) => {
      const body = bodies[index] ?? new PassThrough()
      const { size, modified, hashes } = source
      const part: Source = { size, modified, hashes, rereadable: false, read: async () => body }
      try {
        return await write(part, { ...options, signal, beforePublish })
      } catch (error) {
        fail(error)
        throw error
      }
    }),
  )
  try {
    const body = await source.read(undefined, { signal })
    await pipeline(body, (chunks: AsyncIterable<Buffer>) => distribute(chunks, bodies, signal), { signal })
  } catch (error) {
    fail(error)
  }
  const [first] = await settled
  joined.release()
  if (options.signal?.aborted) throw new GatewayError('aborted')
  if (reason !== undefined) throw asBodyError(reason)
  if (first?.status !== 'fulfilled') throw new GatewayError('internal')
  return first.value
}

/** Writes the chunks to all bodies, with the backpressure of the slowest. */
async function distribute(
  chunks: AsyncIterable<Buffer>,
  bodies: readonly PassThrough[],
  signal: AbortSignal,
): Promise<void> {
  for await (const chunk of chunks) {
    const full = bodies.filter((body) => !body.write(chunk))
    await Promise.all(full.map((body) => once(body, 'drain', { signal })))
  }
  for (const body of bodies) body.end()
}

/**
 * A barrier: the `count`-th call runs `work`, and all calls resolve or reject with its result. An abort rejects with
 * `aborted`.
 */
function barrier(count: number, signal: AbortSignal, work: () => Promise<void>): () => Promise<void> {
  let remaining = count
  let release!: () => void
  const all = new Promise<void>((resolve, reject) => {
    release = () => {
      work().then(resolve, reject)
    }
    signal.addEventListener('abort', () => reject(new GatewayError('aborted')), { once: true })
  })
  // Prevents an unhandled rejection if no call is waiting.
  all.catch(() => undefined)
  return () => {
    remaining--
    if (remaining === 0) release()
    return all
  }
}

/** Converts an error of a body. A premature close means that the client aborted the upload. */
function asBodyError(error: unknown): unknown {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  if (code === 'ERR_STREAM_PREMATURE_CLOSE') return new GatewayError('aborted', { cause: error })
  return error instanceof GatewayError ? error : new GatewayError('internal', { cause: error })
}
