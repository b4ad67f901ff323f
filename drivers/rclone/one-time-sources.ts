/**
 * Bodies of uploads for rclone, which fetches them by HTTP from this process: each from an address of its own that
 * cannot be guessed, on the loopback interface, once.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Source } from '../../src/contract/call-options.js'
import { GatewayError, toGatewayError } from '../../src/base/errors.js'
import { pump, type Sink } from '../lib/streams/pump.js'
import { WritableSink } from '../lib/streams/writable-sink.js'

export interface OneTimeBody {
  readonly source: Source
  readonly modified: Date | undefined
  readonly signal: AbortSignal | undefined
  /** Called when every byte has been received, before the last ones are sent. If it rejects, the response is cut. */
  readonly beforeEnd?: (() => Promise<void>) | undefined
}

export interface OneTimeSource {
  readonly url: string
  /**
   * Settles when the body was sent or has failed. Resolves to its length in bytes. Rejects with the error of the source
   * or of `beforeEnd`; never settles if the body is not fetched.
   */
  readonly sent: Promise<number>
  /** Whether `sent` has rejected for a reason other than the connection to rclone. */
  readonly hasSourceFailed: () => boolean
  /** Ends the response, if it is not complete. The address is not valid any more. */
  close(): void
}

export class OneTimeSources {
  readonly #offers = new Map<string, (response: ServerResponse) => void>()
  #server: Promise<Server> | undefined

  async offer(body: OneTimeBody): Promise<OneTimeSource> {
    const server = await (this.#server ??= this.#listen().catch((error: unknown) => {
      this.#server = undefined
      throw error
    }))
    const { port } = server.address() as AddressInfo
    const path = `/${randomBytes(32).toString('base64url')}`
    let response: ServerResponse | undefined
    let hasFailed = false
    const sent = new Promise<number>((resolve, reject) => {
      this.#offers.set(path, (into) => {
        this.#offers.delete(path)
        response = into
        const sink = new HeldBackSink(new WritableSink(into))
        send(body, into, sink).then(resolve, (error: unknown) => {
          hasFailed = !sink.isBroken
          into.destroy()
          reject(toGatewayError(error))
        })
      })
    })
    sent.catch(() => undefined) // reported to the uploader
    return {
      url: `http://127.0.0.1:${port}${path}`,
      sent,
      hasSourceFailed: () => hasFailed,
      close: () => {
        this.#offers.delete(path)
        if (response?.writableFinished === false) response.destroy(new GatewayError('aborted'))
      },
    }
  }

  async close(): Promise<void> {
    const server = await this.#server?.catch(() => undefined)
    this.#offers.clear()
    server?.closeAllConnections()
    server?.close()
  }

  async #listen(): Promise<Server> {
    // A body may take any time, and so may the remote that stores it.
    const server = createServer({ requestTimeout: 0 }, (request, response) => this.#answer(request, response))
    // By default, all workers of a cluster listen on one free port together.
    server.listen({ port: 0, host: '127.0.0.1', exclusive: true }).unref()
    await once(server, 'listening')
    return server
  }

  #answer({ method, url = '' }: IncomingMessage, response: ServerResponse): void {
    const offer = method === 'GET' ? this.#offers.get(url) : undefined
    if (offer) offer(response)
    else response.writeHead(404, { connection: 'close' }).end()
  }
}

/** Sends the body with its length and time, where they are known. Resolves to its length. */
async function send(body: OneTimeBody, response: ServerResponse, sink: HeldBackSink): Promise<number> {
  const { source, modified, signal, beforeEnd } = body
  response.setHeader('connection', 'close')
  response.setHeader('content-type', 'application/octet-stream')
  if (source.size !== undefined) response.setHeader('content-length', source.size)
  if (modified) response.setHeader('last-modified', modified.toUTCString())
  const size = await pump(source, sink, signal)
  await beforeEnd?.()
  await sink.finish()
  return size
}

/** Holds back the last chunk, and with it the headers of a body of one chunk, until `finish`. */
class HeldBackSink implements Sink {
  #held: readonly [chunk: Buffer, used: () => void] | undefined

  constructor(private readonly into: WritableSink) {}

  get failed(): Promise<never> {
    return this.into.failed
  }

  get isBroken(): boolean {
    return this.into.isBroken
  }

  write(chunk: Buffer, used: () => void): Promise<void> | undefined {
    const before = this.#held
    this.#held = [chunk, used]
    return before && this.into.write(...before)
  }

  async finish(): Promise<void> {
    if (this.#held) void this.into.write(...this.#held)
    await this.into.finish()
  }
}
