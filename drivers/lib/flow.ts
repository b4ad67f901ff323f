/** Bodies on their way into a backend, chunk by chunk, at the pace of whoever takes them. */
import { addAbortSignal, type Readable } from 'node:stream'
import type { GivingReadable, Source } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { free } from './freeing.js'

/** Where the chunks go. */
export interface Intake {
  /**
   * Nobody changes the chunk any more. No more come until the promise, where there is one, resolves. `used` is called when nothing
   * looks at the chunk any more: it may hold nothing after that. Where it never is, as when all breaks, the collector finds the chunk.
   */
  take(chunk: Buffer, used: () => void): Promise<void> | undefined
  /** Rejects as soon as no more can be taken, also while a body stands still. */
  readonly broken?: Promise<never>
}

/**
 * All of `source` goes into `intake`; resolves to its length in bytes. Rejects with `invalid` where that is not what was announced,
 * with the body's own error where it fails, with `aborted` where it ends before its end or the signal says so, and with what `intake`
 * rejects with. The body is destroyed then.
 */
export async function flow(source: Source, intake: Intake, signal: AbortSignal | undefined): Promise<number> {
  const body = await source.read(undefined, { signal })
  return passed(signal ? addAbortSignal(signal, body) : body, source.size, intake)
}

/** By events, because an iterator would join whatever has come meanwhile into a new buffer. */
function passed(body: Readable, announced: number | undefined, intake: Intake): Promise<number> {
  return new Promise((resolve, reject) => {
    let arrived = 0
    const isGiven = givesChunks(body)
    const fail = (error: Error) => {
      reject(error)
      body.destroy()
    }
    const take = (data: Buffer | string) => {
      const chunk = typeof data === 'string' ? Buffer.from(data) : data
      arrived += chunk.length
      try {
        if (announced !== undefined && arrived > announced) {
          throw invalid(`the body is longer than the announced ${announced} bytes`)
        }
        const room = intake.take(chunk, isGiven ? () => free(chunk) : keep)
        if (room === undefined) return
        body.pause()
        room.then(() => body.resume(), fail)
      } catch (error) {
        fail(error as Error)
      }
    }
    const end = () => {
      if (announced === undefined || arrived === announced) resolve(arrived)
      else reject(invalid(`the body ended after ${arrived} of ${announced} bytes`))
    }
    const closed = () =>
      reject(body.errored ?? new GatewayError('aborted', { reason: 'the body ended before its end' }))
    intake.broken?.catch(fail)
    // Of one that is gone already the error may still be on its way, too.
    body.on('error', reject)
    if (body.destroyed) closed()
    else body.on('data', take).on('end', end).on('close', closed)
  })
}

function givesChunks(body: Readable): body is GivingReadable {
  return 'givesChunks' in body
}

/** The memory is somebody else's, too. */
function keep(): void {
  // The collector finds out when nobody needs it.
}

function invalid(reason: string): GatewayError {
  return new GatewayError('invalid', { reason })
}
