/** Requests of 115's APIs, by host, method and path. */
import type { IncomingHttpHeaders, RequestListener, ServerResponse } from 'node:http'
import { bodyOf } from '../requests.js'

export interface Call {
  readonly method: string
  readonly host: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingHttpHeaders
  readonly cookies: ReadonlyMap<string, string>
  readonly body: Buffer
  /** The body as a form. */
  readonly form: URLSearchParams
}

/** An answer other than JSON with status 200. */
export class Answer {
  constructor(
    readonly body: string | Buffer,
    readonly status = 200,
    readonly headers: Readonly<Record<string, string | string[]>> = {},
  ) {}
}

/** Thrown by a handler: the call is refused. `fields`: further fields of the answer. */
export class Refusal extends Error {
  constructor(
    readonly code: number,
    readonly text: string,
    readonly fields: Readonly<Record<string, unknown>> = {},
  ) {
    super(text)
  }
}

/** Returns the answer: an `Answer`, or what is sent as JSON. Throws a `Refusal`. */
export type Handler = (call: Call) => unknown

/** `routes`: handlers by method and path, as in `GET /files`. */
export function routed(routes: Readonly<Record<string, Handler>>): RequestListener {
  return (request, response) => {
    void (async () => {
      const { method = '', headers } = request
      const host = (headers.host ?? '').replace(/:\d+$/, '')
      const url = new URL(request.url ?? '', `https://${host}`)
      const body = await bodyOf(request)
      const isForm = /^application\/x-www-form-urlencoded\b/.test(headers['content-type'] ?? '')
      const form = new URLSearchParams(isForm ? body.toString() : '')
      const { pathname: path, searchParams: query } = url
      const call = { method, host, path, query, headers, cookies: cookiesOf(headers.cookie), body, form }
      const handler = routes[`${method} ${path}`]
      send(response, handler ? await answerTo(handler, call) : new Answer('404', 404))
    })().catch((error: unknown) => {
      if (!response.headersSent) send(response, new Answer(String(error), 500))
    })
  }
}

async function answerTo(handler: Handler, call: Call): Promise<unknown> {
  try {
    return await handler(call)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { code, text, fields } = error
    // Which of these names the vendor uses depends on the call.
    return { state: false, error: text, errno: code, errNo: code, ...fields }
  }
}

function send(response: ServerResponse, answer: unknown): void {
  const { body, status, headers } =
    answer instanceof Answer
      ? answer
      : new Answer(jsonOf(answer), 200, { 'content-type': 'application/json; charset=utf-8' })
  response.writeHead(status, headers).end(body)
}

/** A number of more digits than a number of JavaScript holds, which is sent as a number of JSON. */
export class LongNumber {
  constructor(private readonly digits: string) {}

  toJSON(): string {
    return `long:${this.digits}`
  }
}

function jsonOf(value: unknown): string {
  return JSON.stringify(value).replace(/"long:(\d+)"/g, '$1')
}

export function cookiesOf(header = ''): ReadonlyMap<string, string> {
  const pairs = header.split(';').map((part) => part.trim().split('='))
  return new Map(pairs.map(([name = '', ...value]) => [name.toUpperCase(), value.join('=')]))
}
