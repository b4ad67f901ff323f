/** A receiver of webhooks on loopback, which verifies what it gets with the published libraries. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { HTTP, type CloudEventV1 } from 'cloudevents'
import { Webhook as Verifier } from 'standardwebhooks'
import type { Test } from 'tap'

export interface Received {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** As the library of CloudEvents reads it: it throws for what is not one. */
  readonly event: CloudEventV1<Readonly<Record<string, unknown>>>
}

export type Script = (answer: ServerResponse, turn: number, received: Received) => unknown

export interface Receiver {
  readonly url: string
  readonly received: readonly Received[]
  /** The ids of the events. */
  readonly ids: readonly string[]
  /** Answers further messages. */
  script: Script
}

export const accept: Script = (answer) => answer.writeHead(204).end()

/** Throws unless one of the signatures of the message was made with the secret. */
export function verify(secret: string, { body, headers }: Received): void {
  new Verifier(secret).verify(body, headers)
}

/** Stops with the test, even while requests are in progress. `tls`: a key and a certificate. */
export async function startReceiver(
  t: Test,
  script: Script = accept,
  tls?: { readonly key: Buffer; readonly cert: Buffer },
): Promise<Receiver> {
  const received: Received[] = []
  const receiver = {
    url: '',
    received,
    script,
    get ids() {
      return received.map(({ event }) => event.id)
    },
  }
  const onRequest = (request: IncomingMessage, answer: ServerResponse) => {
    answer.on('error', () => undefined)
    void text(request).then((body) => {
      const headers = request.headers as Readonly<Record<string, string>>
      const event = HTTP.toEvent<Readonly<Record<string, unknown>>>({ headers, body })
      if (Array.isArray(event)) throw new Error('one event was expected')
      const message = { headers, body, event }
      received.push(message)
      receiver.script(answer, received.length, message)
    })
  }
  const server = tls ? createTlsServer(tls, onRequest) : createServer(onRequest)
  server.on('tlsClientError', () => undefined).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  receiver.url = `http${tls ? 's' : ''}://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  return receiver
}
