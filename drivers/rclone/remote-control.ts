/** Speaks to one process of rclone by HTTP: its remote control, and the files of remotes (`--rc-serve`). */
import type { Readable } from 'node:stream'
import type { Egress } from '../../src/contract/driver-env.js'
import { GatewayError } from '../../src/base/errors.js'
import { drain, HttpClient, type HttpResponse } from '../lib/http/http-client.js'

export const serverName = 'process of rclone'

/** Milliseconds for a call that reads or makes few changes. rclone itself gives up on a remote before. */
export const callTimeout = 300_000
/** Milliseconds for a call that moves or sends content, or lists a folder: as long as rclone works on it. */
export const lengthyTimeout = 86_400_000
/** Maximum bytes of a response that is not a listing. */
const maxAnswer = 4 * 1024 * 1024

export interface CallLimits {
  readonly signal?: AbortSignal | undefined
  /** Milliseconds until the response begins. */
  readonly timeout?: number
}

/** The cause of every error that a response of rclone has led to. */
export class RcloneFailure extends Error {
  /** `status`: of HTTP; 404 if a file or folder does not exist, 500 in most other cases. */
  constructor(
    readonly status: number,
    text: string,
  ) {
    super(text)
  }
}

/** The failure of rclone that this error was made of; undefined for others, such as a lost connection. */
export function failureOf(error: unknown): RcloneFailure | undefined {
  return error instanceof GatewayError && error.cause instanceof RcloneFailure ? error.cause : undefined
}

export class RemoteControl {
  readonly #http: HttpClient
  readonly #address: URL
  readonly #authorization: string

  constructor(port: number, credentials: { readonly user: string; readonly password: string }, egress: Egress) {
    this.#address = new URL(`http://127.0.0.1:${port}/`)
    const { user, password } = credentials
    this.#authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
    this.#http = new HttpClient({
      server: serverName,
      address: this.#address,
      verifiesCertificate: true,
      egress,
      idleTimeout: callTimeout,
    })
  }

  /** Resolves to the parsed response. Rejects with `unavailable` and an `RcloneFailure` if the call fails. */
  async call(command: string, parameters: object, limits: CallLimits = {}): Promise<unknown> {
    const { body } = await this.stream(command, parameters, limits)
    return JSON.parse((await contentOf(body, maxAnswer)).toString()) as unknown
  }

  /** Like `call`, with the response as a stream, which the caller reads or destroys. */
  async stream(
    command: string,
    parameters: object,
    { signal, timeout = callTimeout }: CallLimits,
  ): Promise<HttpResponse> {
    const answer = await this.#http.request({
      method: 'POST',
      url: new URL(command, this.#address),
      headers: { authorization: this.#authorization, 'content-type': 'application/json' },
      body: JSON.stringify(parameters),
      signal,
      timeout,
      follow: false,
    })
    if (answer.status === 200) return answer
    throw await failed(answer)
  }

  /** Starts reading a file of a remote. `range`: for the header `Range`. Status 200 or 206. */
  async get(fs: string, remote: string, range: string | undefined, { signal }: CallLimits): Promise<HttpResponse> {
    const path = [`[${fs}]`, ...remote.split('/')].map(encodeURIComponent).join('/')
    const answer = await this.#http.request({
      method: 'GET',
      url: new URL(path, this.#address),
      headers: { authorization: this.#authorization, ...(range !== undefined && { range }) },
      signal,
      timeout: callTimeout,
      follow: false,
    })
    if (answer.status === 200 || answer.status === 206) return answer
    throw await failed(answer)
  }

  close(): void {
    this.#http.close()
  }
}

/** The error for a response. Its text is for the log only: it may name hosts and paths of this machine. */
async function failed({ status, body }: HttpResponse): Promise<GatewayError> {
  const text = (await contentOf(body, maxAnswer).catch(() => Buffer.alloc(0))).toString()
  await drain(body)
  return new GatewayError('unavailable', {
    reason: 'rclone reports an error',
    cause: new RcloneFailure(status, reportedError(text)),
  })
}

function reportedError(text: string): string {
  try {
    const { error } = JSON.parse(text) as { readonly error?: unknown }
    // The address of an upload is of no use to anyone any more, nor to the reader of a log.
    if (typeof error === 'string')
      return error.replaceAll(/http:\/\/127\.0\.0\.1:\d+\/[\w-]+/g, 'the gateway').slice(0, 1000)
  } catch {
    // Not JSON, as for a file that cannot be read.
  }
  return 'no details'
}

async function contentOf(body: Readable, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > limit) throw new GatewayError('unavailable', { reason: `the ${serverName} sent too long a response` })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
