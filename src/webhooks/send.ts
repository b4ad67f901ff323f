/** Sends one message to the receiver of a webhook. */
import type { IncomingMessage } from 'node:http'
import { retryAfter } from '../base/retry-after.js'
import type { Egress } from '../contract/driver-env.js'
import { sendRequest } from '../net/outgoing-request.js'
import { parseWebAddress } from '../net/web-address.js'

interface Message {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly egress: Egress
  readonly signal: AbortSignal
  /** Milliseconds for all of it. */
  readonly timeout: number
  /** Milliseconds since 1970. */
  readonly now: () => number
}

export interface Answer {
  readonly status: number
  /** Seconds after which the receiver wants to be asked again. */
  readonly retryAfter: number | undefined
}

/** Maximum bytes of a response that are received, and ignored. */
const maxResponse = 65_536

/**
 * POSTs the message. Redirects are not followed. Resolves when the response has ended, or, if its status is known, when
 * the time is over. Rejects if there is no response.
 */
export async function send({ url: text, headers, body, egress, signal, timeout, now }: Message): Promise<Answer> {
  const response = await sendRequest(parseWebAddress(text), {
    egress,
    signal,
    method: 'POST',
    headers: {
      'content-type': 'application/cloudevents+json; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      ...headers,
    },
    body,
    timeout,
    untilEnd: true,
  })
  await ignoreBody(response)
  return { status: response.statusCode ?? 0, retryAfter: retryAfter(response.headers, now()) }
}

/** Some programs are ended when they lose their client while they write it. */
async function ignoreBody(response: IncomingMessage): Promise<void> {
  let size = 0
  response.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size > maxResponse) response.destroy()
  })
  await new Promise<void>((resolve) => {
    response.on('error', () => undefined).once('close', resolve)
  })
}
