/** The body of an HTTP request as bytes of the tree, and what to do with one that nobody wants. */
import type { IncomingMessage } from 'node:http'
import { addAbortSignal, Readable } from 'node:stream'
import type { GivingReadable, Hashes, Source } from '../../src/driver.js'
import { GatewayError } from '../../src/errors.js'
import { declineBody, inviteBody } from './continue.js'

export interface BodyFacts {
  /** Bytes, for a body without Content-Length; beside one it is ignored. */
  readonly size?: number | undefined
  readonly modified?: Date | undefined
  /** Of the whole content, as the client claims them. */
  readonly hashes?: Hashes | undefined
}

/**
 * The body of `request` as a Source that can be read once, from the start. Its size is the announced
 * Content-Length, else `facts.size`. The stream fails with `aborted` when the request closes before its end, and
 * with nothing else; destroying it leaves the request open, so that an answer can still be written.
 */
export function bodySource(request: IncomingMessage, facts: BodyFacts = {}): Source {
  let taken = false
  return {
    size: announcedSize(request) ?? facts.size,
    modified: facts.modified,
    hashes: facts.hashes,
    rereadable: false,
    async read(range, options) {
      if (taken || range !== undefined) {
        throw new GatewayError('internal', { reason: 'a request body can be read once, from the start' })
      }
      taken = true
      inviteBody(request)
      const body = bodyStream(request)
      return options?.signal === undefined ? body : addAbortSignal(options.signal, body)
    },
  }
}

function announcedSize(request: IncomingMessage): number | undefined {
  const text = request.headers['content-length']
  if (text !== undefined) return Number(text) // Node's parser lets digits through alone
  return request.headers['transfer-encoding'] === undefined ? 0 : undefined // RFC 9112 §6.3
}

/**
 * Chunks pass through uncopied; only the way it ends is told in our own words. Node's parser makes memory of its own for each of them,
 * and forgets it.
 */
function bodyStream(request: IncomingMessage): GivingReadable {
  const readable = new Readable({
    highWaterMark: 64 * 1024,
    read() {
      request.resume()
    },
    destroy(error, callback) {
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      // Whoever reads on by now, to drop the rest, is not to be stopped.
      if (request.listenerCount('data') === 0) request.pause()
      callback(error)
    },
  })
  const body = Object.assign(readable, { givesChunks: true } as const)
  const onData = (chunk: Buffer): void => {
    if (!body.push(chunk)) request.pause()
  }
  const onEnd = (): void => {
    body.push(null)
  }
  const onClose = (): void => {
    if (!request.complete) body.destroy(new GatewayError('aborted', { reason: 'the request ended before its body' }))
  }
  if (request.destroyed && !request.complete) {
    process.nextTick(onClose)
  } else {
    request.on('data', onData).on('end', onEnd).on('close', onClose)
    // The 'close' that follows says the same; without a listener the process would end.
    request.on('error', () => undefined)
    request.pause()
  }
  return body
}

/** Milliseconds in which a body that is kept in memory has to arrive: whoever sends it drop by drop holds nothing for long. */
const smallBodyTime = 60_000

/** What `reading` resolves to; `late()` where the body takes too long. What is left of it is the caller's to drain. */
export async function inTime<T>(reading: Promise<T>, late: () => Error, milliseconds = smallBodyTime): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const tooLate = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(late()), milliseconds)
  })
  try {
    return await Promise.race([reading, tooLate])
  } finally {
    clearTimeout(timer)
  }
}

export interface DrainLimits {
  /** Bytes that are read at most. */
  readonly bytes?: number
  readonly milliseconds?: number
}

/**
 * Reads and drops what is left of a body, so that a client that sends all before it listens sees the answer that was
 * written meanwhile. Past the limits the connection is closed. Resolves when the body has ended or the connection
 * has; never rejects.
 */
export function drain(request: IncomingMessage, limits: DrainLimits = {}): Promise<void> {
  const { bytes = 64 * 1024 * 1024, milliseconds = 15_000 } = limits
  if (request.complete || request.destroyed) {
    request.resume()
    return Promise.resolve()
  }
  const { socket } = request
  if (declineBody(request)) return Promise.resolve()
  return new Promise((resolve) => {
    let left = bytes
    const giveUp = (): void => {
      socket.destroy()
    }
    const timer = setTimeout(giveUp, milliseconds)
    const done = (): void => {
      clearTimeout(timer)
      request.off('data', onData).off('end', done).off('close', done)
      socket.off('close', done)
      resolve()
    }
    const onData = (chunk: Buffer): void => {
      left -= chunk.length
      if (left < 0) giveUp()
    }
    request.on('error', () => undefined)
    request.on('data', onData).on('end', done).on('close', done)
    // A request whose answer is out already does not hear of the end of its connection.
    socket.on('close', done)
    // From the first read on, Node leaves the rest of the body to us when the answer is out.
    request.read(0)
    request.resume()
  })
}
