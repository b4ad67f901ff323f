/** A minimal HTTP client: small requests over a fixed number of keep-alive connections. */
import { Agent, request } from 'node:http'

export interface Exchange {
  readonly method: string
  readonly url: string
  readonly headers?: Readonly<Record<string, string | number>>
  readonly body?: Buffer | undefined
}

interface Answer {
  /** Milliseconds from the call to the first byte of the body. */
  readonly firstByte: number
  /** Milliseconds from the call to the last byte of the body. */
  readonly total: number
  readonly bytes: number
}

export class HttpClient {
  readonly #agent: Agent

  constructor(connections: number) {
    this.#agent = new Agent({ keepAlive: true, maxSockets: connections })
  }

  /**
   * Sends a request and discards the response body. Rejects for an unsuccessful status, or after a minute without data.
   */
  send({ method, url, headers = {}, body }: Exchange): Promise<Answer> {
    const begin = performance.now()
    return new Promise((resolve, reject) => {
      const outgoing = request(url, { method, headers, agent: this.#agent, timeout: 60_000 }, (response) => {
        let bytes = 0
        let firstByte = 0
        response.on('data', (chunk: Buffer) => {
          if (bytes === 0) firstByte = performance.now() - begin
          bytes += chunk.length
        })
        response.on('error', reject)
        response.on('end', () => {
          const { statusCode = 0 } = response
          if (statusCode >= 300) reject(new Error(`${method} ${url}: ${statusCode}`))
          else resolve({ firstByte, total: performance.now() - begin, bytes })
        })
      })
      outgoing.on('error', reject)
      outgoing.on('timeout', () => outgoing.destroy(new Error(`${method} ${url}: no answer`)))
      outgoing.end(body)
    })
  }

  close(): void {
    this.#agent.destroy()
  }
}

/** Runs `work` for 0 … count − 1, with `streams` concurrent calls. */
export async function inStreams(
  count: number,
  streams: number,
  work: (index: number, stream: number) => Promise<unknown>,
): Promise<void> {
  let next = 0
  const stream = async (_: unknown, number: number): Promise<void> => {
    while (next < count) await work(next++, number)
  }
  await Promise.all(Array.from({ length: streams }, stream))
}
