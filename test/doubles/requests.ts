/** What every double of a vendor does with requests: records them, and injects faults. */
import { setTimeout as sleep } from 'node:timers/promises'
import type {
  IncomingHttpHeaders,
  IncomingMessage,
  OutgoingHttpHeaders,
  RequestListener,
  ServerResponse,
} from 'node:http'

export interface LoggedRequest {
  readonly host: string
  readonly method: string
  /** The path with the query. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** Milliseconds of `performance.now()` at its arrival. */
  readonly time: number
  /** Whether it has an `authorization` or a `cookie` header. */
  readonly hasCredentials: boolean
  /** Bytes of the body that have arrived. */
  bodyBytes: number
  /** Undefined until it is answered, and if the connection was cut before. */
  status: number | undefined
}

/** What happens to a request. */
export type Fault =
  /** The request is answered by this, and nothing is done. */
  | { readonly answer: number; readonly headers?: OutgoingHttpHeaders; readonly body?: string }
  /** The connection is cut after this many bytes of the body. */
  | { readonly cutAfter: number }
  /** The connection is cut after this many bytes of the answer's body. `then`: what happens at the vendor meanwhile. */
  | { readonly cutAnswerAfter: number; readonly then?: () => void }
  /** The request is processed, but the connection is cut instead of the answer. */
  | { readonly loseAnswer: true }
  /** The request is processed, and then `holdAnswer` is called. It is never answered. */
  | { readonly holdAnswer: () => void }
  /** The request is processed after so many milliseconds. */
  | { readonly delay: number }

interface Rule {
  readonly matches: (request: LoggedRequest) => boolean
  readonly fault: Fault
  times: number
}

export class Requests {
  /** The requests in the order of their arrival. */
  readonly log: LoggedRequest[] = []
  #rules: Rule[] = []

  /**
   * Injects a fault into the next requests that match: `times` of them. `which`: is found in the text
   * `METHOD host/path?query`.
   */
  inject(which: RegExp, fault: Fault, times = 1): void {
    const matches = ({ method, host, path }: LoggedRequest) => which.test(`${method} ${host}${path}`)
    this.#rules.push({ matches, fault, times })
  }

  clearFaults(): void {
    this.#rules = []
  }

  /** The recorded requests that match, as `inject` matches them. */
  matching(which: RegExp): readonly LoggedRequest[] {
    return this.log.filter(({ method, host, path }) => which.test(`${method} ${host}${path}`))
  }

  /** Bytes of all request bodies. */
  bodyBytes(which = /^/): number {
    return this.matching(which).reduce((sum, { bodyBytes }) => sum + bodyBytes, 0)
  }

  /** The listener, with its requests recorded and faults injected. */
  observed(listener: RequestListener): RequestListener {
    return (request, response) => {
      const logged = this.#record(request)
      response.once('finish', () => {
        logged.status = response.statusCode
      })
      const rule = this.#rules.find(({ times, matches }) => times > 0 && matches(logged))
      if (!rule) {
        listener(request, response)
        return
      }
      rule.times--
      void applyFault(rule.fault, listener, request, response)
    }
  }

  #record(request: IncomingMessage): LoggedRequest {
    const { method = '', url = '', headers } = request
    const logged: LoggedRequest = {
      host: (headers.host ?? '').replace(/:\d+$/, ''),
      method,
      path: url,
      headers,
      time: performance.now(),
      hasCredentials: headers.authorization !== undefined || headers.cookie !== undefined,
      bodyBytes: 0,
      status: undefined,
    }
    this.log.push(logged)
    onBodyBytes(request, (count) => (logged.bodyBytes += count))
    return logged
  }
}

async function applyFault(
  fault: Fault,
  listener: RequestListener,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if ('answer' in fault) {
    request.resume()
    response.writeHead(fault.answer, fault.headers).end(fault.body)
    return
  }
  if ('delay' in fault) await sleep(fault.delay)
  if ('loseAnswer' in fault) {
    const cut = () => {
      request.socket.destroy()
      return response
    }
    Object.assign(response, { write: () => true, end: cut })
  }
  if ('holdAnswer' in fault) {
    const hold = () => {
      fault.holdAnswer()
      return response
    }
    Object.assign(response, { write: () => true, end: hold })
  }
  if ('cutAnswerAfter' in fault) cutAnswer(response, fault.cutAnswerAfter, fault.then)
  if ('cutAfter' in fault) {
    let received = 0
    onBodyBytes(request, (count) => {
      received += count
      // What has arrived since is lost too.
      if (received >= fault.cutAfter) request.destroy(new Error('the connection was cut'))
    })
  }
  listener(request, response)
}

/** Cuts the connection when this many bytes of the answer's body were sent. */
function cutAnswer(response: ServerResponse, limit: number, then?: () => void): void {
  const write = response.write.bind(response)
  let sent = 0
  const counted = (chunk: Buffer, ...rest: readonly unknown[]): boolean => {
    const part = chunk.subarray(0, limit - sent)
    sent += part.length
    if (sent < limit) return Reflect.apply(write, undefined, [part, ...rest]) as boolean
    then?.()
    write(part, () => response.destroy())
    return false
  }
  Object.assign(response, { write: counted })
}

/** Calls `count` with the number of bytes of each chunk of the body that arrives, whoever reads it. */
function onBodyBytes(request: IncomingMessage, count: (bytes: number) => void): void {
  const push = request.push.bind(request)
  request.push = (chunk: Buffer | null, encoding) => {
    if (chunk) count(chunk.length)
    return push(chunk, encoding)
  }
}

/** The whole body. Rejects if the connection is cut before its end. */
export async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}
