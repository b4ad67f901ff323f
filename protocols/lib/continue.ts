/** Clients that ask before they send a body (RFC 9110 §10.1.1): the body of a refused upload never crosses the wire. */
import type { IncomingMessage, ServerResponse } from 'node:http'

const waiting = new WeakMap<IncomingMessage, ServerResponse>()

/** The client of this request waits until `inviteBody`, or until the final answer. */
export function deferContinue(request: IncomingMessage, response: ServerResponse): void {
  waiting.set(request, response)
}

/** Somebody is about to read the body. */
export function inviteBody(request: IncomingMessage): void {
  const response = waiting.get(request)
  if (!response) return
  waiting.delete(request)
  if (!response.headersSent) response.writeContinue()
}

/**
 * Nobody will read the body of a request that still waits to send it; false where none waits. The client may send it or not
 * after the final answer, so only a new connection is clear to both sides.
 */
export function declineBody(request: IncomingMessage): boolean {
  const response = waiting.get(request)
  if (!response) return false
  waiting.delete(request)
  if (!response.headersSent) response.setHeader('Connection', 'close')
  else if (response.writableFinished) request.socket.end()
  else response.once('finish', () => request.socket.end())
  return true
}
