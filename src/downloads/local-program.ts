/**
 * HTTP calls to the download programs. An admin sets their addresses, so the egress guard does not apply; redirects
 * fail.
 */
import { joinSignals } from '../contract/cancellation.js'
import { GatewayError, toGatewayError } from '../contract/errors.js'

/** Milliseconds of one call. */
const timeout = 10_000

export interface ProgramResponse {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** Sends a request. Rejects with `unavailable` if the program does not answer in time. */
export async function callProgram(
  name: string,
  url: string | URL,
  init: RequestInit & { readonly signal: AbortSignal },
): Promise<ProgramResponse> {
  // AbortSignal.any does not reference the timeout signal: once that is garbage-collected, the call has no timeout
  // (nodejs/node#57736).
  const joined = joinSignals(init.signal, AbortSignal.timeout(timeout))
  try {
    const response = await fetch(url, { ...init, signal: joined.signal, redirect: 'error' })
    return { status: response.status, headers: response.headers, text: await response.text() }
  } catch (error) {
    const failure = toGatewayError(error)
    if (failure.code === 'aborted' && init.signal.aborted) throw failure
    throw new GatewayError('unavailable', { reason: `${name} does not answer`, cause: error })
  } finally {
    joined.release()
  }
}
