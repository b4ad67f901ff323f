/** One body written to several places at once: it is read once, and shown at none of them before it arrived at all. */
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Entry, Source, WriteOptions } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'

export type WriteOne = (source: Source, options: WriteOptions) => Promise<Entry>

/** The entry of the first. Where one fails before the body arrived everywhere, nothing is changed at any of them. */
export async function writeAll(writes: readonly WriteOne[], source: Source, options: WriteOptions): Promise<Entry> {
  const failed = new AbortController()
  const signal = options.signal ? AbortSignal.any([options.signal, failed.signal]) : failed.signal
  let reason: unknown
  const fail = (error: unknown) => {
    reason ??= error
    failed.abort()
  }
  const beforePublish = togetherAt(writes.length, signal, async () => options.beforePublish?.())
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
    await pipeline(body, (chunks: AsyncIterable<Buffer>) => share(chunks, bodies, signal), { signal })
  } catch (error) {
    fail(error)
  }
  const [first] = await settled
  if (options.signal?.aborted) throw new GatewayError('aborted')
  if (reason !== undefined) throw asBodyError(reason)
  if (first?.status !== 'fulfilled') throw new GatewayError('internal')
  return first.value
}

/** As fast as the slowest takes it. */
async function share(
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

/** Runs `work` once when it was called `count` times, and lets all callers go on, or fail, together. */
function togetherAt(count: number, signal: AbortSignal, work: () => Promise<void>): () => Promise<void> {
  let missing = count
  let open!: () => void
  const all = new Promise<void>((resolve, reject) => {
    open = () => {
      work().then(resolve, reject)
    }
    signal.addEventListener('abort', () => reject(new GatewayError('aborted')), { once: true })
  })
  // Those who wait are told; where nobody does, nobody has to be.
  all.catch(() => undefined)
  return () => {
    missing--
    if (missing === 0) open()
    return all
  }
}

/** A body that ends without its end is one that its sender gave up. */
function asBodyError(error: unknown): unknown {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  if (code === 'ERR_STREAM_PREMATURE_CLOSE') return new GatewayError('aborted', { cause: error })
  return error instanceof GatewayError ? error : new GatewayError('internal', { cause: error })
}
