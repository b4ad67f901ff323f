/**
 * The body of an HTTP request: how it is received as a Source, how an unread one is drained, and how that of a refused
 * upload is never sent.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { addAbortSignal, Readable } from 'node:stream'
import { settlesWithin } from '../../src/base/cancellation.js'
import type { DetachableReadable } from '../../src/contract/capabilities.js'
import type { Source } from '../../src/contract/call-options.js'
import type { Hashes } from '../../src/contract/entry.js'
import { GatewayError } from '../../src/base/errors.js'
import { byteSource } from '../../src/contract/sources.js'

/**
 * Requests whose `100 Continue` (RFC 9110 §10.1.1) is deferred until their bodies are read or their final responses are
 * sent.
 */
const deferred = new WeakMap<IncomingMessage, ServerResponse>()

/** Defers `100 Continue` for this request until the body is read or the final response is sent. */
export function deferContinue(request: IncomingMessage, response: ServerResponse): void {
  deferred.set(request, response)
}

/** Whether the client waits for `100 Continue`. */
function isContinueDeferred(request: IncomingMessage): boolean {
  return deferred.has(request)
}

/** Sends a deferred `100 Continue`. Called before the body is read. */
export function sendContinue(request: IncomingMessage): void {
  const response = deferred.get(request)
  if (!response) return
  deferred.delete(request)
  if (!response.headersSent) response.writeContinue()
}

/**
 * Declines the body of a request whose `100 Continue` is still deferred, and closes the connection after the response:
 * the client may or may not send the body, so the connection cannot be reused. Returns false if nothing was deferred.
 */
function declineBody(request: IncomingMessage): boolean {
  const response = deferred.get(request)
  if (!response) return false
  deferred.delete(request)
  if (!response.headersSent) response.setHeader('Connection', 'close')
  else if (response.writableFinished) request.socket.end()
  else response.once('finish', () => request.socket.end())
  return true
}

/** Chunks with fewer bytes are copied together: each of one byte takes some 200 bytes of memory. */
const smallChunk = 4096
const blockSize = 16 * 1024

/** Joins small chunks of a body. What it returns has memory of its own. */
class ChunkJoiner {
  /** A small chunk after which none has come. */
  #single: Buffer | undefined
  #block = Buffer.alloc(0)
  #end = 0

  /** The chunks that are complete with this one. */
  add(chunk: Buffer): readonly Buffer[] {
    if (chunk.length >= smallChunk) return [...this.rest(), chunk]
    const first = this.#single
    this.#single = undefined
    if (first) this.#copy(first)
    else if (this.#end === 0) this.#single = chunk
    if (this.#single) return []
    const full = this.#end + chunk.length > blockSize ? this.rest() : []
    this.#copy(chunk)
    return full
  }

  /** What was added since, as one chunk. */
  rest(): readonly Buffer[] {
    const rest = this.#single ?? Buffer.allocUnsafeSlow(this.#end)
    if (!this.#single) this.#block.copy(rest)
    this.#single = undefined
    this.#end = 0
    return rest.length === 0 ? [] : [rest]
  }

  #copy(chunk: Buffer): void {
    if (this.#block.length === 0) this.#block = Buffer.allocUnsafeSlow(blockSize)
    this.#end += chunk.copy(this.#block, this.#end)
  }
}

export interface BodyMetadata {
  /** Size in bytes. Ignored if the request has a Content-Length. */
  readonly size?: number | undefined
  readonly modified?: Date | undefined
  /** Digests of the whole content, as announced by the client. */
  readonly hashes?: Hashes | undefined
}

interface BodyOptions extends BodyMetadata {
  /**
   * The body is collected in memory: small chunks are joined, however slowly they arrive. By default, only those are
   * that arrive in one turn of the event loop.
   */
  readonly joinsChunks?: boolean
}

/**
 * The body of `request` as a Source that can be read once, from the start. Its size is the Content-Length, otherwise
 * `metadata.size`. The stream's only error is `aborted`, if the request closes before its end. Destroying the stream
 * leaves the request open, so that a response can still be sent.
 */
export function bodySource(
  request: IncomingMessage,
  metadata: BodyOptions = {},
  received: readonly Buffer[] = [],
): Source {
  let isRead = false
  return {
    size: announcedSize(request) ?? metadata.size,
    modified: metadata.modified,
    hashes: metadata.hashes,
    rereadable: false,
    async read(range, options) {
      if (isRead || range !== undefined) {
        throw new GatewayError('internal', { reason: 'a request body can be read once, from the start' })
      }
      isRead = true
      sendContinue(request)
      const body = bodyStream(request, metadata.joinsChunks)
      for (const chunk of received) body.push(chunk)
      return options?.signal === undefined ? body : addAbortSignal(options.signal, body)
    },
  }
}

/** Maximum bytes of a body that is received before it is stored, and milliseconds that this may take. */
const maxWholeBody = 64 * 1024
const maxWholeTime = 1000

/**
 * Like `bodySource`. A body of known and small size has been received when this resolves, unless it arrives slowly, the
 * client waits for `100 Continue`, or the request has closed before its end: the stream then fails.
 */
export async function receiveBody(request: IncomingMessage, metadata: BodyMetadata = {}): Promise<Source> {
  const size = announcedSize(request)
  if (size === undefined || size > maxWholeBody || isContinueDeferred(request)) return bodySource(request, metadata)
  if (size === 0) return byteSource(Buffer.alloc(0), metadata)
  const { chunks, isWhole } = await firstChunks(request)
  if (!isWhole) return bodySource(request, metadata, chunks)
  return byteSource(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks), metadata)
}

/** What arrives of the body within `maxWholeTime`. */
function firstChunks(
  request: IncomingMessage,
): Promise<{ readonly chunks: readonly Buffer[]; readonly isWhole: boolean }> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    // Most bodies are one chunk.
    let joiner: ChunkJoiner | undefined
    const stop = (): void => {
      if (joiner) chunks.push(...joiner.rest())
      clearTimeout(timer)
      request.off('data', onData).off('end', onEnd).off('close', onClose)
    }
    const onData = (chunk: Buffer): void => {
      if (chunks.length === 0) chunks.push(chunk)
      else chunks.push(...(joiner ??= new ChunkJoiner()).add(chunk))
    }
    const onEnd = (): void => {
      stop()
      resolve({ chunks, isWhole: true })
    }
    const onClose = (): void => {
      stop()
      resolve({ chunks, isWhole: false })
    }
    const timer = setTimeout(() => {
      request.pause()
      onClose()
    }, maxWholeTime)
    // The 'close' of the request may have been emitted.
    if (request.destroyed) onClose()
    else {
      // 'close' follows an error, and reports it.
      request.on('error', () => undefined)
      request.on('data', onData).on('end', onEnd).on('close', onClose)
    }
  })
}

function bodyCut(): GatewayError {
  return new GatewayError('aborted', { reason: 'the request ended before its body' })
}

function announcedSize(request: IncomingMessage): number | undefined {
  const text = request.headers['content-length']
  if (text !== undefined) return Number(text) // Node's parser accepts only digits
  return request.headers['transfer-encoding'] === undefined ? 0 : undefined // RFC 9112 §6.3
}

/**
 * Passes the chunks through, small ones joined, and reports a premature end as `aborted`. Consumers own the chunks:
 * Node's parser allocates each one separately and does not retain it.
 */
function bodyStream(request: IncomingMessage, joinsAll = false): DetachableReadable {
  const joiner = new ChunkJoiner()
  const readable = new Readable({
    highWaterMark: 64 * 1024,
    read() {
      request.resume()
    },
    destroy(error, callback) {
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      // `drain` may already read the rest.
      if (request.listenerCount('data') === 0) request.pause()
      callback(error)
    },
  })
  const body = Object.assign(readable, { givesChunks: true } as const)
  const push = (chunks: readonly Buffer[]): void => {
    for (const chunk of chunks) if (!body.push(chunk)) request.pause()
  }
  let isFlushing = false
  const flush = (): void => {
    isFlushing = false
    if (!body.destroyed) push(joiner.rest())
  }
  const onData = (chunk: Buffer): void => {
    push(joiner.add(chunk))
    if (joinsAll || isFlushing || chunk.length >= smallChunk) return
    isFlushing = true
    setImmediate(flush)
  }
  const onEnd = (): void => {
    push(joiner.rest())
    body.push(null)
  }
  const onClose = (): void => {
    if (!request.complete) body.destroy(bodyCut())
  }
  if (request.destroyed) {
    // The 'close' of the request may have been emitted. What it has received is lost, even if it is complete.
    process.nextTick(() => body.destroy(bodyCut()))
  } else {
    request.on('data', onData).on('end', onEnd).on('close', onClose)
    // 'close' follows and reports it. Without a listener, the error would be thrown.
    request.on('error', () => undefined)
    request.pause()
  }
  return body
}

/** Timeout in milliseconds for a body that is buffered in memory, so that slow senders do not hold memory for long. */
const smallBodyTimeout = 60_000

/**
 * The result of `reading`. Rejects with `late()` after the timeout; the caller must then drain the rest of the body.
 */
export async function withTimeout<T>(
  reading: Promise<T>,
  late: () => Error,
  milliseconds = smallBodyTimeout,
): Promise<T> {
  if (await settlesWithin(reading, milliseconds)) return reading
  throw late()
}

interface DrainLimits {
  /** Maximum number of bytes to read. Default: 64 MiB. */
  readonly bytes?: number
  /** Timeout. Default: 15 000. */
  readonly milliseconds?: number
}

/**
 * Reads and discards the rest of a request body, so that a client that sends the whole body before it reads receives
 * the response. Closes the connection when a limit is exceeded. Resolves when the body or the connection has ended.
 * Never rejects.
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
    let remaining = bytes
    const closeConnection = (): void => {
      socket.destroy()
    }
    const timer = setTimeout(closeConnection, milliseconds)
    const done = (): void => {
      clearTimeout(timer)
      request.off('data', onData).off('end', done).off('close', done)
      socket.off('close', done)
      resolve()
    }
    const onData = (chunk: Buffer): void => {
      remaining -= chunk.length
      if (remaining < 0) closeConnection()
    }
    request.on('error', () => undefined)
    request.on('data', onData).on('end', done).on('close', done)
    // Once its response is sent, a request is not notified when the connection closes.
    socket.on('close', done)
    // After the first read, Node does not discard the rest of the body itself when the response is finished
    // (Node.js: lib/_http_server.js).
    request.read(0)
    request.resume()
  })
}
