/** A server on a free port of this machine, closed at the end of its test. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

/** Resolves to its URL without a trailing slash. */
export async function listen(
  test: Test,
  handler: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> {
  // On a busy machine a test may pause for longer than the usual five seconds between two requests.
  const server = createServer({ keepAliveTimeout: 60_000 }, handler).listen(0, '127.0.0.1')
  await once(server, 'listening')
  test.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
