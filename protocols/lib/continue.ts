/** `Expect: 100-continue` (RFC 9110 §10.1.1): the body of a refused upload is never transmitted. */
import type { IncomingMessage, ServerResponse } from 'node:http'

const deferred = new WeakMap<IncomingMessage, ServerResponse>()

/** Defers `100 Continue` for this request until the body is read or the final response is sent. */
export function deferContinue(request: IncomingMessage, response: ServerResponse): void {
  deferred.set(request, response)
}

/** Whether the client waits for `100 Continue`. */
export function isContinueDeferred(request: IncomingMessage): boolean {
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
export function declineBody(request: IncomingMessage): boolean {
  const response = deferred.get(request)
  if (!response) return false
  deferred.delete(request)
  if (!response.headersSent) response.setHeader('Connection', 'close')
  else if (response.writableFinished) request.socket.end()
  else response.once('finish', () => request.socket.end())
  return true
}
